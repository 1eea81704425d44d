//! A runner of the rules over a small skill, for tests.

use skill_format::SkillInput;

use crate::{CheckOptions, CheckScope, Profile, check_skill};

/// Returns the rules with findings in a skill with these lines between its fences, in file order.
pub(crate) fn found(dir_name: &str, fields: &str, profile: Profile) -> Vec<&'static str> {
    let text = format!("---\n{fields}\n---\n");
    let bytes = text.as_bytes();
    let input = SkillInput { dir_name, file_name: Some("SKILL.md"), bytes, files: None };
    let report = check_skill(&input, CheckOptions { profile, scope: CheckScope::Validate });
    report.findings.iter().map(|found| found.diagnostic.rule).collect()
}
