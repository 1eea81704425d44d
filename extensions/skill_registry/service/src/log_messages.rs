//! The messages of a registry's log.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use skill_catalog::{ScanProblem, Snapshot};
use skill_format::{Digest, LARGE_SKILL, Severity, SkillId, sanitize_line};
use skill_ledger::{LedgerNote, LedgerOutcome};

/// A line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogMessage {
    /// `true` if the operator should act on it.
    pub warning: bool,
    /// The text; control characters of quoted text are escaped.
    pub text: String,
}

impl LogMessage {
    /// Creates a warning; the text may quote untrusted content.
    #[must_use]
    pub fn warning(text: &str) -> Self {
        Self { warning: true, text: sanitize_line(text) }
    }

    /// Returns the messages for the notes and the error of a ledger operation.
    #[must_use]
    pub fn from_outcome(outcome: &LedgerOutcome) -> Vec<Self> {
        let mut messages = Self::from_notes(&outcome.notes);
        messages.extend(outcome.trouble.iter().map(|error| {
            Self::warning(&format!("the ledger cannot be used: {error}; {}", error.hint()))
        }));
        messages
    }

    /// Returns the messages for the notes of a ledger operation.
    #[must_use]
    pub fn from_notes(notes: &[LedgerNote]) -> Vec<Self> {
        notes.iter().map(|note| Self::warning(&note.to_string())).collect()
    }
}

/// A detector of reportable changes between snapshots.
#[derive(Debug, Default)]
pub struct ChangeLog {
    /// The versions of skills that were called large.
    large: Mutex<HashSet<(SkillId, Digest)>>,
}

impl ChangeLog {
    /// Reports at the start the skipped files and the limits of the search.
    #[must_use]
    pub fn initial_messages(snapshot: &Snapshot) -> Vec<LogMessage> {
        let skipped = snapshot.problems().iter().filter(|problem| problem.skipped);
        skipped.map(|problem| line(problem)).collect()
    }

    /// Reports new problems, and once per version of a skill that it should be split.
    pub fn messages_since(&self, before: &Snapshot, after: &Snapshot) -> Vec<LogMessage> {
        let mut large = self.large.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = Vec::new();
        for skill in after.large_skills() {
            // A text that was only listed has no digest, and its size is an estimate.
            let Some(digest) = skill.digest() else { continue };
            if large.insert((skill.id().clone(), digest)) {
                let (id, tokens) = (skill.id(), skill.tokens());
                let text = format!(
                    "`{id}` has {tokens} tokens, which is over {LARGE_SKILL}: split it, or move \
                     detail into references/"
                );
                lines.push(LogMessage::warning(&text));
            }
        }
        let known: HashSet<_> = before.problems().iter().map(|problem| key(problem)).collect();
        let news = after.problems().iter().filter(|problem| !known.contains(&key(problem)));
        lines.extend(news.map(|problem| line(problem)));
        lines
    }
}

/// Returns the identity of a finding, independent of its line number.
fn key(problem: &ScanProblem) -> (&Path, &str) {
    (&problem.path, problem.diagnostic.rule)
}

/// Formats a finding as a warning; it may quote untrusted content.
fn line(problem: &ScanProblem) -> LogMessage {
    let warning = problem.diagnostic.severity != Severity::Note;
    LogMessage { warning, text: sanitize_line(&problem.to_string()) }
}
