//! `frontmatter.complexKey`: a list or a map is used as a key.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "frontmatter.complexKey",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "a list or a map is used as a key",
    levels: ProfileLevels {
        lenient: RuleLevel::Warning,
        spec: RuleLevel::Error,
        anthropic: RuleLevel::Warning,
        ..ProfileLevels::uniform(RuleLevel::Off)
    },
    fixable: false,
    docs: r#"
## What it does
Reports keys that are not texts, mostly a placeholder of a template in double braces that was never
replaced.

## Why is this bad?
Most readers do not support such keys and reject the file.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
license: {{license}: MIT}
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
license: MIT
---
Count the beads.
```
"#,
    check: RuleCheck::Loading,
};
