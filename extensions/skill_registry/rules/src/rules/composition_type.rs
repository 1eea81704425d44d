//! `composition.type`: a part of the composition has the wrong type.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "composition.type",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "a part of the composition has the wrong type",
    levels: ProfileLevels {
        skillscraft: RuleLevel::Error,
        reference: RuleLevel::Off,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Looks at the types in the composition (`composition`): `dependencies` is a list of maps with texts in
`skillName` and `reason` and `true` or `false` in `optional`; `conflicts` is a list of texts. In profile
`skillscraft` a text that YAML reads as a number is wrong too.

## Why is this bad?
What has another type is not read, so a missing skill or a conflict goes unnoticed.

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
    conflicts: insult
    executionOrder: after
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
