//! `backslash-path`: a link or a path of the skill with backslashes.

use std::ops::Range;

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup, TextEdit};
use crate::skill_document::SkillDocument;

/// Directories that paths of a skill start with.
const DIRECTORIES: [&str; 6] =
    ["references\\", "reference\\", "scripts\\", "assets\\", "resources\\", "templates\\"];

pub(super) static RULE: Rule = Rule {
    id: "backslash-path",
    group: RuleGroup::Lint,
    extent: RuleExtent::Body,
    summary: "a path of the skill is written with backslashes",
    levels: ProfileLevels::uniform(RuleLevel::Warning),
    fixable: true,
    docs: r"
## What it does
Searches for links and paths in code that start with a directory of the skill and a backslash, such
as `references\formats.md`.

## Why is this bad?
Backslashes separate components on Windows only. Slashes work everywhere, including Windows.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Read `references\opaque-jars.md` for jars that are not clear.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Read `references/opaque-jars.md` for jars that are not clear.
```
```markdown bead-counter/references/opaque-jars.md
Hold the jar against the light.
```
",
    check: RuleCheck::Skill(check),
};

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    let markdown = skill.markdown();
    let text = |range: &Range<usize>| &skill.text()[range.clone()];
    let spans = markdown.code_spans.iter().map(|code| (&code.range, text(&code.content)));
    let links = markdown.links.iter().map(|link| (&link.range, &*link.target));
    for (range, path) in spans.chain(links) {
        let path = path.strip_prefix(".\\").unwrap_or(path);
        // Only known directories count: a backslash elsewhere may be an escape or a regular
        // expression.
        let names_file = DIRECTORIES.iter().any(|dir| path.starts_with(dir))
            && path
                .chars()
                .all(|c| c.is_alphanumeric() || matches!(c, '\\' | '/' | '.' | '_' | '-'));
        // Searched from the end, because the text of a link may repeat its target.
        let Some(start) = names_file.then(|| text(range).rfind(path)).flatten() else { continue };
        let start = range.start + start;
        let edit =
            TextEdit { range: start..start + path.len(), replacement: path.replace('\\', "/") };
        findings.add_fixable(
            skill.span_at(range.start),
            format!("`{path}` is written with backslashes"),
            "write it with slashes",
            vec![edit],
        );
    }
}
