//! `security.required`: the security manifest lacks a field.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "security.required",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "the security manifest lacks a field",
    levels: ProfileLevels {
        skillscraft: RuleLevel::Error,
        reference: RuleLevel::Off,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Requires `capabilities` in the security manifest (`security`), and `capability` and `reason` in each
of them.

## Why is this bad?
The user reads the reason before approving a capability. A capability without a name cannot be
approved.

## Bad
```markdown history/SKILL.md
---
name: history
description: Tells what a repository has been through. Use when the user asks about its past.
metadata:
  security: |
    capabilities:
      - capability: shell:execute
    executesCommands: true
    fileSystemScope: workspace
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
