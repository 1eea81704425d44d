//! `frontmatter.leadingBlank`: there are blank lines before the frontmatter.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "frontmatter.leadingBlank",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "there are blank lines before the frontmatter",
    levels: ProfileLevels {
        lenient: RuleLevel::Warning,
        spec: RuleLevel::Error,
        anthropic: RuleLevel::Error,
        ..ProfileLevels::uniform(RuleLevel::Off)
    },
    fixable: true,
    docs: r#"
## What it does
Reports blank lines before the opening `---`. Loading skips them. The stricter profiles find no
frontmatter in such a file (`frontmatter.missing`).

## Why is this bad?
The format requires the file to start with `---`. Most readers treat such a file as plain Markdown.

## Bad
```markdown bead-counter/SKILL.md

---
name: bead-counter
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
