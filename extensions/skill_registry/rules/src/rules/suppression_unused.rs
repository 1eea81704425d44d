//! `suppression-unused`: a suppression without effect.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(crate) static RULE: Rule = Rule {
    id: "suppression-unused",
    group: RuleGroup::Lint,
    reach: RuleExtent::Body,
    summary: "a suppression suppresses nothing",
    levels: ProfileLevels::uniform(RuleLevel::Warning),
    fixable: false,
    docs: r"
## What it does
Finds suppressions that no finding answers to. There are two kinds of them:

- In the frontmatter, the comment `# skillhost: allow(rule, rule)`, on a line of its own or behind a
  value, is about the whole file.
- In the body, the comment `<!-- skillhost: allow(rule) -->` on a line of its own is about the next
  block (a heading, a paragraph, a list, a table, a block of code); within a line, about that line.

Warnings and notes can be suppressed, errors cannot. Suppressions of rules over several skills
(`catalog-overlap` and others) stand in the frontmatter and are never reported as unused, because
one skill does not tell.

## Why is this bad?
What it was there for is gone; left alone, it hides the next finding that nobody has looked at.

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
