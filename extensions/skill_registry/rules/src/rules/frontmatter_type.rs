//! `frontmatter.type`: the frontmatter is not a list of fields.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "frontmatter.type",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "the frontmatter is not a list of fields",
    levels: ProfileLevels::uniform(RuleLevel::Error),
    fixable: false,
    docs: r#"
## What it does
Requires `key: value` lines between the fences.

## Why is this bad?
A list or a sentence has no `name` and no `description`.

## Bad
```markdown bead-counter/SKILL.md
---
- name: bead-counter
- description: Counts beads in a jar. Use when the user asks how many there are.
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
