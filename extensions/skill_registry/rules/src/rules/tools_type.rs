//! `tools.type`: a part of the tool binding has the wrong type.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "tools.type",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "a part of the tool binding has the wrong type",
    levels: ProfileLevels {
        skillscraft: RuleLevel::Error,
        reference: RuleLevel::Off,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Checks the types in the tool binding (`tools`): `dependencies` is a list of maps, `required` is a
boolean, and `tool`, `purpose` and `minVersion` are texts. In profile `skillscraft`, a text that
YAML reads as a number, such as `1.10`, is not valid either. A `tools` that is a text or a list of
tools is a field of another client and is ignored.

## Why is this bad?
A value of another type is ignored, so that a missing tool goes unnoticed.

## Bad
```markdown history/SKILL.md
---
name: history
description: Tells what a repository has been through. Use when the user asks about its past.
metadata:
  tools: |
    dependencies:
      - tool: Bash(git:*)
        required: always
        purpose: Reads the log.
        minVersion: "2.40"
---
Read the log and tell the story.
```

## Good
```markdown history/SKILL.md profile=skillscraft
---
name: history
description: Tells what a repository has been through. Use when the user asks about its past.
metadata:
  tools: |
    dependencies:
      - tool: Bash(git:*)
        required: true
        purpose: Reads the log.
        minVersion: "2.40"
---
Read the log and tell the story.
```
"#,
    check: RuleCheck::Declared,
};
