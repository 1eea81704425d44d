//! `frontmatter.tag`: a value has a YAML tag.

use crate::profile::{Level, Levels};
use crate::rule::{Check, Group, Reach, Rule};

pub(super) static RULE: Rule = Rule {
    id: "frontmatter.tag",
    group: Group::Validation,
    reach: Reach::Head,
    summary: "a value has a YAML tag",
    levels: Levels {
        lenient: Level::Warning,
        spec: Level::Error,
        anthropic: Level::Warning,
        ..Levels::all(Level::Off)
    },
    fixable: false,
    docs: r#"
## What it does
Reports tags such as `!!str`. The value is read as text, the tag is ignored.

## Why is this bad?
All values of a skill are texts, so a tag says nothing. Strict readers refuse tags, because some YAML
libraries make objects of them.

## Bad
```markdown bead-counter/SKILL.md
---
name: !!str bead-counter
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
