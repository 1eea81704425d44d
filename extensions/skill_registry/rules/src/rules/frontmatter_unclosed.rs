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
Requires a line `---` that ends the frontmatter. Dashes within a value do not count. In
`skillscraft` the line must start with the dashes; `seed-strict` allows blanks before them.

## Why is this bad?
The end of the fields and the start of the instructions are unknown.

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
