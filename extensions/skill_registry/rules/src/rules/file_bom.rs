//! `file.bom`: the file starts with a byte order mark.

use crate::profile::{Level, Levels};
use crate::rule::{Check, Group, Reach, Rule};

pub(super) static RULE: Rule = Rule {
    id: "file.bom",
    group: Group::Validation,
    reach: Reach::Head,
    summary: "the file starts with a byte order mark",
    levels: Levels {
        reference: Level::Off,
        skillscraft: Level::Off,
        seed_strict: Level::Off,
        ..Levels::all(Level::Warning)
    },
    fixable: true,
    docs: r#"
## What it does
Reports a UTF-8 byte order mark at the start of the file. Loading drops it. The stricter profiles
find no frontmatter in such a file (`frontmatter.missing`).

## Why is this bad?
The mark stands before the `---`. Readers that do not expect it find no frontmatter and skip the
skill, and nothing of it can be seen in an editor.

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
    check: Check::Loading,
};
