//! `structure.fileName`: the file is not called SKILL.md.

use skill_format::Span;

use crate::profile::{Level, Levels};
use crate::rule::{Check, Findings, Group, Reach, Rule};
use crate::subject::Subject;

pub(super) static RULE: Rule = Rule {
    id: "structure.fileName",
    group: Group::Validation,
    reach: Reach::Head,
    summary: "the file is not called SKILL.md",
    levels: Levels {
        spec: Level::Warning,
        skillscraft: Level::Note,
        seed_strict: Level::Note,
        anthropic: Level::Error,
        ..Levels::all(Level::Off)
    },
    fixable: false,
    docs: r#"
## What it does
Reports a file that is called `skill.md`, or whatever other spelling the profile accepts.

## Why is this bad?
The specification says `SKILL.md`. Readers that look for nothing else do not find the skill.

## Bad
```markdown bead-counter/skill.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
---
Count the beads.
```
"#,
    check: Check::Skill(check),
};

fn check(skill: &Subject<'_>, findings: &mut Findings<'_>) {
    let Some(name) = skill.input().file_name.filter(|name| *name != "SKILL.md") else { return };
    findings.add(Span::default(), format!("the file is called `{name}`"), "rename it to SKILL.md");
}
