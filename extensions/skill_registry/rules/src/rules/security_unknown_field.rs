//! `security.unknownField`: the security manifest has a field that is not used.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "security.unknownField",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "the security manifest has a field that is not used",
    levels: ProfileLevels {
        reference: RuleLevel::Off,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Searches for fields of the security manifest (`security`) that the extended specification does not
have, and for repeated fields and manifests.

## Why is this bad?
A misspelled field is ignored without notice.

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
    runsCommands: true
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
