//! `composition.required`: the composition lacks a field.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "composition.required",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "the composition lacks a field",
    levels: ProfileLevels {
        skillscraft: RuleLevel::Error,
        reference: RuleLevel::Off,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Requires `dependencies` in the composition (`composition`), and `skillName` and `reason` in each of
them.

## Why is this bad?
A dependency without a name cannot be found; one without a reason cannot be reviewed.

## Bad
```markdown greet/SKILL.md
---
name: greet
description: Greets people by name. Use when a guest arrives.
metadata:
  composition: |
    dependencies:
      - skillName: people
        optional: true
    conflicts: [insult]
    executionOrder: after
---
Say hello.
```

## Good
```markdown greet/SKILL.md profile=skillscraft
---
name: greet
description: Greets people by name. Use when a guest arrives.
metadata:
  composition: |
    dependencies:
      - skillName: people
        reason: Knows the names.
        optional: true
    conflicts: [insult]
    executionOrder: after
---
Say hello.
```
"#,
    check: RuleCheck::Declared,
};
