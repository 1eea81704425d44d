//! `frontmatter.fenceWhitespace`: a fence has blanks after its dashes.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "frontmatter.fenceWhitespace",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "a fence has blanks after its dashes",
    levels: ProfileLevels {
        reference: RuleLevel::Off,
        skillscraft: RuleLevel::Off,
        seed_strict: RuleLevel::Off,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: true,
    docs: r#"
## What it does
Reports blanks at the end of a line `---`. Loading ignores them.

## Why is this bad?
Readers that compare the complete line find no frontmatter, and the cause is invisible.

## Bad
```markdown bead-counter/SKILL.md
---  
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
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
