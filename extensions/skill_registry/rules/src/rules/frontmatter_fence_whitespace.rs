//! `frontmatter.fenceWhitespace`: a fence has blanks after its dashes.

use crate::profile::{Level, Levels};
use crate::rule::{Check, Group, Reach, Rule};

pub(super) static RULE: Rule = Rule {
    id: "frontmatter.fenceWhitespace",
    group: Group::Validation,
    reach: Reach::Head,
    summary: "a fence has blanks after its dashes",
    levels: Levels {
        reference: Level::Off,
        skillscraft: Level::Off,
        seed_strict: Level::Off,
        ..Levels::all(Level::Warning)
    },
    fixable: true,
    docs: r#"
## What it does
Reports blanks at the end of a line `---`. Loading ignores them.

## Why is this bad?
Readers that compare the whole line find no frontmatter, and nobody sees why.

## Bad
```markdown bead-counter/SKILL.md
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
    check: Check::Loading,
};
