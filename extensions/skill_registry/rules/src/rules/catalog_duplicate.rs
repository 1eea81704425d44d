//! `catalog-duplicate`: two skills of one catalog with one id or one name.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(crate) static RULE: Rule = Rule {
    id: "catalog-duplicate",
    group: RuleGroup::Lint,
    extent: RuleExtent::Head,
    summary: "another skill has the same directory name or the same name",
    levels: ProfileLevels::uniform(RuleLevel::Warning),
    fixable: false,
    docs: r"
## What it does
Compares the directory names and the names of all skills that are linted together, ignoring case.
The later of two is reported.

## Why is this bad?
A client loads one of the two and hides the other; the choice depends on the client. Names that
differ only in case are the same file on some systems.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Count the beads.
```
```markdown jar-counter/SKILL.md
---
name: bead-counter
description: Weighs jars with a scale. Use when the user asks how heavy a jar is.
---
Weigh the jar.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Count the beads.
```
```markdown jar-scale/SKILL.md
---
name: jar-scale
description: Weighs jars with a scale. Use when the user asks how heavy a jar is.
---
Weigh the jar.
```
",
    check: RuleCheck::Catalog,
};
