//! `name.maxLength`: the name has more than 64 characters.

use crate::profile::{Level, Levels};
use crate::rule::{Check, Group, Reach, Rule};

pub(super) static RULE: Rule = Rule {
    id: "name.maxLength",
    group: Group::Validation,
    reach: Reach::Head,
    summary: "the name has more than 64 characters",
    levels: Levels { lenient: Level::Warning, ..Levels::all(Level::Error) },
    fixable: false,
    docs: r#"
## What it does
Counts the characters of `name` after Unicode normalisation (NFKC).

## Why is this bad?
The specification allows 64. Other readers refuse the file.

## Bad
```markdown bead-counter/SKILL.md
---
name: {{bead-*13}}counter
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
    check: Check::Loading,
};
