//! `suppression-unknown`: a suppression of a rule that does not exist.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(crate) static RULE: Rule = Rule {
    id: "suppression-unknown",
    group: RuleGroup::Lint,
    extent: RuleExtent::Body,
    summary: "a suppression names a rule that does not exist",
    levels: ProfileLevels::uniform(RuleLevel::Warning),
    fixable: false,
    docs: r"
## What it does
Reports names in `# skillhost: allow(…)` and `<!-- skillhost: allow(…) -->` that are not ids of
rules, with the most similar id. `skillhost skill rules` lists the ids.

## Why is this bad?
The suppression has no effect.

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
    check: RuleCheck::Suppression,
};
