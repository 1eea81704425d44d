//! `structure.extraneousFile`: a file does not belong into a skill.

use skill_format::Span;

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::subject::SkillDocument;

pub(super) static RULE: Rule = Rule {
    id: "structure.extraneousFile",
    group: RuleGroup::Validation,
    reach: RuleExtent::Folder,
    summary: "a file does not belong into a skill",
    levels: ProfileLevels {
        lenient: RuleLevel::Off,
        spec: RuleLevel::Note,
        reference: RuleLevel::Off,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Looks for files that are written for people who browse a repository (`README.md`, `CHANGELOG.md`,
`CONTRIBUTING.md`, …) beside the SKILL.md, and for what systems and tools leave behind (`.DS_Store`,
`__pycache__`, `node_modules`, …) anywhere. A licence is welcome.

## Why is this bad?
A skill is shipped whole. Such files are listed to agents as resources, and reading them teaches
an agent nothing.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
---
Count the beads.
```

```markdown bead-counter/README.md
# How to install the bead counter
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
---
Count the beads.
```

```markdown bead-counter/references/jars.md
# Kinds of jars
```

```text bead-counter/LICENSE.txt
MIT
```
"#,
    check: RuleCheck::Skill(check),
};

/// Files that the formal specification and Anthropic's skill creator name, and similar ones.
const DOCUMENTATION: [&str; 8] = [
    "changelog",
    "code_of_conduct",
    "contributing",
    "installation",
    "installation_guide",
    "quick_reference",
    "quick_start",
    "readme",
];

/// Names of files that systems and tools create.
const GENERATED: [&str; 7] = [
    ".ds_store",
    ".git",
    ".pytest_cache",
    "__pycache__",
    "desktop.ini",
    "node_modules",
    "thumbs.db",
];

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    let mut reported: Option<&str> = None;
    for file in skill.files().unwrap_or_default() {
        let path = file.path.as_str();
        // One finding per directory, not one per file in it.
        if reported.is_some_and(|dir| path.strip_prefix(dir).is_some_and(|it| it.starts_with('/')))
        {
            continue;
        }
        let Some(end) = find_extraneous(path) else { continue };
        let message = format!("`{}` does not belong into a skill", &path[..end]);
        findings.add(
            Span::default(),
            message,
            "remove it, or keep it outside the skill's directory",
        );
        reported = Some(&path[..end]);
    }
}

/// Returns the length of the extraneous part of a path, or `None` if the path belongs to a skill.
fn find_extraneous(path: &str) -> Option<usize> {
    let mut start = 0;
    for component in path.split('/') {
        let end = start + component.len();
        let name = component.to_ascii_lowercase();
        if GENERATED.contains(&name.as_str()) || name.ends_with(".pyc") {
            return Some(end);
        }
        start = end + 1;
    }
    let lower = path.to_ascii_lowercase();
    // Documentation counts only at the top level: the stem would contain the directories.
    let (stem, extension) = lower.split_once('.').unwrap_or((&lower, ""));
    let is_text = matches!(extension, "" | "md" | "txt" | "rst" | "adoc" | "markdown");
    (is_text && DOCUMENTATION.contains(&stem.replace('-', "_").as_str())).then_some(path.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_files_are_not_extraneous() {
        let cases = [
            ("README.md", Some(9)),
            ("readme", Some(6)),
            ("Quick-Start.txt", Some(15)),
            ("scripts/__pycache__/x.pyc", Some(19)),
            ("scripts/x.pyc", Some(13)),
            ("assets/.DS_Store", Some(16)),
            ("references/README.md", None),
            ("LICENSE", None),
            ("readme.py", None),
            ("SKILL.md", None),
        ];
        for (path, end) in cases {
            assert_eq!(find_extraneous(path), end, "{path}");
        }
    }

    #[test]
    fn directory_is_reported_once() {
        use crate::{
            CheckOptions, CheckScope, EntryKind, FileEntry, Profile, SkillInput, check_skill,
        };
        let entry = |path: &str| FileEntry {
            path: path.to_owned(),
            size: 1,
            mode: 0o644,
            kind: EntryKind::File,
        };
        let files = ["node_modules", "node_modules/a", "node_modules/b/c", "node_modules.md"];
        let files = files.map(entry);
        let input = SkillInput {
            dir_name: "x",
            file_name: Some("SKILL.md"),
            bytes: b"---\nname: x\ndescription: y\n---\n",
            files: Some(&files),
        };
        let options = CheckOptions { profile: Profile::SeedStrict, scope: CheckScope::Lint };
        let report = check_skill(&input, options);
        let found = report.findings.iter().filter(|it| it.diagnostic.rule == RULE.id).count();
        assert_eq!(found, 1);
    }
}
