//! `frontmatter.multipleDocuments`: the frontmatter has several YAML documents.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "frontmatter.multipleDocuments",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "the frontmatter has several YAML documents",
    levels: ProfileLevels {
        lenient: RuleLevel::Warning,
        spec: RuleLevel::Error,
        anthropic: RuleLevel::Error,
        ..ProfileLevels::uniform(RuleLevel::Off)
    },
    fixable: false,
    docs: r#"
## What it does
Reports a line `...` that ends a YAML document within the frontmatter. The documents are read as
one.

## Why is this bad?
Other readers see the first document only, or reject the file.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
...
description: Counts beads in a jar. Use when the user asks how many there are.
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
---
Count the beads.
```
"#,
    check: RuleCheck::Loading,
};
