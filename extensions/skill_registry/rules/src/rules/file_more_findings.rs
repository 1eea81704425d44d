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
Says how many findings of loading are left out: of one file, at most 100 warnings and notes are
listed. Errors are always listed.

## Why is this bad?
Mend what is listed first; what is left out is most likely more of the same.

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
