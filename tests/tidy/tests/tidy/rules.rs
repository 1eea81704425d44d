//! What holds of the rules about skills.

use std::collections::BTreeSet;
use std::path::Path;

use super::{code, none, read, rust_files};

#[test]
fn every_rule_is_registered_documented_and_tested() {
    let folder = Path::new("extensions/skill_registry/rules/src/rules");
    let list = read(&folder.with_extension("rs"));
    let mut findings = Vec::new();
    for path in rust_files().filter(|path| path.parent() == Some(folder)) {
        let (text, shown) = (read(&path), path.display());
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if !list.contains(&format!("mod {name};")) || !list.contains(&format!("&{name}::RULE,")) {
            findings.push(format!("{shown} is not in the list"));
        }
        let id = text.split("    id: \"").nth(1).and_then(|rest| rest.split('"').next());
        let file_of = |id: &str| {
            let lower = |c: char| match c {
                '.' | '-' => "_".to_owned(),
                c if c.is_uppercase() => format!("_{}", c.to_lowercase()),
                c => c.to_string(),
            };
            id.chars().map(lower).collect::<String>()
        };
        if id.map(file_of).as_ref() != Some(&name) {
            findings.push(format!("{shown} is not named after its rule"));
        }
        let sections = ["## What it does\n", "## Why is this bad?\n", "## Bad\n", "## Good\n"];
        findings.extend(
            sections.iter().filter(|it| !text.contains(**it)).map(|it| format!("{shown}: no {it}")),
        );
        // What an example cannot show is shown by tests, here or where the disk is read.
        let docs = text.split("\n## Bad\n").nth(1).unwrap_or_default();
        let examples = docs.split("\n## Good\n").all(|section| section.contains("```"));
        if !examples && !text.contains("#[cfg(test)]") && !text.contains("Check::Reading") {
            findings.push(format!("{shown} has neither two examples nor tests"));
        }
    }
    none("rules", &findings);
}

#[test]
fn every_finding_of_loading_and_reading_has_a_rule() {
    let registry = Path::new("extensions/skill_registry");
    let in_folder = |folder: &str| {
        let folder = registry.join(folder);
        rust_files().filter(move |path| path.starts_with(&folder)).map(|path| code(&path))
    };
    let rules: String = in_folder("rules/src/rules").collect();
    let mut findings = BTreeSet::new();
    for text in in_folder("format/src").chain(in_folder("store/src/collect")) {
        for literal in text.split('"').skip(1).step_by(2) {
            let (group, name) = literal.split_once('.').unwrap_or_default();
            let is_id = group.starts_with(|c: char| c.is_ascii_lowercase())
                && !["md", "rs", "yaml", "js", "ts", "json"].contains(&name)
                && !name.is_empty()
                && name.chars().all(|c| c.is_ascii_alphabetic());
            if is_id && !rules.contains(&format!("id: \"{literal}\"")) {
                findings.insert(literal.to_owned());
            }
        }
    }
    none("findings that no rule explains", &findings.into_iter().collect::<Vec<_>>());
}
