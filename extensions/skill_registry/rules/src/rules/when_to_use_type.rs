//! `when_to_use.type`: `when_to_use` is not a text.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "when_to_use.type",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "`when_to_use` is not a text",
    levels: ProfileLevels {
        reference: RuleLevel::Off,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Requires `when_to_use` to be one text. A list or a map is read as the literal text of the file.

## Why is this bad?
The text is added to the description in search, where brackets and dashes are noise.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
when_to_use: [beads, jars]
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md profile=skillscraft
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
when_to_use: The user asks about beads or jars.
---
Count the beads.
```
"#,
    check: RuleCheck::Loading,
};
