//! `tools.value`: a tool or its version cannot be read.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "tools.value",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "a tool or its version cannot be read",
    levels: ProfileLevels {
        skillscraft: RuleLevel::Error,
        reference: RuleLevel::Off,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Checks that `tool` in the tool binding (`tools`) is the name of one tool, optionally with a pattern
in parentheses, and that `minVersion` is a version: numbers separated by periods.

## Why is this bad?
An invalid tool cannot be found, and an invalid version cannot be compared.

## Bad
```markdown history/SKILL.md
---
name: history
description: Tells what a repository has been through. Use when the user asks about its past.
metadata:
  tools: |
    dependencies:
      - tool: Bash(git:*)
        required: true
        purpose: Reads the log.
        minVersion: latest
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
