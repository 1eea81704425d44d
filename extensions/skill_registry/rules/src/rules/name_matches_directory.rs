//! `name.matchesDirectory`: the name is not the directory's name.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "name.matchesDirectory",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "the name is not the directory's name",
    levels: ProfileLevels {
        lenient: RuleLevel::Warning,
        anthropic: RuleLevel::Warning,
        ..ProfileLevels::uniform(RuleLevel::Error)
    },
    fixable: false,
    docs: r#"
## What it does
Compares `name` with the name of the directory, both after Unicode normalization (NFKC).

## Why is this bad?
A skill is found by the name of its directory. If the two differ, an agent that reads the name
requests a skill that does not exist.

## Bad
```markdown bead-counter/SKILL.md
---
name: jar-counter
description: Counts beads in a jar. Use when the user asks how many there are.
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
---
Count the beads.
```
"#,
    check: RuleCheck::Loading,
};
