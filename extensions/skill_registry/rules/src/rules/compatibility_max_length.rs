//! `compatibility.maxLength`: `compatibility` has more than 500 characters.

use crate::profile::{Level, Levels};
use crate::rule::{Check, Group, Reach, Rule};

pub(super) static RULE: Rule = Rule {
    id: "compatibility.maxLength",
    group: Group::Validation,
    reach: Reach::Head,
    summary: "`compatibility` has more than 500 characters",
    levels: Levels {
        lenient: Level::Warning,
        seed_strict: Level::Warning,
        ..Levels::all(Level::Error)
    },
    fixable: false,
    docs: r#"
## What it does
Counts the characters of `compatibility`. The formal specification lists this under its warnings.

## Why is this bad?
The specification allows 500. Other readers refuse the file.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
compatibility: {{x*501}}
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
compatibility: {{x*500}}
---
Count the beads.
```
"#,
    check: Check::Loading,
};
