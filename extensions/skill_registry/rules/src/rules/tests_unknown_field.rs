//! `tests.unknownField`: a test scenario has a field that is not used.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "tests.unknownField",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "a test scenario has a field that is not used",
    levels: ProfileLevels {
        reference: RuleLevel::Off,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Searches for fields of the test scenarios (`tests`) that the extended specification does not have,
and for repeated fields and scenarios.

## Why is this bad?
A misspelled field is ignored without notice.

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
            - type: contains
              value: Ada
          expected: A friendly line.
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
          expectedBehavior: A friendly line.
---
Say hello.
```
"#,
    check: RuleCheck::Declared,
};
