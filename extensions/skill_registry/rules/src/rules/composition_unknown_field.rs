//! `composition.unknownField`: the composition has a field that is not used.

use crate::extended;
use crate::profile::{Level, Levels};
use crate::rule::{Check, Findings, Group, Reach, Rule};
use crate::subject::Subject;

pub(super) static RULE: Rule = Rule {
    id: "composition.unknownField",
    group: Group::Validation,
    reach: Reach::Head,
    summary: "the composition has a field that is not used",
    levels: Levels { reference: Level::Off, ..Levels::all(Level::Warning) },
    fixable: false,
    docs: r#"
## What it does
Looks for fields of the composition (`composition`) that the extended specification does not have, and
for fields and compositions that are given twice.

## Why is this bad?
A field with a slip in its name is silently not obeyed.

## Bad
```markdown greet/SKILL.md
---
name: greet
description: Greets people by name. Use when somebody arrives.
composition:
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
description: Greets people by name. Use when somebody arrives.
composition:
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
    check: Check::Skill(check),
};

fn check(skill: &Subject<'_>, findings: &mut Findings<'_>) {
    extended::report(RULE.id, skill, findings);
}
