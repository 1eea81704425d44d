//! `frontmatter.anchor`: a value has a YAML anchor.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "frontmatter.anchor",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "a value has a YAML anchor",
    levels: ProfileLevels {
        lenient: RuleLevel::Warning,
        spec: RuleLevel::Error,
        anthropic: RuleLevel::Warning,
        ..ProfileLevels::uniform(RuleLevel::Off)
    },
    fixable: false,
    docs: r#"
## What it does
Reports anchors such as `&jar`. The value is read, the anchor is ignored.

## Why is this bad?
Fields of a skill are plain texts. Strict readers reject anchors, because with aliases a small file
can expand to a huge one.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
metadata:
  jar: &jar glass
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
---
Count the beads.
```
"#,
    check: RuleCheck::Loading,
};
