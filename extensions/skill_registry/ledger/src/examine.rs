//! Examination of a proposed text: warnings for the reviewer, and errors that prevent a proposal.

use std::collections::BTreeSet;

use cap_std::fs::Dir;
use skill_format::{
    Diagnostic, Digest, EntryKind, FILE_LIMIT, FileEntry, ResourceKind, Severity, SkillInput,
    TokenCount, find_fences, tree,
};
use skill_rules::{CheckOptions, CheckScope, Profile};
use skillhost_files::jail::{self, JailError, RelPath};
use yaml_tree::Value;

use crate::files::skill_directory::{ProposalTarget, jail_error};
use crate::files::tree as files;
use crate::records::error::{LedgerError, LedgerErrorKind};
use crate::records::proposal::{LintDelta, LintFinding, ReviewFlag};

/// Markup that models mistake for the program's own, in lower case.
const MARKS: [&str; 9] = [
    "<skill_content",
    "</skill_content",
    "<available_skills",
    "</available_skills",
    "<active_skills",
    "[available skills]",
    "<system",
    "</system",
    "<|im_start|>",
];

/// A text of a skill and its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DigestedText {
    pub(crate) digest: Digest,
    pub(crate) text: String,
}

/// The result of the examination of a change.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChangeExamination {
    pub(crate) diff: String,
    pub(crate) added: usize,
    pub(crate) removed: usize,
    pub(crate) flags: Vec<ReviewFlag>,
    pub(crate) lint: LintDelta,
    pub(crate) tokens: (u32, u32),
}

impl ProposalTarget {
    /// Reads the current file; `None` if it does not exist.
    pub(crate) fn read(&self) -> Result<Option<DigestedText>, LedgerError> {
        let location = self.location();
        let failed = |error: JailError| jail_error(&error, &location);
        let dir = match self.place.open(false) {
            Err(JailError::NotFound) => return Ok(None),
            opened => opened.map_err(failed)?,
        };
        let Some(content) = files::read_file(&dir, &self.path).map_err(failed)? else {
            self.check_parents(&dir)?;
            return Ok(None);
        };
        if content.len() > FILE_LIMIT {
            return Err(LedgerError::new(
                LedgerErrorKind::TooLarge,
                format!(
                    "{} has {} bytes, at most {FILE_LIMIT} can be changed by a proposal",
                    location.display(),
                    content.len()
                ),
                "ask the operator to change it",
            ));
        }
        let text = std::str::from_utf8(&content).ok().filter(|text| !text.contains('\0'));
        let text = text.ok_or_else(|| {
            LedgerError::new(
                LedgerErrorKind::Denied,
                format!("{} is not UTF-8 text", location.display()),
                "only text files can be changed by a proposal",
            )
        })?;
        Ok(Some(DigestedText { digest: Digest::compute(&content), text: text.to_owned() }))
    }

    /// Checks that no parent of the path is a file.
    fn check_parents(&self, dir: &Dir) -> Result<(), LedgerError> {
        let mut path = self.path.as_str();
        while let Some((above, _)) = path.rsplit_once('/') {
            let is_file =
                RelPath::new(above).is_ok_and(|above| jail::open_file(dir, &above).is_ok());
            if is_file {
                return Err(LedgerError::new(
                    LedgerErrorKind::Denied,
                    format!("{above} is a file, not a directory"),
                    "choose another path",
                ));
            }
            path = above;
        }
        Ok(())
    }

    fn is_skill_file(&self) -> bool {
        self.path.as_str().eq_ignore_ascii_case("skill.md")
    }

    /// Lists the skill's files in the form of the rules, with the new text in place.
    fn entries(&self, size: u64) -> Vec<FileEntry> {
        let captured = self.place.open(false).and_then(|dir| files::CapturedTree::read(&dir));
        let entry =
            |path: String, size, mode| FileEntry { path, size, mode, kind: EntryKind::File };
        let mut entries: Vec<FileEntry> = match captured {
            Ok(captured) => {
                let other =
                    captured.files.into_iter().filter(|file| file.path != self.path.as_str());
                other.map(|file| entry(file.path, file.size, 0o644 | file.mode)).collect()
            }
            // A new skill has no directory yet.
            Err(_) => Vec::new(),
        };
        entries.push(entry(self.path.to_string(), size, 0o644));
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        entries
    }
}

