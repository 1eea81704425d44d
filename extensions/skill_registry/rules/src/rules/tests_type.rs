//! `tests.type`: a part of the test scenarios has the wrong type.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "tests.type",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "a part of the test scenarios has the wrong type",
    levels: ProfileLevels {
        skillscraft: RuleLevel::Error,
        reference: RuleLevel::Off,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Checks the types in the test scenarios (`tests`): a list of maps (or one map), with `cases` and
`assertions` as lists of maps in them, and texts in all other fields. In profile `skillscraft`, a
text that YAML reads as a number is not valid either.

## Why is this bad?
A value of another type cannot be run.

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
          input: Ada is here.
          assertions: it says Ada
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
