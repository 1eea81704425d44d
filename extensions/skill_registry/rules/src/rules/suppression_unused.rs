//! `suppression-unused`: a suppression without effect.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(crate) static RULE: Rule = Rule {
    id: "suppression-unused",
    group: RuleGroup::Lint,
    extent: RuleExtent::Body,
    summary: "a suppression has no effect",
    levels: ProfileLevels::uniform(RuleLevel::Warning),
    fixable: false,
    docs: r"
## What it does
Reports suppressions without a matching finding. There are two kinds of suppressions:

- In the frontmatter, the comment `# skillhost: allow(rule, rule)`, on a line of its own or after a
  value, applies to the whole file.
- In the body, the comment `<!-- skillhost: allow(rule) -->` on a line of its own applies to the
  next block (a heading, a paragraph, a list, a table, a block of code); within a line, to that line.

Warnings and notes can be suppressed, errors cannot. Suppressions of rules over several skills
(`catalog-overlap` and others) belong to the frontmatter and are never reported as unused, because
they depend on other skills.

## Why is this bad?
Its finding no longer exists; the suppression would hide the next, unreviewed one.

## Bad
```markdown bead-counter/SKILL.md
---
# skillhost: allow(gotchas-present)
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
<!-- skillhost: allow(no-generic-instructions) -->
Count the beads and follow best practices.
```
",
    check: RuleCheck::Suppression,
};
