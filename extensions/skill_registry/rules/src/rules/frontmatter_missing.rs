//! `frontmatter.missing`: the file does not start with a frontmatter.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "frontmatter.missing",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "the file does not start with a frontmatter",
    levels: ProfileLevels::uniform(RuleLevel::Error),
    fixable: false,
    docs: r#"
## What it does
Requires a line `---` at the start of the file. `lenient`, `spec` and `anthropic` accept blank lines
before it and blanks after the dashes, and report those by separate rules; `skillscraft` requires
the first line to be exactly `---`; `seed-strict` accepts any line of three or more dashes.

## Why is this bad?
Without a frontmatter there is neither a name nor a description, and no agent can select the skill.

## Bad
```markdown bead-counter/SKILL.md
# Bead counter

Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
---
# Bead counter

Count the beads.
```
"#,
    check: RuleCheck::Loading,
};