/// Examines a change of a file; `words` are the texts that accompany it.
///
/// # Errors
/// Fails if the text does not change, if the new text is too large or not text, and if it makes a
/// valid SKILL.md invalid.
pub(crate) fn examine_change(
    target: &ProposalTarget,
    base: Option<&str>,
    new: &str,
    words: &[&str],
) -> Result<ChangeExamination, LedgerError> {
    check_new_text(new)?;
    if base == Some(new) {
        return Err(LedgerError::new(
            LedgerErrorKind::Refused,
            format!("no_change: {} already has exactly this text", target.path),
            "propose a change, or no proposal at all",
        ));
    }
    let before = base.unwrap_or_default();
    let mut examined = ChangeExamination {
        diff: skill_diff::unified_diff(before, new, target.path.as_str()),
        added: 0,
        removed: 0,
        flags: review_flags(target, base, new, words),
        lint: LintDelta::default(),
        tokens: (TokenCount::estimate(before).get(), TokenCount::estimate(new).get()),
    };
    (examined.added, examined.removed) = skill_diff::count_changes(before, new);
    if target.is_skill_file() {
        if let Err(parsed) = skill_format::parse_skill(&target.skill_id, new.as_bytes()) {
            return Err(invalid_text_error(target, parsed.diagnostics.iter()));
        }
        let entries = target.entries(new.len() as u64);
        let check = |text: &str, scope| check_text(target, text, &entries, scope);
        let old = |scope| base.map(|base| check(base, scope)).unwrap_or_default();
        let errors = |mut found: Vec<Diagnostic>| {
            found.retain(|found| found.severity == Severity::Error);
            found
        };
        let (invalid_now, invalid_before) =
            (errors(check(new, CheckScope::Validate)), errors(old(CheckScope::Validate)));
        // Errors that were there before do not count: a proposal may fix a broken skill step by
        // step.
        let worse = new_findings(&invalid_now, &invalid_before);
        if !worse.is_empty() {
            return Err(invalid_text_error(target, worse.into_iter()));
        }
        let (old, new) = (old(CheckScope::Lint), check(new, CheckScope::Lint));
        let to_stored = |found: Vec<&Diagnostic>| found.into_iter().map(to_lint_finding).collect();
        examined.lint = LintDelta {
            new: to_stored(new_findings(&new, &old)),
            gone: to_stored(new_findings(&old, &new)),
        };
    }
    Ok(examined)
}

fn check_new_text(text: &str) -> Result<(), LedgerError> {
    if text.len() > FILE_LIMIT {
        return Err(LedgerError::new(
            LedgerErrorKind::TooLarge,
            format!("the new text has {} bytes, at most {FILE_LIMIT} are possible", text.len()),
            "move the bulk of the text into files under references/",
        ));
    }
    if text.contains('\0') {
        return Err(LedgerError::new(
            LedgerErrorKind::Argument,
            "the new text contains NUL",
            "only text can be proposed",
        ));
    }
    Ok(())
}

fn check_text(
    target: &ProposalTarget,
    text: &str,
    entries: &[FileEntry],
    scope: CheckScope,
) -> Vec<Diagnostic> {
    let input = SkillInput {
        dir_name: &target.skill_id,
        file_name: Some(target.path.as_str()),
        bytes: text.as_bytes(),
        files: Some(entries),
    };
    let report = skill_rules::check_skill(&input, CheckOptions { profile: Profile::Spec, scope });
    report.findings.into_iter().map(|found| found.diagnostic).collect()
}

/// Returns the findings that are not among the others; lines are ignored, repetitions count.
fn new_findings<'d>(found: &'d [Diagnostic], others: &[Diagnostic]) -> Vec<&'d Diagnostic> {
    let mut others: Vec<_> =
        others.iter().map(|other| Some((other.rule, &other.message))).collect();
    let is_new = |found: &&Diagnostic| {
        let same = Some((found.rule, &found.message));
        match others.iter_mut().find(|other| **other == same) {
            Some(other) => {
                // Each of the others matches one finding only.
                *other = None;
                false
            }
            None => true,
        }
    };
    found.iter().filter(is_new).collect()
}

fn to_lint_finding(found: &Diagnostic) -> LintFinding {
    LintFinding {
        rule: found.rule.to_owned(),
        severity: found.severity,
        line: found.line,
        message: found.message.clone(),
    }
}

