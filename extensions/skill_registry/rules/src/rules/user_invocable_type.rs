//! `user-invocable.type`: `user-invocable` is neither true nor false.

use crate::profile::{Level, Levels};
use crate::rule::{Check, Group, Reach, Rule};

pub(super) static RULE: Rule = Rule {
    id: "user-invocable.type",
    group: Group::Validation,
    reach: Reach::Head,
    summary: "`user-invocable` is neither true nor false",
    levels: Levels { reference: Level::Off, ..Levels::all(Level::Warning) },
    fixable: false,
    docs: r#"
## What it does
Wants true or false (`yes`, `no`, `on` and `off` count as well).

## Why is this bad?
The value is not used, so people get a command for a skill that its author may have meant for
models only.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
user-invocable: sometimes
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md profile=skillscraft
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
user-invocable: false
---
Count the beads.
```
"#,
    check: Check::Loading,
};
