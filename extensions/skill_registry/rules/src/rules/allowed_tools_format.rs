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
Reports unbalanced parentheses, and maps.

## Why is this bad?
The tools are ambiguous. The field then grants no tool, and where it restricts tools, it allows
none.

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
