//! The findings of a run by file, for a comparison with those of a later run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use skill_catalog::FoundProblem;
use skill_format::Diagnostic;
use skill_rules::Finding;

use super::super::report::SidecarReport;

/// The findings of each file, with its text for excerpts.
#[derive(Default)]
pub(super) struct FileFindings {
    files: BTreeMap<PathBuf, (Vec<Finding>, Vec<u8>)>,
}

impl FileFindings {
    /// Adds a path that is no readable skill.
    pub(super) fn add_problem(&mut self, problem: &FoundProblem) {
        let diagnostic = Diagnostic::error(problem.rule, problem.message.clone());
        self.add(problem.path.clone(), [Finding { diagnostic, edits: Vec::new() }]);
    }

    /// Adds the SKILL.md of a skill.
    pub(super) fn add_skill(&mut self, path: PathBuf, findings: Vec<Finding>, bytes: Vec<u8>) {
        self.files.insert(path, (findings, bytes));
    }

    /// Adds a file next to a SKILL.md.
    pub(super) fn add_sidecar(&mut self, sidecar: SidecarReport) {
        self.add(sidecar.path().to_owned(), sidecar.into_findings());
    }

    /// Adds findings that depend on all skills of the run.
    pub(super) fn add_late(&mut self, late: Vec<(PathBuf, Vec<Finding>)>) {
        late.into_iter().for_each(|(path, findings)| self.add(path, findings));
    }

    fn add(&mut self, path: PathBuf, findings: impl IntoIterator<Item = Finding>) {
        self.files.entry(path).or_default().0.extend(findings);
    }

    /// Returns the findings and the text of a file; both are empty for an unknown file.
    pub(super) fn of_file(&self, path: &Path) -> (&[Finding], &[u8]) {
        match self.files.get(path) {
            Some((findings, bytes)) => (findings, bytes),
            None => (&[], &[]),
        }
    }

    /// Returns the files of this run, followed by those that only another run has.
    pub(super) fn paths_with<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a PathBuf> {
        let others = other.files.keys().filter(|path| !self.files.contains_key(*path));
        self.files.keys().chain(others)
    }

    /// Returns the number of findings.
    pub(super) fn count(&self) -> usize {
        self.files.values().map(|(findings, _)| findings.len()).sum()
    }
}
