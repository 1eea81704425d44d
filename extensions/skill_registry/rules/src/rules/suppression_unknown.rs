//! `suppression-unknown`: a suppression of a rule that does not exist.

use crate::profile::{Level, Levels};
use crate::rule::{Check, Group, Reach, Rule};

pub(crate) static RULE: Rule = Rule {
    id: "suppression-unknown",
    group: Group::Lint,
    reach: Reach::Body,
    summary: "a suppression names a rule that does not exist",
    levels: Levels::all(Level::Warning),
    fixable: false,
    docs: r"
## What it does
Finds names in `# skillhost: allow(…)` and `<!-- skillhost: allow(…) -->` that are not ids of rules,
and says which one is nearest. `skillhost skill rules` lists the ids.

## Why is this bad?
The suppression does nothing.

## Bad
```markdown bead-counter/SKILL.md
---
# skillhost: allow(gotcha-present)
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Count the beads.
```
",
    check: Check::Suppression,
};
