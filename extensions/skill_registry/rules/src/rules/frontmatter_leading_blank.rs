//! `frontmatter.leadingBlank`: there are blank lines before the frontmatter.

use crate::profile::{Level, Levels};
use crate::rule::{Check, Group, Reach, Rule};

pub(super) static RULE: Rule = Rule {
    id: "frontmatter.leadingBlank",
    group: Group::Validation,
    reach: Reach::Head,
    summary: "there are blank lines before the frontmatter",
    levels: Levels {
        lenient: Level::Warning,
        spec: Level::Error,
        anthropic: Level::Error,
        ..Levels::all(Level::Off)
    },
    fixable: true,
    docs: r#"
## What it does
Reports blank lines before the opening `---`. Loading skips them. The stricter profiles find no
frontmatter in such a file (`frontmatter.missing`).

## Why is this bad?
The format wants the file to start with `---`. Most readers take such a file for plain Markdown.

## Bad
```markdown bead-counter/SKILL.md

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
