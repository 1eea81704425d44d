//! `frontmatter.duplicateKey`: a key stands twice in the same map.

use crate::profile::{Level, Levels};
use crate::rule::{Check, Group, Reach, Rule};

pub(super) static RULE: Rule = Rule {
    id: "frontmatter.duplicateKey",
    group: Group::Validation,
    reach: Reach::Head,
    summary: "a key stands twice in the same map",
    levels: Levels {
        lenient: Level::Warning,
        spec: Level::Error,
        anthropic: Level::Warning,
        ..Levels::all(Level::Off)
    },
    fixable: false,
    docs: r#"
## What it does
Reports a key that stands again in the frontmatter, in `metadata` or in any other map. The first
one counts.

## Why is this bad?
Some readers take the first, some the last, and some refuse the file: what the skill says depends
on who reads it.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
metadata:
  author: ann
  author: bob
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
metadata:
  author: ann, bob
---
Count the beads.
```
"#,
    check: Check::Loading,
};
