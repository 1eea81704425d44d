//! `requires-unresolved`: a skill that requires a missing skill.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(crate) static RULE: Rule = Rule {
    id: "requires-unresolved",
    group: RuleGroup::Lint,
    extent: RuleExtent::Head,
    summary: "a required skill does not exist",
    levels: ProfileLevels::uniform(RuleLevel::Warning),
    fixable: false,
    docs: r"
## What it does
Searches for the ids in `requires` among all skills that are linted together, and suggests the most
similar id for a missing one. A skill that requires itself is reported, too. A single skill is not
checked.

## Why is this bad?
A model that loads the skill is instructed to load the other one first, and cannot.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
metadata:
  requires: Jar-Opener
---
Count the beads.
```
```markdown jar-opener/SKILL.md
---
name: jar-opener
description: Opens jars that are stuck. Use when a jar does not open.
---
Open the jar.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
metadata:
  requires: jar-opener
---
Count the beads.
```
```markdown jar-opener/SKILL.md
---
name: jar-opener
description: Opens jars that are stuck. Use when a jar does not open.
---
Open the jar.
```
",
    check: RuleCheck::Catalog,
};
