//! The check of an open document.

use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

use skill_catalog::{FoundItem, find_skills};
use skill_format::{Diagnostic, FileEntry, SKILL_YAML, SkillInput, decode_file, find_fences};
use skill_policy::{
    POLICY_FILE, PolicyError, PolicyFileError, PolicyFinder, PolicyScope, RuleSelection,
    SETTINGS_FILE, check_policy, check_settings_policy,
};
use skill_rules::{
    CheckScope, Finding, RuleGroup, RuleSet, SkillDocument, TextEdit, apply_fixes, find_rule,
};

use crate::position::finding_range;

/// The kind of file that a document is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DocumentKind {
    /// A SKILL.md, in any spelling.
    Skill,
    /// A `skill.yaml`.
    Sidecar,
    /// A `skillhost-lint.toml`.
    Policy,
    /// A `skillhost.yaml`, of which only the policy is checked.
    Settings,
    /// Any other file, which is not checked.
    Other,
}

/// The findings in a document; ranges count bytes of its text.
#[derive(Debug, Default)]
pub(crate) struct DocumentAnalysis {
    pub(crate) findings: Vec<LocatedFinding>,
    /// The edits that fix everything fixable; empty if there is nothing.
    pub(crate) fix_all: Option<String>,
    /// The offset after the opening fence, where a comment can suppress a rule.
    pub(crate) head_start: Option<usize>,
    /// The error that leaves the document without its policy.
    pub(crate) policy_error: Option<String>,
}

/// A finding with its place.
#[derive(Debug)]
pub(crate) struct LocatedFinding {
    pub(crate) diagnostic: Diagnostic,
    pub(crate) range: Range<usize>,
    pub(crate) edits: Vec<TextEdit>,
    /// Whether a comment can suppress it.
    pub(crate) is_suppressible: bool,
}

/// Returns the kind of a file by its name.
pub(crate) fn kind_of(path: &Path) -> DocumentKind {
    match path.file_name().and_then(|name| name.to_str()) {
        Some(name) if name.eq_ignore_ascii_case("SKILL.md") => DocumentKind::Skill,
        Some(SKILL_YAML) => DocumentKind::Sidecar,
        Some(POLICY_FILE) => DocumentKind::Policy,
        Some(SETTINGS_FILE) => DocumentKind::Settings,
        _ => DocumentKind::Other,
    }
}

/// Checks the text of a document as `lint` checks its file.
pub(crate) fn analyze(path: &Path, text: &str, working_directory: &Path) -> DocumentAnalysis {
    match kind_of(path) {
        DocumentKind::Skill => analyze_skill(path, text, working_directory),
        DocumentKind::Sidecar => {
            let (scope, policy_error) = find_policy(path, working_directory);
            let rules = lint_rules(&scope);
            let found = rules.check_skill_yaml(text, &directory_name(path)).findings;
            DocumentAnalysis {
                findings: locate(text, 0, found),
                policy_error,
                ..Default::default()
            }
        }
        DocumentKind::Policy | DocumentKind::Settings => {
            let errors = match kind_of(path) {
                DocumentKind::Settings => check_settings_policy(text),
                _ => check_policy(text),
            };
            let found = errors.into_iter().map(policy_finding).collect();
            let policy_error = find_ambiguity(path, working_directory);
            DocumentAnalysis {
                findings: locate(text, 0, found),
                policy_error,
                ..Default::default()
            }
        }
        DocumentKind::Other => DocumentAnalysis::default(),
    }
}

fn analyze_skill(path: &Path, text: &str, working_directory: &Path) -> DocumentAnalysis {
    let (scope, policy_error) = find_policy(path, working_directory);
    let dir = path.parent().unwrap_or(path);
    let file_name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if !scope.includes(dir, &file_name) {
        return DocumentAnalysis { policy_error, ..Default::default() };
    }
    let rules = lint_rules(&scope);
    let files = if rules.needs_files() { list_files(path) } else { None };
    let dir_name = directory_name(path);
    let input = SkillInput {
        dir_name: &dir_name,
        file_name: Some(&file_name),
        bytes: text.as_bytes(),
        files: files.as_deref(),
    };
    let document = SkillDocument::new(&input, rules.options().profile);
    let mut found = rules.check(&document).findings;
    scope.split_findings(dir, &file_name, &mut found);
    let fixed = found.iter().any(Finding::is_fixable).then(|| apply_fixes(&input, &rules).text);
    let shift = decoded_start(text);
    let findings = locate(text, shift, found);
    let head_start = find_fences(&text[shift..]).map(|fences| shift + fences.yaml.start);
    let fix_all = fixed.filter(|fixed| fixed != text);
    DocumentAnalysis { findings, fix_all, head_start, policy_error }
}

/// Returns the policy of a file, or the error that hides it.
fn find_policy(path: &Path, working_directory: &Path) -> (PolicyScope, Option<String>) {
    // The file may not be saved yet, its directory mostly exists.
    let dir = path.parent().unwrap_or(path);
    match PolicyFinder::new(working_directory).find(dir) {
        Ok(scope) => (scope, None),
        Err(error) => {
            let message = match &error {
                PolicyFileError::Invalid { path, errors } => {
                    let first = errors.first().map(ToString::to_string).unwrap_or_default();
                    format!("{}:{first}", path.display())
                }
                PolicyFileError::Unreadable { .. } | PolicyFileError::Ambiguous { .. } => {
                    error.to_string()
                }
            };
            (PolicyScope::default(), Some(message))
        }
    }
}

