//! `metadata.valueType`: a metadata value is not a text.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "metadata.valueType",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "a metadata value is not a text",
    levels: ProfileLevels {
        lenient: RuleLevel::Warning,
        spec: RuleLevel::Warning,
        skillscraft: RuleLevel::Error,
        ..ProfileLevels::uniform(RuleLevel::Off)
    },
    fixable: false,
    docs: r#"
## What it does
Reports values of `metadata` that YAML does not read as text: numbers, booleans, empty values,
lists, maps. They are kept as the literal text: `1.10` is `1.10`.

## Why is this bad?
The specification defines a map from texts to texts. Other readers convert `1.10` to 1.1 and `2.0`
to 2, or reject the file.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
metadata:
  version: 1.10
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
metadata:
  version: "1.10"
---
Count the beads.
```
"#,
    check: RuleCheck::Loading,
};
