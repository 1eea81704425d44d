//! What a registry's log says of the skill folders.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use skill_format::{Digest, LARGE_SKILL, Severity, SkillId, sanitize_line};

use crate::problem::ScanProblem;
use crate::snapshot::Snapshot;

/// A line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogMessage {
    /// Whether somebody should do something about it.
    pub warning: bool,
    /// The text; whatever it quotes is harmless.
    pub text: String,
}

impl LogMessage {
    /// Makes a warning; the text may quote anybody's.
    #[must_use]
    pub fn warning(text: &str) -> Self {
        Self { warning: true, text: sanitize_line(text) }
    }
}

/// Finds out what is news in a snapshot.
#[derive(Debug, Default)]
pub struct ChangeLog {
    /// The versions of skills that were called large.
    large: Mutex<HashSet<(SkillId, Digest)>>,
}

impl ChangeLog {
    /// Says at the start what is left out and what cannot be searched.
    #[must_use]
    pub fn initial_messages(snapshot: &Snapshot) -> Vec<LogMessage> {
        let skipped = snapshot.problems().iter().filter(|problem| problem.skipped);
        skipped.map(|problem| line(problem)).collect()
    }

    /// Says what is wrong and was not before, and once of each version of a skill that it should be
    /// split.
    pub fn messages_since(&self, before: &Snapshot, after: &Snapshot) -> Vec<LogMessage> {
        let mut large = self.large.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = Vec::new();
        for skill in after.large_skills() {
            // What was only listed so far has no digest, and its size is an estimate.
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

/// What makes two findings the same, whatever line they have moved to.
fn key(problem: &ScanProblem) -> (&Path, &str) {
    (&problem.path, problem.diagnostic.rule)
}

/// The finding may quote anybody's text.
fn line(problem: &ScanProblem) -> LogMessage {
    let warning = problem.diagnostic.severity != Severity::Note;
    LogMessage { warning, text: sanitize_line(&problem.to_string()) }
}
