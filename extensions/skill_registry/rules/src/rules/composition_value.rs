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
Checks that the skills named in the composition (`composition`) are valid ids, and that
`executionOrder` is `before`, `after` or `independent`.

## Why is this bad?
The id of a skill is the name of its directory; a path or a sentence is never found. An invalid
order counts as `after`.

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
    executionOrder: last
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
