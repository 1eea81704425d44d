//! `user-invocable.type`: `user-invocable` is neither true nor false.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "user-invocable.type",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "`user-invocable` is neither true nor false",
    levels: ProfileLevels {
        reference: RuleLevel::Off,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Requires a boolean (`yes`, `no`, `on` and `off` count as well).

## Why is this bad?
The value is ignored, so that people get a command for a skill that its author may have meant for
models only.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
user-invocable: sometimes
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md profile=skillscraft
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
user-invocable: false
---
Count the beads.
```
"#,
    check: RuleCheck::Loading,
};
