//! `security.value`: the scope of the security manifest is none of the three.

use crate::profile::{Level, Levels};
use crate::rule::{Check, Group, Reach, Rule};

pub(super) static RULE: Rule = Rule {
    id: "security.value",
    group: Group::Validation,
    reach: Reach::Head,
    summary: "the scope of the security manifest is none of the three",
    levels: Levels {
        skillscraft: Level::Error,
        reference: Level::Off,
        ..Levels::all(Level::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Looks whether `fileSystemScope` in the security manifest (`security`) is `skill-directory`,
`workspace` or `system`.

## Why is this bad?
Another word says nothing to a program that limits where the skill reads and writes.

## Bad
```markdown history/SKILL.md
---
name: history
description: Tells what a repository has been through. Use when the user asks about its past.
metadata:
  security: |
    capabilities:
      - capability: shell:execute
        reason: Runs git log.
    executesCommands: true
    fileSystemScope: repository
---
Read the log and tell the story.
```

## Good
```markdown history/SKILL.md profile=skillscraft
---
name: history
description: Tells what a repository has been through. Use when the user asks about its past.
metadata:
  security: |
    capabilities:
      - capability: shell:execute
        reason: Runs git log.
    executesCommands: true
    fileSystemScope: workspace
---
Read the log and tell the story.
```
"#,
    check: Check::Declared,
};
