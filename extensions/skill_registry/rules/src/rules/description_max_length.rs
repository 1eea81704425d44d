//! `description.maxLength`: the description has more than 1024 characters.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "description.maxLength",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "the description has more than 1024 characters",
    levels: ProfileLevels {
        lenient: RuleLevel::Warning,
        ..ProfileLevels::uniform(RuleLevel::Error)
    },
    fixable: false,
    docs: r#"
## What it does
Counts the characters of the description, not its bytes.

## Why is this bad?
Every agent has the descriptions of all skills in every prompt. The specification allows 1024
characters. Other readers reject the file.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: {{x*1025}}
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: {{x*1024}}
---
Count the beads.
```
"#,
    check: RuleCheck::Loading,
};
