//! Findings that depend on all skills of a run.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde_json::value::RawValue;
use skill_catalog::{FoundItem, FoundProblem, find_skills};
use skill_policy::SuppressedFinding;
use skill_rules::{CatalogSkill, Finding, SkillDocument, check_catalog};
use skillhost_terminal::CliError;

use super::super::policy_run::ScopedRules;
use super::super::report::{CheckedSkill, FindingsReport, FixRecord};

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
    file_name: String,
    is_valid: bool,
    rules: Rc<ScopedRules>,
}

enum BufferedEntry {
    Skill {
        seen: usize,
        findings: Vec<Finding>,
        properties: Option<Box<RawValue>>,
        suppressed: Vec<SuppressedFinding>,
        fix: FixRecord,
    },
    Problem(FoundProblem),
}

impl CrossSkillLinter {
    /// Adds a skill.
    pub(super) fn add(
        &mut self,
        subject: &SkillDocument<'_>,
        checked: &CheckedSkill<'_>,
        rules: Rc<ScopedRules>,
    ) {
        if let Some(skill) = CatalogSkill::from_document(subject) {
            self.skills.push(skill);
            self.places.push(self.seen.len());
        }
        let (path, dir) = (checked.path.to_owned(), checked.dir.to_owned());
        let file_name = subject.input().file_name.unwrap_or_default().to_owned();
        let is_valid = checked.is_valid();
        self.seen.push(LintedSkill { path, dir, file_name, is_valid, rules });
    }

    /// Buffers the findings of the skill added last.
    pub(super) fn buffer_skill(&mut self, checked: &CheckedSkill<'_>) -> Result<(), CliError> {
        self.held.push(BufferedEntry::Skill {
            seen: self.seen.len().saturating_sub(1),
            findings: checked.findings.to_vec(),
            properties: checked.properties.map(ToOwned::to_owned),
            suppressed: checked.suppressed.to_vec(),
            fix: checked.fix.clone(),
        });
        Ok(())
    }

    /// Buffers a problem.
    pub(super) fn buffer_problem(&mut self, problem: &FoundProblem) -> Result<(), CliError> {
        self.held.push(BufferedEntry::Problem(problem.clone()));
        Ok(())
    }

    /// Reports the buffered entries and the findings between skills. Returns the latter as
    /// [`CrossSkillLinter::into_late_findings`] does, unless they are part of the entries.
    pub(super) fn report_all(
        self,
        report: &mut FindingsReport,
    ) -> Result<Vec<(PathBuf, Vec<Finding>)>, CliError> {
        let late = self.find_late();
        if !report.is_per_skill() {
            for late in &late {
                self.report_late(report, late)?;
            }
            return Ok(self.with_paths(late));
        }
        let mut late = late.into_iter().peekable();
        for held in self.held {
            let BufferedEntry::Skill { seen, mut findings, properties, mut suppressed, fix } = held
            else {
                if let BufferedEntry::Problem(problem) = held {
                    report.add_problem(&problem)?;
                }
                continue;
            };
            if let Some(more) = late.next_if(|late| late.seen == seen) {
                findings.extend(more.findings);
                suppressed.extend(more.suppressed);
                findings.sort_by_key(|found| (found.diagnostic.line, found.diagnostic.column));
            }
            let LintedSkill { path, dir, .. } = &self.seen[seen];
            report.add_skill(&CheckedSkill {
                path,
                dir,
                bytes: &[],
                findings: &findings,
                properties: properties.as_deref(),
                suppressed: &suppressed,
                fix: &fix,
            })?;
        }
        Ok(Vec::new())
    }

    /// Returns the findings between skills with the path of their SKILL.md.
    pub(super) fn into_late_findings(self) -> Vec<(PathBuf, Vec<Finding>)> {
        let late = self.find_late();
        self.with_paths(late)
    }

    fn with_paths(&self, late: Vec<LateFindings>) -> Vec<(PathBuf, Vec<Finding>)> {
        let late = late.into_iter();
        late.map(|late| (self.seen[late.seen].path.clone(), late.findings)).collect()
    }

    /// Returns the findings between skills, with the levels and the entries of their policies.
    fn find_late(&self) -> Vec<LateFindings> {
        let mut late: Vec<LateFindings> = Vec::new();
        for (index, finding) in check_catalog(&self.skills) {
            let seen = self.places[index];
            let Some(finding) = self.seen[seen].rules.rules.adjust(finding) else { continue };
            match late.last_mut() {
                Some(last) if last.seen == seen => last.findings.push(finding),
                _ => late.push(LateFindings { seen, findings: vec![finding], suppressed: vec![] }),
            }
        }
        for LateFindings { seen, findings, suppressed } in &mut late {
            let LintedSkill { dir, file_name, rules, .. } = &self.seen[*seen];
            suppressed.extend(rules.scope.split_findings(dir, file_name, findings));
        }
        late
    }

    fn report_late(
        &self,
        report: &mut FindingsReport,
        late: &LateFindings,
    ) -> Result<(), CliError> {
        let LintedSkill { path, dir, is_valid, .. } = &self.seen[late.seen];
        let bytes = read_again(path);
        let checked = CheckedSkill {
            path,
            dir,
            bytes: &bytes,
            findings: &late.findings,
            properties: None,
            suppressed: &late.suppressed,
            fix: FixRecord::NONE,
        };
        report.add_findings(&checked, *is_valid)
    }
}

/// The findings between a skill and others.
struct LateFindings {
    /// The index of the skill.
    seen: usize,
    findings: Vec<Finding>,
    suppressed: Vec<SuppressedFinding>,
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
