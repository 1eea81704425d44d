//! What a reviewer is told of a new text, and what keeps one from being proposed at all.

use std::collections::BTreeSet;

use cap_std::fs::Dir;
use skill_format::{
    Diagnostic, Digest, FILE_LIMIT, ResourceKind, Severity, TokenCount, Value, find_fences, tree,
};
use skill_rules::{CheckOptions, CheckScope, EntryKind, FileEntry, Profile, SkillInput};

use crate::diff;
use crate::jail::{self, JailError, RelPath};
use crate::ledger::error::{LedgerError, LedgerErrorKind};
use crate::ledger::place::{ProposalTarget, jail_error};
use crate::ledger::proposal::{LintDelta, LintFinding, ReviewFlag};
use crate::ledger::tree as files;

/// What models take for the program's own words.
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
pub(super) struct DigestedText {
    pub(super) digest: Digest,
    pub(super) text: String,
}

/// What was found out about a change.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ChangeExamination {
    pub(super) diff: String,
    pub(super) added: usize,
    pub(super) removed: usize,
    pub(super) flags: Vec<ReviewFlag>,
    pub(super) lint: LintDelta,
    pub(super) tokens: (u32, u32),
}

impl ProposalTarget {
    /// Reads the file as it is now; nothing if it is not there.
    pub(super) fn read(&self) -> Result<Option<DigestedText>, LedgerError> {
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
                "have the operator change it",
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

    /// Refuses a path that would make a directory of a file.
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

    /// Lists the skill's files as the rules want them, with the new text in place.
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
            Err(_) => Vec::new(),
        };
        entries.push(entry(self.path.to_string(), size, 0o644));
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        entries
    }
}

/// Examines a change of a file; `words` are the texts that come with it.
///
/// # Errors
/// Fails if nothing changes, if the new text is too large or no text, and if it makes a SKILL.md
/// invalid that was valid.
pub(super) fn examine_change(
    subject: &ProposalTarget,
    base: Option<&str>,
    new: &str,
    words: &[&str],
) -> Result<ChangeExamination, LedgerError> {
    check_text(new)?;
    if base == Some(new) {
        return Err(LedgerError::new(
            LedgerErrorKind::Argument,
            format!("{} says exactly that already", subject.path),
            "propose a change, or nothing",
        ));
    }
    let before = base.unwrap_or_default();
    let mut examined = ChangeExamination {
        diff: diff::unified_diff(before, new, subject.path.as_str()),
        added: 0,
        removed: 0,
        flags: flags(subject, base, new, words),
        lint: LintDelta::default(),
        tokens: (TokenCount::estimate(before).get(), TokenCount::estimate(new).get()),
    };
    (examined.added, examined.removed) = diff::count_changes(before, new);
    if subject.is_skill_file() {
        if let Err(parsed) = skill_format::parse_skill(&subject.skill_id, new.as_bytes()) {
            return Err(invalid(subject, parsed.diagnostics.iter()));
        }
        let entries = subject.entries(new.len() as u64);
        let of = |text: &str, scope| findings(subject, text, &entries, scope);
        let old = |scope| base.map(|base| of(base, scope)).unwrap_or_default();
        let errors = |mut found: Vec<Diagnostic>| {
            found.retain(|found| found.severity == Severity::Error);
            found
        };
        let (invalid_now, invalid_before) =
            (errors(of(new, CheckScope::Validate)), errors(old(CheckScope::Validate)));
        let worse = new_findings(&invalid_now, &invalid_before);
        if !worse.is_empty() {
            return Err(invalid(subject, worse.into_iter()));
        }
        let (old, new) = (old(CheckScope::Lint), of(new, CheckScope::Lint));
        let kept = |found: Vec<&Diagnostic>| found.into_iter().map(to_lint_finding).collect();
        examined.lint =
            LintDelta { new: kept(new_findings(&new, &old)), gone: kept(new_findings(&old, &new)) };
    }
    Ok(examined)
}

