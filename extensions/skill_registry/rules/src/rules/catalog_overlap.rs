//! `catalog-overlap`: two skills of one catalog with overlapping descriptions.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(crate) static RULE: Rule = Rule {
    id: "catalog-overlap",
    group: RuleGroup::Lint,
    extent: RuleExtent::Head,
    summary: "the description overlaps with that of another skill",
    levels: ProfileLevels::uniform(RuleLevel::Warning),
    fixable: false,
    docs: r"
## What it does
Compares the descriptions of all skills that are linted together. Rare words weigh more than common
ones; if two descriptions share more than 62 % of their combined weight, the later one is reported.
Two skills are distinct, and not reported, if each has a word of its own name in its description
that the other description lacks; if their names share a word, one such word is enough.

## Why is this bad?
A model selects skills by their descriptions. Between two similar ones it picks at random, and often
loads both.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts glass beads in a jar and reports the total per colour. Use when asked.
---
Count the beads.
```
```markdown jar-counter/SKILL.md
---
name: jar-counter
description: Counts the glass beads in jars and reports a total per colour. Use when asked.
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts glass beads in a jar and reports the total per colour. Use when asked.
---
Count the beads.
```
```markdown bead-sorter/SKILL.md
---
name: bead-sorter
description: Sorts beads of wood by size into trays. Use when the user wants them in order.
---
Sort the beads.
```
",
    check: RuleCheck::Catalog,
};
