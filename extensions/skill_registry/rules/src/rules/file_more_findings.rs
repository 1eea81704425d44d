//! `file.moreFindings`: there are more findings than are listed.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "file.moreFindings",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "there are more findings than are listed",
    levels: ProfileLevels { reference: RuleLevel::Off, ..ProfileLevels::uniform(RuleLevel::Note) },
    fixable: false,
    docs: r#"
## What it does
Reports the number of omitted findings of loading: at most 100 warnings and notes are listed per
file. Errors are always listed.

## Why is this bad?
Fix the listed findings first; the omitted ones are probably similar.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
metadata:
{{  - bead
*1}}{{field: x
*120}}
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
metadata:
  jar: glass
---
Count the beads.
```
"#,
    check: RuleCheck::Loading,
};