fn check_text(text: &str) -> Result<(), LedgerError> {
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

fn findings(
    subject: &ProposalTarget,
    text: &str,
    entries: &[FileEntry],
    scope: CheckScope,
) -> Vec<Diagnostic> {
    let input = SkillInput {
        dir_name: &subject.skill_id,
        file_name: Some(subject.path.as_str()),
        bytes: text.as_bytes(),
        files: Some(entries),
    };
    let report = skill_rules::check_skill(&input, CheckOptions { profile: Profile::Spec, scope });
    report.findings.into_iter().map(|found| found.diagnostic).collect()
}

/// Returns the findings that are not among the others; lines do not matter, numbers do.
fn new_findings<'d>(found: &'d [Diagnostic], others: &[Diagnostic]) -> Vec<&'d Diagnostic> {
    let mut others: Vec<_> =
        others.iter().map(|other| Some((other.rule, &other.message))).collect();
    let is_new = |found: &&Diagnostic| {
        let same = Some((found.rule, &found.message));
        match others.iter_mut().find(|other| **other == same) {
            Some(other) => {
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

fn invalid<'d>(
    subject: &ProposalTarget,
    mut found: impl Iterator<Item = &'d Diagnostic>,
) -> LedgerError {
    let error = found.find(|found| found.severity == Severity::Error);
    let message = match error {
        Some(error) => format!("the new {} is not valid: {error}", subject.path),
        None => format!("the new {} is not valid", subject.path),
    };
    let help = error.and_then(|error| error.help.clone());
    LedgerError::new(
        LedgerErrorKind::Invalid,
        message,
        help.unwrap_or_else(|| "propose a text that loads without errors".to_owned()),
    )
}

fn flags(
    subject: &ProposalTarget,
    base: Option<&str>,
    new: &str,
    words: &[&str],
) -> Vec<ReviewFlag> {
    let mut flags = Vec::new();
    let before = base.unwrap_or_default();
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
    if subject.is_skill_file() && base.is_some() {
        let fields = changed_fields(before, new);
        if !fields.is_empty() {
            flags.push(ReviewFlag::Frontmatter { fields });
        }
    }
    if ResourceKind::from_path(subject.path.as_str()) == ResourceKind::Code {
        flags.push(ReviewFlag::Code);
    }
    if !subject.exists {
        flags.push(ReviewFlag::NewSkill);
    }
    flags
}

/// Flags what a diff shows where the texts are not known.
pub(super) fn flags_of_diff(diff: &str, words: &[&str]) -> Vec<ReviewFlag> {
    let count =
        count_hidden_chars(diff) + words.iter().map(|text| count_hidden_chars(text)).sum::<usize>();
    if count > 0 { vec![ReviewFlag::HiddenUnicode { count }] } else { Vec::new() }
}

/// Counts the characters that are not seen: controls, changes of direction, blanks of no width,
/// tags and variation selectors that can carry text.
fn count_hidden_chars(text: &str) -> usize {
    let unseen = |c: &char| {
        matches!(
            c,
            '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{7f}'..='\u{9f}'
                | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
        )
    };
    text.chars().filter(unseen).count()
}

/// Returns the frontmatter's fields that were added, removed or changed, sorted.
fn changed_fields(before: &str, new: &str) -> Vec<String> {
    let fields = |text: &str| match find_fences(text) {
        Some(fences) => match tree::parse_frontmatter(&text[fences.yaml], 1).root {
            Value::Mapping(fields) => fields,
            _ => tree::Mapping::default(),
        },
        None => tree::Mapping::default(),
    };
    let (before, new) = (fields(before), fields(new));
    let names: BTreeSet<&str> =
        before.entries.iter().chain(&new.entries).map(|entry| entry.key.text.as_str()).collect();
    let changed = |name: &&str| match (before.get(name), new.get(name)) {
        (Some(before), Some(new)) => !before.same_content(new),
        _ => true,
    };
    names.into_iter().filter(changed).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_fields_are_named() {
        let before = "---\nname: a\ndescription: b\ntags: [x]\n---\nbody";
        let new = "---\nname: a\ndescription: c\nallowed-tools: Bash\ntags:\n  - x\n---\nother";
        assert_eq!(changed_fields(before, new), ["allowed-tools", "description"]);
        assert_eq!(changed_fields(before, before), Vec::<String>::new());
    }

    #[test]
    fn unseen_characters_are_counted() {
        assert_eq!(count_hidden_chars("plain\ttext\r\nnaïve 技能 😀"), 0);
        assert_eq!(count_hidden_chars("a\u{200b}b\u{202e}c\u{e0041}\u{1b}[2J\u{feff}"), 5);
    }
}
