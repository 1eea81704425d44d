//! `composition.value`: a part of the composition cannot be read.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "composition.value",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "a part of the composition cannot be read",
    levels: ProfileLevels {
        skillscraft: RuleLevel::Error,
        reference: RuleLevel::Off,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Looks whether the skills named in the composition (`composition`) can be ids of skills, and whether
`executionOrder` is `before`, `after` or `independent`.

## Why is this bad?
A skill is known by the name of its directory; a path or a sentence is never found. An order that is
not understood counts as `after`.

## Bad
```markdown greet/SKILL.md
---
name: greet
description: Greets people by name. Use when somebody arrives.
metadata:
  composition: |
    dependencies:
      - skillName: people
        reason: Knows the names.
        optional: true
    conflicts: [insult]
    executionOrder: last
---
Say hello.
```

## Good
```markdown greet/SKILL.md profile=skillscraft
---
name: greet
description: Greets people by name. Use when somebody arrives.
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
