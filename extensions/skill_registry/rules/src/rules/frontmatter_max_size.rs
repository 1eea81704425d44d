//! `frontmatter.maxSize`: the frontmatter has more than 64 KiB.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "frontmatter.maxSize",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "the frontmatter has more than 64 KiB",
    levels: ProfileLevels { reference: RuleLevel::Off, ..ProfileLevels::uniform(RuleLevel::Error) },
    fixable: false,
    docs: r#"
## What it does
Rejects a frontmatter of more than 65,536 bytes, fences included.

## Why is this bad?
The frontmatter of every skill is read when an agent starts. The limit prevents one file from
costing as much as hundreds.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: {{Counts beads. *5000}}
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
