//! `frontmatter.duplicateKey`: a key is repeated in the same map.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "frontmatter.duplicateKey",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "a key is repeated in the same map",
    levels: ProfileLevels {
        lenient: RuleLevel::Warning,
        spec: RuleLevel::Error,
        anthropic: RuleLevel::Warning,
        ..ProfileLevels::uniform(RuleLevel::Off)
    },
    fixable: false,
    docs: r#"
## What it does
Reports a repeated key in the frontmatter, in `metadata` or in any other map. The first one counts.

## Why is this bad?
Some readers use the first value, some the last, and some reject the file: the content of the skill
depends on the reader.

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
