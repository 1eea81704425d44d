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
Reports aliases such as `*jar`. They are never resolved; the value is the text `*jar`.

## Why is this bad?
Strict readers reject aliases, because a small file of them can expand to a huge one. Other readers
resolve the alias, so that readers disagree on the value.

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