/// Returns the error if the directory of a policy has a second one.
fn find_ambiguity(path: &Path, working_directory: &Path) -> Option<String> {
    let found = PolicyFinder::new(working_directory).find(path.parent().unwrap_or(path));
    let error = found.err().filter(|error| matches!(error, PolicyFileError::Ambiguous { .. }));
    error.map(|error| error.to_string())
}

fn lint_rules(scope: &PolicyScope) -> RuleSet {
    scope.rule_set(CheckScope::Lint, None, &RuleSelection::default())
}

fn policy_finding(error: PolicyError) -> Finding {
    let mut diagnostic =
        Diagnostic::error("policy", error.message).with_position(error.line, error.column);
    diagnostic.help = error.help;
    Finding { diagnostic, edits: Vec::new() }
}

/// Adds the places of findings. Their edits refer to the decoded text, which starts `shift` bytes
/// after the start of the document.
fn locate(text: &str, shift: usize, findings: Vec<Finding>) -> Vec<LocatedFinding> {
    let decoded = &text[shift..];
    let locate = |Finding { diagnostic, mut edits }: Finding| {
        let range = finding_range(decoded, diagnostic.line, diagnostic.column);
        for edit in &mut edits {
            edit.range = edit.range.start + shift..edit.range.end + shift;
        }
        let is_advice = find_rule(diagnostic.rule).is_some_and(|it| it.group == RuleGroup::Lint);
        let is_suppressible = is_advice && diagnostic.severity != skill_format::Severity::Error;
        let range = range.start + shift..range.end + shift;
        LocatedFinding { diagnostic, range, edits, is_suppressible }
    };
    findings.into_iter().map(locate).collect()
}

/// Returns the length of the byte order mark that decoding removes.
fn decoded_start(text: &str) -> usize {
    let decoded = decode_file(text.as_bytes()).map_or(text.len(), |decoded| decoded.text.len());
    text.len().saturating_sub(decoded)
}

fn directory_name(path: &Path) -> String {
    let name = path.parent().and_then(Path::file_name).unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Returns the files of the skill of a SKILL.md; `None` if it is not on the disk.
fn list_files(path: &Path) -> Option<Vec<FileEntry>> {
    let found = find_skills(path, &mut |found| match found {
        FoundItem::Skill(skill) => ControlFlow::Break(skill.list_files().ok()),
        FoundItem::Problem(_) => ControlFlow::Break(None),
    });
    match found {
        ControlFlow::Break(files) => files,
        ControlFlow::Continue(()) => None,
    }
}

/// Returns the path of a `file:` URI (RFC 8089).
pub(crate) fn path_of_uri(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    // The host is empty or the machine itself.
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if !path.starts_with('/') {
        return None;
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        let digits = std::str::from_utf8(&digits).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
    }
    if bytes.contains(&0) {
        return None;
    }
    Some(PathBuf::from(String::from_utf8(bytes).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_decoded() {
        for (uri, path) in [
            ("file:///a/b%20c/SKILL.md", Some("/a/b c/SKILL.md")),
            ("file://localhost/a", Some("/a")),
            ("file:///%C3%BC", Some("/ü")),
            ("file://host/a", None),
            ("untitled:Untitled-1", None),
            ("file:///a%2", None),
            ("file:///a%zz", None),
            ("file:///a%00", None),
            ("file:///%FF", None),
        ] {
            assert_eq!(path_of_uri(uri), path.map(PathBuf::from), "{uri}");
        }
    }

    #[test]
    fn byte_order_mark_shifts_places() {
        let text = "\u{feff}---\nname: x\ndescription: Counts beads. Use when asked to count.\n---\nOpen `scripts\\b.md`.\n";
        let path = Path::new("/nowhere/x/SKILL.md");
        let analysis = analyze(path, text, Path::new("/"));
        let found = analysis.findings.iter().find(|it| it.diagnostic.rule == "backslash-path");
        let found = found.unwrap();
        assert_eq!(&text[found.range.clone()], "`scripts\\b.md`.");
        assert_eq!(&text[found.edits[0].range.clone()], "scripts\\b.md");
        assert!(analysis.fix_all.is_some_and(|fixed| fixed.contains("scripts/b.md")));
    }

    #[test]
    fn hostile_texts_are_analyzed() {
        for text in [
            "",
            "lint: {",
            "\u{feff}",
            "---",
            "---\n---",
            "\u{0}\r\r\n",
            "---\r\nname: x\r\n---\r\n",
        ] {
            for name in ["SKILL.md", "skill.yaml", "skillhost-lint.toml", "skillhost.yaml", "x"] {
                let path = Path::new("/nowhere/x").join(name);
                for found in analyze(&path, text, Path::new("/")).findings {
                    assert!(text.get(found.range.clone()).is_some(), "{text:?} {:?}", found.range);
                }
            }
        }
    }
}
