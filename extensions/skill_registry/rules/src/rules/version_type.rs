//! `version.type`: `version` is not a text.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "version.type",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "`version` is not a text",
    levels: ProfileLevels {
        reference: RuleLevel::Off,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Requires `version` to be one text. A list or a map is read as the literal text of the file.

## Why is this bad?
A list of versions does not identify the version of this skill.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
version: [1, 10]
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md profile=skillscraft
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
version: "1.10"
---
Count the beads.
```
"#,
    check: RuleCheck::Loading,
};