fn invalid_text_error<'d>(
    target: &ProposalTarget,
    mut found: impl Iterator<Item = &'d Diagnostic>,
) -> LedgerError {
    let error = found.find(|found| found.severity == Severity::Error);
    let message = match error {
        Some(error) => format!("the new {} is not valid: {error}", target.path),
        None => format!("the new {} is not valid", target.path),
    };
    // The rule's own help is more specific than the general hint.
    let help = error.and_then(|error| error.help.clone());
    LedgerError::new(
        LedgerErrorKind::Invalid,
        message,
        help.unwrap_or_else(|| "propose a text that loads without errors".to_owned()),
    )
}

fn review_flags(
    target: &ProposalTarget,
    base: Option<&str>,
    new: &str,
    words: &[&str],
) -> Vec<ReviewFlag> {
    let mut flags = Vec::new();
    let before = base.unwrap_or_default();
    // Only an increase is a warning: a skill may have such characters on purpose.
    let count = count_hidden_chars(new).saturating_sub(count_hidden_chars(before))
        + words.iter().map(|text| count_hidden_chars(text)).sum::<usize>();
    if count > 0 {
        flags.push(ReviewFlag::HiddenUnicode { count });
    }
    let (low, low_before) = (new.to_ascii_lowercase(), before.to_ascii_lowercase());
    let mark =
        MARKS.into_iter().find(|mark| low.matches(mark).count() > low_before.matches(mark).count());
    if let Some(mark) = mark {
        flags.push(ReviewFlag::PromptMarkup { found: mark.to_owned() });
    }
    if target.is_skill_file() && base.is_some() {
        let fields = changed_fields(before, new);
        if !fields.is_empty() {
            flags.push(ReviewFlag::Frontmatter { fields });
        }
    }
    if ResourceKind::from_path(target.path.as_str()) == ResourceKind::Code {
        flags.push(ReviewFlag::Code);
    }
    if !target.exists {
        flags.push(ReviewFlag::NewSkill);
    }
    flags
}

/// Returns the warnings that a diff alone allows, where the texts are not known.
pub(crate) fn flags_of_diff(diff: &str, words: &[&str]) -> Vec<ReviewFlag> {
    let count =
        count_hidden_chars(diff) + words.iter().map(|text| count_hidden_chars(text)).sum::<usize>();
    if count > 0 { vec![ReviewFlag::HiddenUnicode { count }] } else { Vec::new() }
}

/// Counts the invisible characters: controls, direction changes, zero-width spaces, tags and
/// variation selectors that can carry text.
fn count_hidden_chars(text: &str) -> usize {
    let is_hidden = |c: &char| {
        matches!(
            c,
            '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{7f}'..='\u{9f}'
                | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
        )
    };
    text.chars().filter(is_hidden).count()
}

/// Returns the frontmatter fields that were added, removed or changed, sorted.
fn changed_fields(before: &str, new: &str) -> Vec<String> {
    let fields = |text: &str| match find_fences(text) {
        Some(fences) => match tree::parse_frontmatter(&text[fences.yaml], 1).root {
            Value::Mapping(fields) => fields,
            _ => yaml_tree::Mapping::default(),
        },
        None => yaml_tree::Mapping::default(),
    };
    let (before, new) = (fields(before), fields(new));
    let names: BTreeSet<&str> =
        before.entries.iter().chain(&new.entries).map(|entry| entry.key.text.as_str()).collect();
    let changed = |name: &&str| match (before.get(name), new.get(name)) {
        // Compares values, not spellings: a reformatted field did not change.
        (Some(before), Some(new)) => !before.same_content(new),
        _ => true,
    };
    names.into_iter().filter(changed).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frontmatter_changes_are_detected() {
        let before = "---\nname: a\ndescription: b\ntags: [x]\n---\nbody";
        let new = "---\nname: a\ndescription: c\nallowed-tools: Bash\ntags:\n  - x\n---\nother";
        assert_eq!(changed_fields(before, new), ["allowed-tools", "description"]);
        assert_eq!(changed_fields(before, before), Vec::<String>::new());
    }

    #[test]
    fn hidden_characters_are_counted() {
        assert_eq!(count_hidden_chars("plain\ttext\r\nnaïve 技能 😀"), 0);
        assert_eq!(count_hidden_chars("a\u{200b}b\u{202e}c\u{e0041}\u{1b}[2J\u{feff}"), 5);
    }
}
