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
Checks the types in the composition (`composition`): `dependencies` is a list of maps with texts in
`skillName` and `reason` and a boolean in `optional`; `conflicts` is a list of texts. In profile
`skillscraft`, a text that YAML reads as a number is not valid either.

## Why is this bad?
A value of another type is ignored, so that a missing skill or a conflict goes unnoticed.

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
    conflicts: insult
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
