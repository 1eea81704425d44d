//! `tests.value`: an assertion of an unknown type.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "tests.value",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "the type of an assertion is none of those there are",
    levels: ProfileLevels {
        skillscraft: RuleLevel::Error,
        reference: RuleLevel::Off,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Looks whether the `type` of every assertion in the test scenarios (`tests`) is `contains`,
`not-contains`, `matches-regex`, `file-created`, `file-modified`, `command-executed` or `custom`.

## Why is this bad?
Nothing can be looked for by a program that does not know what is meant. The assertion is left out.

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
          assertions:
            - type: includes
              value: Ada
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
