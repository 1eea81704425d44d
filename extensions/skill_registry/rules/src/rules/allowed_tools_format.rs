//! `allowed-tools.format`: `allowed-tools` cannot be read.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "allowed-tools.format",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "`allowed-tools` cannot be read",
    levels: ProfileLevels {
        reference: RuleLevel::Off,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Reports parentheses that do not come in pairs, and maps.

## Why is this bad?
It cannot be told which tools are meant. The field then grants nothing, and where it restricts, it
allows nothing.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
allowed-tools: Read Bash(git:*
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
allowed-tools: Read Bash(git:*)
---
Count the beads.
```
"#,
    check: RuleCheck::Loading,
};
