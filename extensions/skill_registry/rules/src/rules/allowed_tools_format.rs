//! `allowed-tools.format`: `allowed-tools` cannot be read.

use crate::profile::{Level, Levels};
use crate::rule::{Check, Group, Reach, Rule};

pub(super) static RULE: Rule = Rule {
    id: "allowed-tools.format",
    group: Group::Validation,
    reach: Reach::Head,
    summary: "`allowed-tools` cannot be read",
    levels: Levels { reference: Level::Off, ..Levels::all(Level::Warning) },
    fixable: false,
    docs: r#"
## What it does
Reports parentheses that do not come in pairs, and maps.

## Why is this bad?
It cannot be told which tools are meant. The field then grants nothing, and where it restricts, it
allows nothing.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
allowed-tools: Read Bash(git:*
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
allowed-tools: Read Bash(git:*)
---
Count the beads.
```
"#,
    check: Check::Loading,
};
