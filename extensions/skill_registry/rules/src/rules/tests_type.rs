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
Looks at the types in the test scenarios (`tests`): a list of maps (or one map), with `cases` and
`assertions` as lists of maps in them, and texts everywhere else. In profile `skillscraft` a text that
YAML reads as a number is wrong too.

## Why is this bad?
What has another type cannot be run.

## Bad
```markdown greet/SKILL.md
---
name: greet
description: Greets people by name. Use when somebody arrives.
metadata:
  tests: |
    - name: greeting
      description: It greets whoever arrives.
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
description: Greets people by name. Use when somebody arrives.
metadata:
  tests: |
    - name: greeting
      description: It greets whoever arrives.
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
