//! The problems that a scan reports.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Serialize, Serializer};
use skill_format::{Diagnostic, Digest, Severity, SkillId};

/// A finding about one file or directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ScanProblem {
    /// The file or directory.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// The skill it belongs to, where it has an id.
    pub skill: Option<SkillId>,
    /// `true` if the file or directory was skipped because of it.
    pub skipped: bool,
    /// The diagnostic.
    #[serde(flatten)]
    pub diagnostic: Diagnostic,
}

impl ScanProblem {
    /// Creates a finding about a complete file or directory.
    pub(crate) fn for_path(
        path: PathBuf,
        skill: Option<SkillId>,
        skipped: bool,
        found: ProblemDraft,
    ) -> Arc<Self> {
        Arc::new(Self { path, skill, skipped, diagnostic: found.into() })
    }
}

impl fmt::Display for ScanProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.diagnostic)
    }
}

/// A builder for a diagnostic about a complete file or directory.
#[derive(Clone, Debug)]
pub(crate) struct ProblemDraft {
    pub(crate) rule: &'static str,
    pub(crate) severity: Severity,
    pub(crate) message: String,
    pub(crate) help: &'static str,
}

impl ProblemDraft {
    /// Creates the note that an earlier text is served.
    pub(crate) fn last_good(digest: Option<Digest>) -> Self {
        let version = digest.map_or_else(String::new, |digest| digest.short());
        Self::warning(
            "file.lastGood",
            format!("the last good version {version} is served until the file is repaired"),
            "repair the file; the next poll takes it up",
        )
    }

    pub(crate) fn error(rule: &'static str, message: String, help: &'static str) -> Self {
        Self { rule, severity: Severity::Error, message, help }
    }

    pub(crate) fn warning(rule: &'static str, message: String, help: &'static str) -> Self {
        Self { rule, severity: Severity::Warning, message, help }
    }

    pub(crate) fn note(rule: &'static str, message: String, help: &'static str) -> Self {
        Self { rule, severity: Severity::Note, message, help }
    }
}

impl From<ProblemDraft> for Diagnostic {
    fn from(found: ProblemDraft) -> Self {
        Self {
            rule: found.rule,
            severity: found.severity,
            line: 0,
            column: 0,
            message: found.message,
            help: (!found.help.is_empty()).then(|| found.help.to_owned()),
        }
    }
}

/// The reasons why a scan is partial.
///
/// A partial scan retains every entry whose absence it has not observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PartialScan {
    /// The reasons, one per cut.
    pub reasons: Vec<PartialReason>,
}

impl fmt::Display for PartialScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, reason) in self.reasons.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}{reason}")?;
        }
        Ok(())
    }
}

/// A reason why a scan is partial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
#[non_exhaustive]
pub enum PartialReason {
    /// The limit on opened directories was reached.
    DirectoryLimit {
        /// The limit.
        limit: usize,
    },
    /// The limit on skills was reached.
    SkillLimit {
        /// The limit.
        limit: usize,
    },
    /// A directory could not be read.
    Unreadable {
        /// The directory.
        #[serde(serialize_with = "lossy")]
        path: PathBuf,
        /// The message of the system.
        message: String,
    },
    /// A root that had skills is missing; its entries are retained.
    RootVanished {
        /// The root's label.
        label: String,
        /// The root's directory.
        #[serde(serialize_with = "lossy")]
        path: PathBuf,
    },
}

impl fmt::Display for PartialReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DirectoryLimit { limit } => {
                write!(f, "only the first {limit} directories were searched")
            }
            Self::SkillLimit { limit } => write!(f, "only the first {limit} skills were taken"),
            Self::Unreadable { path, message } => {
                write!(f, "{} could not be read: {message}", path.display())
            }
            Self::RootVanished { label, path } => {
                write!(f, "root `{label}` vanished: {}", path.display())
            }
        }
    }
}

/// Serializes a path as text; bytes that are not UTF-8 are replaced.
fn lossy<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_serializes_flat() {
        let found = ProblemDraft::error("scan.example", "it is odd".into(), "make it even");
        let problem = ScanProblem::for_path("a/b".into(), SkillId::new("b").ok(), true, found);
        assert_eq!(problem.to_string(), "a/b: error[scan.example]: it is odd");
        assert_eq!(
            serde_json::to_value(&*problem).unwrap(),
            serde_json::json!({
                "path": "a/b", "skill": "b", "skipped": true, "rule": "scan.example",
                "severity": "error", "line": 0, "column": 0, "message": "it is odd",
                "help": "make it even",
            })
        );
    }

    #[test]
    fn partial_reasons_fit_one_line() {
        let reasons = vec![
            PartialReason::SkillLimit { limit: 3 },
            PartialReason::Unreadable { path: "a/b".into(), message: "no".into() },
            PartialReason::RootVanished { label: "team".into(), path: "c".into() },
        ];
        assert_eq!(
            PartialScan { reasons }.to_string(),
            "only the first 3 skills were taken; a/b could not be read: no; root `team` vanished: c"
        );
    }
}
