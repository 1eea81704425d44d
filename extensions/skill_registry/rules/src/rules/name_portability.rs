//! `name.portability`: the name has characters outside ASCII.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "name.portability",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "the name has characters outside ASCII",
    levels: ProfileLevels {
        lenient: RuleLevel::Warning,
        spec: RuleLevel::Warning,
        ..ProfileLevels::uniform(RuleLevel::Off)
    },
    fixable: false,
    docs: r#"
## What it does
Reports names with letters other than a to z, which the specification allows. The stricter profiles
reject them (`name.format`).

## Why is this bad?
Some readers accept only a to z, and some file systems and archives change the spelling of such
letters.

## Bad
```markdown perlenzähler/SKILL.md
---
name: perlenzähler
description: Counts beads in a jar. Use when the user asks how many there are.
---
Count the beads.
```

## Good
```markdown perlenzaehler/SKILL.md
---
name: perlenzaehler
description: Counts beads in a jar. Use when the user asks how many there are.
---
Count the beads.
```
"#,
    check: RuleCheck::Loading,
};
