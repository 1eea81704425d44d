//! `progressive-disclosure`: a long skill in a single file.

use skill_format::{EntryKind, FileEntry};
use yaml_tree::Span;

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

/// The minimum number of lines of a long body.
const MIN_LINES: usize = 200;

/// The maximum number of files to search for in the body.
const MAX_FILES: usize = 200;

/// Directories for details of skills.
const DIRECTORIES: [&str; 8] = [
    "references/",
    "reference/",
    "resources/",
    "docs/",
    "examples/",
    "templates/",
    "assets/",
    "rules/",
];

/// Files of a project, which are not part of the skill when a body names them.
const PROJECT_FILES: [&str; 6] =
    ["skill.md", "readme.md", "claude.md", "agents.md", "changelog.md", "contributing.md"];

pub(super) static RULE: Rule = Rule {
    id: "progressive-disclosure",
    group: RuleGroup::Lint,
    extent: RuleExtent::Directory,
    summary: "a body of 200 lines or more names no file with details",
    levels: ProfileLevels::uniform(RuleLevel::Warning),
    fixable: false,
    docs: r"
## What it does
Requires bodies of 200 lines or more to name a file of the skill with details, such as
`references/formats.md`: by a link, in code or in the text. If the files of the skill are known, the
file must be one of them.

## Why is this bad?
A long body is loaded completely for every task. A file under `references/` costs no tokens until
the model opens it.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
{{Count the beads of the next jar.
*200}}
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
{{Count the beads of the next jar.
*200}}
For jars that are not clear, read references/opaque-jars.md.
```
```markdown bead-counter/references/opaque-jars.md
Hold the jar against the light.
```
",
    check: RuleCheck::Skill(check),
};

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    if skill.frontmatter().is_none() {
        return;
    }
    let body = skill.body();
    let lines = skill.body_lines();
    if lines < MIN_LINES || names_detail(body, skill.files()) {
        return;
    }
    findings.add(
        Span { line: skill.body_line(), column: 0 },
        format!("the body has {lines} lines and names no file with details"),
        "move what only some tasks need to files under references/ and say when to read each",
    );
}

fn names_detail(body: &str, files: Option<&[FileEntry]>) -> bool {
    match files {
        // Files of a plugin outside of the skill are not listed with the skill.
        Some(_) if body.contains("../") || body.contains("}/") => names_detail(body, None),
        Some(files) => files
            .iter()
            .filter(|file| file.kind == EntryKind::File && is_detail(&file.path))
            .take(MAX_FILES)
            .any(|file| {
                let name = file.path.rsplit('/').next().unwrap_or_default();
                body.contains(&file.path)
                    || body.contains(name)
                    || names_directory(body, &file.path)
            }),
        None => {
            DIRECTORIES.iter().any(|folder| body.contains(folder))
                || body
                    .split(|c: char| c.is_whitespace() || "`()[]\"'<>".contains(c))
                    .any(is_document)
        }
    }
}

fn names_directory(body: &str, path: &str) -> bool {
    path.split_once('/').is_some_and(|(folder, _)| body.contains(&format!("{folder}/")))
}

fn is_detail(path: &str) -> bool {
    is_document(path) || DIRECTORIES.iter().any(|folder| path.starts_with(folder))
}

/// Returns `true` if a path is a text document that can belong to a skill.
fn is_document(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    name.len() > 3
        && (name.ends_with(".md") || name.ends_with(".txt"))
        && !PROJECT_FILES.contains(&&*name)
}
