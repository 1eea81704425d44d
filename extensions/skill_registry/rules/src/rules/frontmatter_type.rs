//! `frontmatter.type`: the frontmatter is not a list of fields.

use crate::profile::{Level, Levels};
use crate::rule::{Check, Group, Reach, Rule};

pub(super) static RULE: Rule = Rule {
    id: "frontmatter.type",
    group: Group::Validation,
    reach: Reach::Head,
    summary: "the frontmatter is not a list of fields",
    levels: Levels::all(Level::Error),
    fixable: false,
    docs: r#"
## What it does
Wants `key: value` lines between the fences.

## Why is this bad?
A list or a sentence has no `name` and no `description`.

## Bad
```markdown bead-counter/SKILL.md
---
- name: bead-counter
- description: Counts beads in a jar. Use when the user asks how many there are.
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
