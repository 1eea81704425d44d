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
Reports values of `metadata` that YAML does not take for a text: numbers, true and false, empty
ones, lists, maps. They are kept as the text that stands in the file: `1.10` is `1.10`.

## Why is this bad?
The specification has a map from texts to texts. Other readers turn `1.10` into 1.1 and `2.0` into
2, or refuse the file.

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
