//! `tests.required`: a test scenario lacks a field.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "tests.required",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "a test scenario lacks a field",
    levels: ProfileLevels {
        skillscraft: RuleLevel::Error,
        reference: RuleLevel::Off,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Requires the mandatory fields of every test scenario (`tests`): `name`, `description` and `cases`;
in each case `name`, `input` and `assertions`; in each assertion `type` and `value`.

## Why is this bad?
A case without a prompt or without an assertion cannot be run.

## Bad
```markdown greet/SKILL.md
---
name: greet
description: Greets people by name. Use when a guest arrives.
metadata:
  tests: |
    - name: greeting
      description: It greets each guest by name.
      cases:
        - name: by name
          assertions:
            - type: contains
              value: Ada
---
Say hello.
```

## Good
```markdown greet/SKILL.md profile=skillscraft
---
name: greet
description: Greets people by name. Use when a guest arrives.
metadata:
  tests: |
    - name: greeting
      description: It greets each guest by name.
      cases:
        - name: by name
          input: Ada is here.
          assertions:
            - type: contains
              value: Ada
---
Say hello.
```
"#,
    check: RuleCheck::Declared,
};
