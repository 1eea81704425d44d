//! `frontmatter.unclosed`: the frontmatter has no closing line.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "frontmatter.unclosed",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "the frontmatter has no closing line",
    levels: ProfileLevels::uniform(RuleLevel::Error),
    fixable: false,
    docs: r#"
## What it does
Looks for the line `---` that ends the frontmatter. Dashes within a value are no such line. In
`skillscraft` the line must start with the dashes; `seed-strict` allows blanks before them.

## Why is this bad?
Where the fields end and the instructions begin cannot be told.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.

# Bead counter
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
---
# Bead counter
```
"#,
    check: RuleCheck::Loading,
};
