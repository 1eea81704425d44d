//! `description.comment`: the description ends where a comment starts.

use crate::profile::{Level, Levels};
use crate::rule::{Check, Group, Reach, Rule};

pub(super) static RULE: Rule = Rule {
    id: "description.comment",
    group: Group::Validation,
    reach: Reach::Head,
    summary: "the description ends where a comment starts",
    levels: Levels { reference: Level::Off, ..Levels::all(Level::Note) },
    fixable: false,
    docs: r#"
## What it does
Reports ` #` behind a description without quotes.

## Why is this bad?
YAML takes the rest of the line for a comment. If it was meant as text, agents never see it.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads for issue #12. Use when asked.
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: "Counts beads for issue #12. Use when asked."
---
Count the beads.
```
"#,
    check: Check::Loading,
};
