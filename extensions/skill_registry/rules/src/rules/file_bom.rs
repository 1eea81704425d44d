//! `file.bom`: the file starts with a byte order mark.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "file.bom",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "the file starts with a byte order mark",
    levels: ProfileLevels {
        reference: RuleLevel::Off,
        skillscraft: RuleLevel::Off,
        seed_strict: RuleLevel::Off,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: true,
    docs: r#"
## What it does
Reports a UTF-8 byte order mark at the start of the file. Loading drops it. The stricter profiles
find no frontmatter in such a file (`frontmatter.missing`).

## Why is this bad?
The mark precedes the `---`. Readers that do not expect it find no frontmatter and skip the skill,
and an editor does not show the mark.

## Bad
```markdown bead-counter/SKILL.md encoding=utf-8-bom
---
name: bead-counter
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
