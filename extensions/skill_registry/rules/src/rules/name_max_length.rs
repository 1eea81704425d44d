//! `name.maxLength`: the name has more than 64 characters.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "name.maxLength",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "the name has more than 64 characters",
    levels: ProfileLevels {
        lenient: RuleLevel::Warning,
        ..ProfileLevels::uniform(RuleLevel::Error)
    },
    fixable: false,
    docs: r#"
## What it does
Counts the characters of `name` after Unicode normalization (NFKC).

## Why is this bad?
The specification allows 64. Other readers reject the file.

## Bad
```markdown bead-counter/SKILL.md
---
name: {{bead-*13}}counter
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
    check: RuleCheck::Loading,
};
