//! `description.comment`: the description ends where a comment starts.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "description.comment",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "the description ends where a comment starts",
    levels: ProfileLevels { reference: RuleLevel::Off, ..ProfileLevels::uniform(RuleLevel::Note) },
    fixable: false,
    docs: r#"
## What it does
Reports ` #` behind a description without quotes.

## Why is this bad?
YAML reads the rest of the line as a comment. If it was meant as text, agents never see it.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads for issue #12. Use when asked.
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: "Counts beads for issue #12. Use when asked."
---
Count the beads.
```
"#,
    check: RuleCheck::Loading,
};
