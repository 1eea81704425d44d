//! `frontmatter.duplicateKey`: a key stands twice in the same map.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "frontmatter.duplicateKey",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "a key stands twice in the same map",
    levels: ProfileLevels {
        lenient: RuleLevel::Warning,
        spec: RuleLevel::Error,
        anthropic: RuleLevel::Warning,
        ..ProfileLevels::uniform(RuleLevel::Off)
    },
    fixable: false,
    docs: r#"
## What it does
Reports a key that stands again in the frontmatter, in `metadata` or in any other map. The first
one counts.

## Why is this bad?
Some readers take the first, some the last, and some refuse the file: what the skill says depends
on who reads it.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
metadata:
  author: ann
  author: bob
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
metadata:
  author: ann, bob
---
Count the beads.
```
"#,
    check: RuleCheck::Loading,
};
