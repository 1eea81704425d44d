//! The programs of a skill, in the lines of `skillhost skill show`.

use serde_json::{Value, json};
use skill_catalog::{Skill, SkillProgramFiles};
use skill_format::{Diagnostic, DiscoveredPrograms, ProgramFile, TOOL_JSON};

/// Finds the programs of a skill. Of a directory that cannot be listed the scan reports the error.
pub(super) fn find_programs(skill: &Skill) -> DiscoveredPrograms {
    let dir = skill.open_directory().ok();
    let found = dir.and_then(|dir| SkillProgramFiles::find_in(&dir, skill.id().as_str()).ok());
    found.unwrap_or_default().found
}

/// Returns labels and texts; the texts are not sanitized.
pub(super) fn lines(skill: &Skill, found: &DiscoveredPrograms) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    for program in &found.programs {
        lines.push(("program", format!("{}  {}", tool_name(skill, program), program.path)));
    }
    // An author who expects a program finds the reason here.
    for (path, reason) in &found.left_out {
        lines.push(("no program", format!("{path}: {reason}")));
    }
    for Diagnostic { rule, severity, line, column, message, help } in &found.findings {
        let place = if *line == 0 { String::new() } else { format!(":{line}:{column}") };
        lines.push(("finding", format!("{TOOL_JSON}{place}: {severity}[{rule}]: {message}")));
        lines.extend(help.iter().map(|help| ("", help.clone())));
    }
    lines
}

/// Returns the same as JSON, or `None` for a skill that only has instructions.
pub(super) fn to_json(skill: &Skill, found: &DiscoveredPrograms) -> Option<Value> {
    if found.programs.is_empty() && found.findings.is_empty() && found.left_out.is_empty() {
        return None;
    }
    let program = |program: &ProgramFile| json!({ "tool": tool_name(skill, program), "key": program.key, "path": program.path });
    let left_out = |(path, reason): &(String, &str)| json!({ "path": path, "reason": reason });
    Some(json!({
        "programs": found.programs.iter().map(program).collect::<Vec<_>>(),
        "left_out": found.left_out.iter().map(left_out).collect::<Vec<_>>(),
        "findings": found.findings,
    }))
}

fn tool_name(skill: &Skill, program: &ProgramFile) -> String {
    match program.is_default {
        true => skill.id().to_string(),
        false => format!("{}.{}", skill.id(), program.key),
    }
}
