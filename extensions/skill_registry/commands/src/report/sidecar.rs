//! The findings in the `skill.yaml` and the `tool.json` next to a SKILL.md.

use std::path::{Path, PathBuf};

use skill_catalog::{SkillProgramFiles, SkillYamlError, read_skill_yaml};
use skill_format::{Diagnostic, SKILL_YAML, TOOL_JSON};
use skill_rules::{Finding, RuleSet};

use super::{CheckedSkill, FixRecord};

/// A file next to a SKILL.md and its findings.
#[derive(Clone)]
pub(in super::super) struct SidecarReport {
    name: &'static str,
    path: PathBuf,
    text: String,
    findings: Vec<Finding>,
}

impl SidecarReport {
    /// Checks the files next to a SKILL.md; returns those with findings.
    pub(in super::super) fn check_all(dir: &Path, id: &str, rules: &RuleSet) -> Vec<Self> {
        let reports =
            [Self::check_skill_yaml(dir, id, rules), Self::check_programs(dir, id, rules)];
        reports.into_iter().flatten().collect()
    }

    fn check_skill_yaml(dir: &Path, id: &str, rules: &RuleSet) -> Option<Self> {
        if !rules.needs_skill_yaml() {
            return None;
        }
        let (text, findings) = match read_skill_yaml(dir) {
            Ok(text) => {
                let text = text?;
                let findings = rules.check_skill_yaml(&text, id).findings;
                (text, findings)
            }
            Err(error) => (String::new(), vec![unreadable_finding(&error)]),
        };
        Self::new(dir, SKILL_YAML, text, findings)
    }

    /// Checks the `tool.json` and the programs of a skill.
    fn check_programs(dir: &Path, id: &str, rules: &RuleSet) -> Option<Self> {
        // A directory that cannot be listed has a finding of its own.
        let SkillProgramFiles { tool_json, found } = SkillProgramFiles::find(dir, id).ok()?;
        // The levels of the profile replace those of discovery.
        let findings = rules.check_programs(&found.findings);
        Self::new(dir, TOOL_JSON, tool_json.unwrap_or_default(), findings)
    }

    fn new(dir: &Path, name: &'static str, text: String, findings: Vec<Finding>) -> Option<Self> {
        let path = dir.join(name);
        (!findings.is_empty()).then_some(Self { name, path, text, findings })
    }

    /// Returns the path of the file.
    pub(in super::super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the findings, to remove some of them.
    pub(in super::super) fn findings_mut(&mut self) -> &mut Vec<Finding> {
        &mut self.findings
    }

    /// Returns the findings as those of a separate file.
    pub(in super::super) fn as_checked_skill<'a>(&'a self, dir: &'a Path) -> CheckedSkill<'a> {
        CheckedSkill {
            path: &self.path,
            dir,
            bytes: self.text.as_bytes(),
            findings: &self.findings,
            properties: None,
            suppressed: &[],
            fix: FixRecord::NONE,
        }
    }

    /// Returns the findings as those of the skill, for formats with one entry per skill: the
    /// position is in the message, because lines and columns refer to the SKILL.md.
    pub(in super::super) fn into_findings(self) -> impl Iterator<Item = Finding> {
        let name = self.name;
        self.findings.into_iter().map(move |Finding { diagnostic, edits }| {
            let place = match (diagnostic.line, diagnostic.column) {
                (0, _) => String::new(),
                (line, 0) => format!(":{line}"),
                (line, column) => format!(":{line}:{column}"),
            };
            let message = format!("{name}{place}: {}", diagnostic.message);
            let diagnostic = Diagnostic { line: 0, column: 0, message, ..diagnostic };
            Finding { diagnostic, edits }
        })
    }
}

fn unreadable_finding(error: &SkillYamlError) -> Finding {
    let rule = match error {
        SkillYamlError::NotRegular => "file.notRegular",
        SkillYamlError::TooLarge => "file.maxSize",
        SkillYamlError::NotUtf8 => "file.encoding",
        _ => "file.unreadable",
    };
    let diagnostic = Diagnostic::warning(rule, error.to_string())
        .with_help("it is not used until it can be read");
    Finding { diagnostic, edits: Vec::new() }
}
