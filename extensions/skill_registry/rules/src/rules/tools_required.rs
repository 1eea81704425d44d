//! `tools.required`: a tool dependency lacks a field.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "tools.required",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "a tool dependency lacks a field",
    levels: ProfileLevels {
        skillscraft: RuleLevel::Error,
        reference: RuleLevel::Off,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Requires `dependencies` in the tool binding (`tools`), and `tool`, `required` and `purpose` in each
of them. Without `required`, the tool counts as required.

## Why is this bad?
Without `required` it is unknown whether the skill works without the tool.

## Bad
```markdown history/SKILL.md
---
name: history
description: Tells what a repository has been through. Use when the user asks about its past.
metadata:
  tools: |
    dependencies:
      - tool: Bash(git:*)
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
