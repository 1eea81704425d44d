//! Findings that depend on all skills of a run.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;
use skill_catalog::{FoundItem, FoundProblem, find_skills};
use skill_rules::{CatalogSkill, Finding, SkillDocument, check_catalog};
use skillhost_terminal::CliError;

use super::super::report::{CheckedSkill, FindingsReport};

/// The skills of a run, and the entries buffered until the run ends.
#[derive(Default)]
pub(super) struct CrossSkillLinter {
    skills: Vec<CatalogSkill>,
    /// The index of each seen skill among the reported ones.
    places: Vec<usize>,
    seen: Vec<LintedSkill>,
    /// Every entry in order, for formats with one entry per skill.
    held: Vec<BufferedEntry>,
}

/// A skill that is reported now or at the end.
struct LintedSkill {
    path: PathBuf,
    dir: PathBuf,
    is_valid: bool,
}

enum BufferedEntry {
    Skill {
        seen: usize,
        findings: Vec<Finding>,
        properties: Option<Box<RawValue>>,
        fixed: Option<usize>,
    },
    Problem(FoundProblem),
}

impl CrossSkillLinter {
    /// Adds a skill.
    pub(super) fn add(&mut self, subject: &SkillDocument<'_>, checked: &CheckedSkill<'_>) {
        if let Some(skill) = CatalogSkill::from_document(subject) {
            self.skills.push(skill);
            self.places.push(self.seen.len());
        }
        let (path, dir) = (checked.path.to_owned(), checked.dir.to_owned());
        self.seen.push(LintedSkill { path, dir, is_valid: checked.is_valid() });
    }

    /// Buffers the findings of the skill added last.
    pub(super) fn buffer_skill(&mut self, checked: &CheckedSkill<'_>) -> Result<(), CliError> {
        self.held.push(BufferedEntry::Skill {
            seen: self.seen.len().saturating_sub(1),
            findings: checked.findings.to_vec(),
            properties: checked.properties.map(ToOwned::to_owned),
            fixed: checked.fixed,
        });
        Ok(())
    }

    /// Buffers a problem.
    pub(super) fn buffer_problem(&mut self, problem: &FoundProblem) -> Result<(), CliError> {
        self.held.push(BufferedEntry::Problem(problem.clone()));
        Ok(())
    }

    /// Reports the buffered entries and the findings between skills.
    pub(super) fn report_all(self, report: &mut FindingsReport) -> Result<(), CliError> {
        let mut late: Vec<(usize, Vec<Finding>)> = Vec::new();
        for (index, finding) in check_catalog(&self.skills) {
            let seen = self.places[index];
            match late.last_mut() {
                Some((last, findings)) if *last == seen => findings.push(finding),
                _ => late.push((seen, vec![finding])),
            }
        }
        if !report.is_per_skill() {
            for (seen, findings) in late {
                self.report_cross_findings(report, &self.seen[seen], &findings)?;
            }
            return Ok(());
        }
        let mut late = late.into_iter().peekable();
        for held in self.held {
            let BufferedEntry::Skill { seen, mut findings, properties, fixed } = held else {
                if let BufferedEntry::Problem(problem) = held {
                    report.add_problem(&problem)?;
                }
                continue;
            };
            if let Some((_, more)) = late.next_if(|(late, _)| *late == seen) {
                findings.extend(more);
                findings.sort_by_key(|found| (found.diagnostic.line, found.diagnostic.column));
            }
            let LintedSkill { path, dir, .. } = &self.seen[seen];
            let properties = properties.as_deref();
            report.add_skill(&CheckedSkill {
                path,
                dir,
                bytes: &[],
                findings: &findings,
                properties,
                fixed,
            })?;
        }
        Ok(())
    }

    fn report_cross_findings(
        &self,
        report: &mut FindingsReport,
        seen: &LintedSkill,
        findings: &[Finding],
    ) -> Result<(), CliError> {
        let bytes = read_again(&seen.path);
        let LintedSkill { path, dir, .. } = seen;
        let (properties, fixed) = (None, None);
        let checked = CheckedSkill { path, dir, bytes: &bytes, findings, properties, fixed };
        report.add_findings(&checked, seen.is_valid)
    }
}

/// Reads a file for source excerpts; empty if the file no longer exists.
fn read_again(path: &Path) -> Vec<u8> {
    let found = find_skills(path, &mut |found| match found {
        FoundItem::Skill(mut skill) => ControlFlow::Break(skill.read(false).ok()),
        FoundItem::Problem(_) => ControlFlow::Break(None),
    });
    match found {
        ControlFlow::Break(Some(files)) => files.bytes,
        _ => Vec::new(),
    }
}
