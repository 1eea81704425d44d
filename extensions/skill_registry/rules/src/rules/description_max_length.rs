//! `description.maxLength`: the description has more than 1024 characters.

use crate::profile::{Level, Levels};
use crate::rule::{Check, Group, Reach, Rule};

pub(super) static RULE: Rule = Rule {
    id: "description.maxLength",
    group: Group::Validation,
    reach: Reach::Head,
    summary: "the description has more than 1024 characters",
    levels: Levels { lenient: Level::Warning, ..Levels::all(Level::Error) },
    fixable: false,
    docs: r#"
## What it does
Counts the characters of the description, not its bytes.

## Why is this bad?
Every agent carries the descriptions of all skills in every prompt. The specification allows 1024
characters. Other readers refuse the file.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: {{x*1025}}
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: {{x*1024}}
---
Count the beads.
```
"#,
    check: Check::Loading,
};
