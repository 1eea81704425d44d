//! `composition.unknownField`: the composition has a field that is not used.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "composition.unknownField",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "the composition has a field that is not used",
    levels: ProfileLevels {
        reference: RuleLevel::Off,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Searches for fields of the composition (`composition`) that the extended specification does not
have, and for repeated fields and compositions.

## Why is this bad?
A misspelled field is ignored without notice.

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
    conflicts: [insult]
    order: after
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
