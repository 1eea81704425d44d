//! `tools.unknownField`: the tool binding has a field that is not used.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "tools.unknownField",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "the tool binding has a field that is not used",
    levels: ProfileLevels {
        reference: RuleLevel::Off,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Searches for fields of the tool binding (`tools`) that the extended specification does not have, and
for repeated fields and bindings.

## Why is this bad?
A misspelled field is ignored without notice.

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
        version: "2.40"
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
