//! `frontmatter.alias`: a value is a YAML alias.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "frontmatter.alias",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "a value is a YAML alias",
    levels: ProfileLevels {
        lenient: RuleLevel::Warning,
        spec: RuleLevel::Error,
        anthropic: RuleLevel::Warning,
        ..ProfileLevels::uniform(RuleLevel::Off)
    },
    fixable: false,
    docs: r#"
## What it does
Reports aliases such as `*jar`. They are never replaced by what they stand for; the value is the
text `*jar`.

## Why is this bad?
Strict readers refuse aliases, because a small file of them can unfold into a huge one. Others put
in the other value, so that readers do not agree on what the field says.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
metadata:
  jar: &jar glass
  lid: *jar
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
metadata:
  jar: glass
  lid: glass
---
Count the beads.
```
"#,
    check: RuleCheck::Loading,
};
