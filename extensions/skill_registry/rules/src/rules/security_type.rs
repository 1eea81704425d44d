//! `security.type`: a part of the security manifest has the wrong type.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "security.type",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "a part of the security manifest has the wrong type",
    levels: ProfileLevels {
        skillscraft: RuleLevel::Error,
        reference: RuleLevel::Off,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Checks the types in the security manifest (`security`): `capabilities` is a list of maps with
`capability`, `reason` and `optional`; `requiresNetwork`, `modifiesFiles` and `executesCommands` are
booleans. In profile `skillscraft`, a text that YAML reads as a number is not valid either.

## Why is this bad?
The user who approves the skill cannot read the value. A value that is not a boolean counts as
missing.

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
    executesCommands: sometimes
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
