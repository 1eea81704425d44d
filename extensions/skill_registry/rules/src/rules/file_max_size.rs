//! `file.maxSize`: the file has more than 1 MiB.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "file.maxSize",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "the file has more than 1 MiB",
    levels: ProfileLevels { reference: RuleLevel::Off, ..ProfileLevels::uniform(RuleLevel::Error) },
    fixable: false,
    docs: r#"
## What it does
Rejects a SKILL.md of more than 1,048,576 bytes before it is parsed.

## Why is this bad?
A model would have to read all of it. A file of that size is not meant as instructions.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
---
{{Count the beads in the next jar.
*33000}}
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
---
Count the beads. The jars are listed in references/jars.md.
```
"#,
    check: RuleCheck::Loading,
};
