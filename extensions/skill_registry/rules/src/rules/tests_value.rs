//! `tests.value`: an assertion of an unknown type.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "tests.value",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "an assertion has an unknown type",
    levels: ProfileLevels {
        skillscraft: RuleLevel::Error,
        reference: RuleLevel::Off,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Checks that the `type` of every assertion in the test scenarios (`tests`) is `contains`,
`not-contains`, `matches-regex`, `file-created`, `file-modified`, `command-executed` or `custom`.

## Why is this bad?
A test runner cannot check an assertion of an unknown type. The assertion is skipped.

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
