//! `when_to_use.type`: `when_to_use` is not a text.

use crate::profile::{Level, Levels};
use crate::rule::{Check, Group, Reach, Rule};

pub(super) static RULE: Rule = Rule {
    id: "when_to_use.type",
    group: Group::Validation,
    reach: Reach::Head,
    summary: "`when_to_use` is not a text",
    levels: Levels { reference: Level::Off, ..Levels::all(Level::Warning) },
    fixable: false,
    docs: r#"
## What it does
Wants `when_to_use` to be one text. A list or a map is read as the text that stands in the file.

## Why is this bad?
The text joins the description in search, where brackets and dashes are noise.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
when_to_use: [beads, jars]
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md profile=skillscraft
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
when_to_use: The user asks about beads or jars.
---
Count the beads.
```
"#,
    check: Check::Loading,
};
