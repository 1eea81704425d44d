//! `frontmatter.recovered`: a field is not valid YAML.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "frontmatter.recovered",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "a field is not valid YAML",
    levels: ProfileLevels {
        lenient: RuleLevel::Warning,
        spec: RuleLevel::Error,
        anthropic: RuleLevel::Error,
        ..ProfileLevels::uniform(RuleLevel::Off)
    },
    fixable: true,
    docs: r#"
## What it does
Reports every field that is not valid YAML, with its replacement: the literal text. The most common
case is `: ` in a description without quotes. `skillscraft` and `seed-strict` report it as
`frontmatter.yaml`.

## Why is this bad?
Readers with an ordinary YAML parser skip the skill because of that one field.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads. Use when: the user asks how many there are.
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: "Counts beads. Use when: the user asks how many there are."
---
Count the beads.
```
"#,
    check: RuleCheck::Loading,
};
