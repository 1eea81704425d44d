//! The text that a person reads before a script is run.

use std::fmt::Write as _;

use skillhost_payload::SkillTree;
use skillhost_policy::{ComposedPolicy, PolicyPermission, PolicyUse};

use crate::grant_terms::{GrantTerms, UseTerms};
use crate::plan::ScriptPlan;
use crate::script_result::printable_line;

/// The files that are listed.
const MAX_FILES: usize = 40;

impl ScriptPlan {
    /// Describes the run for its approval: script, digest, command, files, policy and level. Every
    /// text of the skill and of the caller is on one line and printable.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_description(&mut text);
        text
    }

    fn write_description(&self, text: &mut String) -> std::fmt::Result {
        let tree = &self.tree;
        let owner = if tree.is_operator_root { "" } else { ", not the operator's" };
        let kind = if self.policy_use == PolicyUse::Handler { "program" } else { "script" };
        writeln!(
            text,
            "the {kind} {} of the skill {} (root {}{owner})",
            printable_line(&self.path),
            printable_line(&tree.skill_id),
            printable_line(&tree.source)
        )?;
        writeln!(text, "digest {}", tree.digest)?;
        let command: Vec<_> = self.command().iter().map(|word| quote_word(word)).collect();
        writeln!(text, "$ {}", command.join(" "))?;
        writeln!(text, "in {}", printable_line(&self.start_directory().display().to_string()))?;
        for (name, value) in &self.variables {
            writeln!(text, "with {}={}", printable_line(name), quote_word(value))?;
        }
        let level = self.isolation().level.as_str();
        let missing: Vec<_> = self.isolation().missing.iter().map(|g| g.as_str()).collect();
        match missing.as_slice() {
            [] => writeln!(text, "isolation: {level}")?,
            names => writeln!(text, "isolation: {level}, without: {}", names.join(", "))?,
        }
        // Narrowed for this run or with an interpreter of the user, it is not that of the grant.
        writeln!(text, "approval policy {}", self.granted_policy().digest)?;
        writeln!(text, "policy {}:", self.policy().digest())?;
        write_policy(text, self.policy(), &self.policy().explain())?;
        let bytes: u64 = tree.files.iter().map(|file| file.bytes).sum();
        writeln!(text, "{} files, {bytes} bytes:", tree.files.len())?;
        for file in tree.files.iter().take(MAX_FILES) {
            let mode = if file.executable { " (executable)" } else { "" };
            let sha256 = file.sha256.get(..12).unwrap_or(&file.sha256);
            writeln!(text, "  {sha256} {:>8}  {}{mode}", file.bytes, printable_line(&file.path))?;
        }
        if tree.files.len() > MAX_FILES {
            writeln!(text, "  and {} more", tree.files.len() - MAX_FILES)?;
        }
        Ok(())
    }
}

impl GrantTerms {
    /// Describes what a grant of these terms allows, for its approval: all files, and the policy and the
    /// isolation of scripts and of programs. Every text of the skill is on one line and printable.
    #[must_use]
    pub fn describe(&self, tree: &SkillTree) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_description(&mut text, tree);
        text
    }

    fn write_description(&self, text: &mut String, tree: &SkillTree) -> std::fmt::Result {
        let root = printable_line(&tree.root.display().to_string());
        writeln!(text, "{} files in {root}:", tree.files.len())?;
        for file in &tree.files {
            let mode = if file.executable { " (executable)" } else { "" };
            writeln!(text, "  {:>8}  {}{mode}", file.bytes, printable_line(&file.path))?;
        }
        let permissions = |terms: &UseTerms| terms.policy.explain_all_runs();
        let Self { scripts, handlers } = self;
        let is_equal = permissions(scripts) == permissions(handlers)
            && scripts.policy.excess == handlers.policy.excess
            && scripts.isolation == handlers.isolation;
        if is_equal {
            return scripts.write_section(text, "scripts and programs");
        }
        scripts.write_section(text, "scripts")?;
        handlers.write_section(text, "programs")
    }
}

impl UseTerms {
    fn write_section(&self, text: &mut String, code: &str) -> std::fmt::Result {
        let level = self.isolation.level.as_str();
        writeln!(text, "policy of {code}, isolation at least {level}:")?;
        write_policy(text, &self.policy, &self.policy.explain_all_runs())
    }
}

/// Writes the permissions of a policy, and what the skill requests beyond it.
fn write_policy(
    text: &mut String,
    policy: &ComposedPolicy,
    permissions: &[PolicyPermission],
) -> std::fmt::Result {
    for permission in permissions {
        let value = printable_line(&permission.value);
        writeln!(text, "  {} {value} ({})", permission.key, permission.source)?;
    }
    for excess in &policy.excess {
        let value = printable_line(&excess.value);
        writeln!(text, "  not granted, although the skill requests it: {} {value}", excess.key)?;
    }
    Ok(())
}

/// Quotes a word like a shell does; control and hidden characters are escaped visibly.
fn quote_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    if printable_line(word) == *word {
        return format!("'{}'", word.replace('\'', "'\\''"));
    }
    // Before the escapes are added: a backslash of the word must neither look like one nor take the
    // one before a quotation mark.
    let escaped = printable_line(&word.replace('\\', "\\\\"));
    format!("$'{}'", escaped.replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use super::quote_word;

    #[test]
    fn words_are_quoted_visibly() {
        for (word, quoted) in [
            ("a/b.py", "a/b.py"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", "'it'\\''s'"),
            ("a\n$ rm -r", "$'a\\u{a}$ rm -r'"),
            ("\u{1b}[2J", "$'\\u{1b}[2J'"),
            ("x\u{202e}y", "$'x\\u{202e}y'"),
            // Between plain quotation marks a backslash has no meaning.
            ("a\\' b", "'a\\'\\'' b'"),
            ("\n\\' isolation: none", "$'\\u{a}\\\\\\' isolation: none'"),
            ("\n\\u{a}", "$'\\u{a}\\\\u{a}'"),
        ] {
            assert_eq!(quote_word(word), quoted);
        }
    }
}
