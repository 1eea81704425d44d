//! `composition.contradiction`: the composition cannot be satisfied.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "composition.contradiction",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "the composition cannot be satisfied",
    levels: ProfileLevels {
        reference: RuleLevel::Off,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Searches for a skill that depends on itself, conflicts with itself, or both depends on and conflicts
with the same skill.

## Why is this bad?
Such a skill cannot be used in any set of skills.

## Bad
```markdown greet/SKILL.md
---
name: greet
description: Greets people by name. Use when a guest arrives.
metadata:
  composition: |
    dependencies:
      - skillName: people
        reason: Knows the names.
        optional: true
    conflicts: [people]
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
