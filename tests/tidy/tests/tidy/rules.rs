//! What holds of the rules about skills.

use std::collections::BTreeSet;
use std::path::Path;

use super::{code, files, none, read, rust_files};

/// The tables of the rules without code.
const TABLES: [&str; 2] = ["declared", "loading"];

/// The name of the file of a rule.
fn file_of(id: &str) -> String {
    let lower = |c: char| match c {
        '.' | '-' => "_".to_owned(),
        c if c.is_uppercase() => format!("_{}", c.to_lowercase()),
        c => c.to_string(),
    };
    id.chars().map(lower).collect()
}

/// The sections that the documentation of a rule lacks, and examples that nothing replaces.
fn missing_parts(docs: &str, may_lack_examples: bool) -> Vec<&'static str> {
    let mut missing = vec!["## What it does\n", "## Why is this bad?\n", "## Bad\n", "## Good\n"];
    missing.retain(|section| !docs.contains(section));
    let examples = docs.split("\n## Bad\n").nth(1).unwrap_or_default();
    if !may_lack_examples && !examples.split("\n## Good\n").all(|part| part.contains("```")) {
        missing.push("two examples or tests");
    }
    missing
}

#[test]
fn every_rule_is_registered_documented_and_tested() {
    let folder = Path::new("extensions/skill_registry/rules/src/rules");
    let list = read(&folder.with_extension("rs"));
    let mut findings = Vec::new();
    for path in rust_files().filter(|path| path.parent() == Some(folder)) {
        let (text, shown) = (read(&path), path.display());
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if TABLES.contains(&&*name) {
            continue;
        }
        if !list.contains(&format!("mod {name};")) || !list.contains(&format!("&{name}::RULE,")) {
            findings.push(format!("{shown} is not in the list"));
        }
        let id = text.split("    id: \"").nth(1).and_then(|rest| rest.split('"').next());
        if id.map(file_of).as_ref() != Some(&name) {
            findings.push(format!("{shown} is not named after its rule"));
        }
        // What an example cannot show is shown by tests.
        let missing = missing_parts(&text, text.contains("#[cfg(test)]"));
        findings.extend(missing.iter().map(|part| format!("{shown}: no {part}")));
    }
    none("rules", &findings);
}

#[test]
fn every_row_of_rules_has_its_page() {
    let folder = Path::new("extensions/skill_registry/rules");
    let mut pages: BTreeSet<_> =
        files().into_iter().filter(|path| path.parent() == Some(&folder.join("docs"))).collect();
    let mut findings = Vec::new();
    for table in TABLES {
        let text = read(&folder.join(format!("src/rules/{table}.rs")));
        for row in text.split("    Rule {\n").skip(1) {
            let id = row.split("id: \"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
            let page = format!("docs/{}.md", file_of(id));
            if !row.contains(&format!("include_str!(\"../../{page}\")")) {
                findings.push(format!("{id} does not include {page}"));
            }
            if !pages.remove(&folder.join(&page)) {
                findings.push(format!("{page} does not exist"));
                continue;
            }
            // Where the disk is read, tests show what an example cannot.
            let missing = missing_parts(&read(&folder.join(&page)), row.contains("..READING"));
            findings.extend(missing.iter().map(|part| format!("{page}: no {part}")));
        }
    }
    findings.extend(pages.iter().map(|page| format!("{} has no rule", page.display())));
    none("rows of rules", &findings);
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
