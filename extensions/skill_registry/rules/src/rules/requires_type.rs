//! `requires.type`: `requires` is not a list of words.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "requires.type",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "`requires` is not a list of words",
    levels: ProfileLevels {
        reference: RuleLevel::Off,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Requires `requires` to be a list of words, or words separated by commas.

## Why is this bad?
The words are shown when the skill is read. Values that are not words are ignored.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
requires: {jar: glass}
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md profile=skillscraft
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
requires: [jar, glass]
---
Count the beads.
```
"#,
    check: RuleCheck::Loading,
};
