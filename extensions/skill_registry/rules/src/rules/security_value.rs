//! `security.value`: a security manifest with an unknown scope.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "security.value",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "the scope of the security manifest is not valid",
    levels: ProfileLevels {
        skillscraft: RuleLevel::Error,
        reference: RuleLevel::Off,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Checks that `fileSystemScope` in the security manifest (`security`) is `skill-directory`,
`workspace` or `system`.

## Why is this bad?
Another word has no meaning for a program that limits the file access of the skill.

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
    check: RuleCheck::Declared,
};
