//! `compatibility.maxLength`: `compatibility` has more than 500 characters.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "compatibility.maxLength",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "`compatibility` has more than 500 characters",
    levels: ProfileLevels {
        lenient: RuleLevel::Warning,
        seed_strict: RuleLevel::Warning,
        ..ProfileLevels::uniform(RuleLevel::Error)
    },
    fixable: false,
    docs: r#"
## What it does
Counts the characters of `compatibility`. The formal specification lists this check as a warning.

## Why is this bad?
The specification allows 500. Other readers reject the file.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
compatibility: {{x*501}}
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
compatibility: {{x*500}}
---
Count the beads.
```
"#,
    check: RuleCheck::Loading,
};
