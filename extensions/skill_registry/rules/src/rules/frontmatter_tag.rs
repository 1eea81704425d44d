//! `frontmatter.tag`: a value has a YAML tag.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "frontmatter.tag",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "a value has a YAML tag",
    levels: ProfileLevels {
        lenient: RuleLevel::Warning,
        spec: RuleLevel::Error,
        anthropic: RuleLevel::Warning,
        ..ProfileLevels::uniform(RuleLevel::Off)
    },
    fixable: false,
    docs: r#"
## What it does
Reports tags such as `!!str`. The value is read as text, the tag is ignored.

## Why is this bad?
All values of a skill are texts, so a tag has no meaning. Strict readers reject tags, because some
YAML libraries create objects from them.

## Bad
```markdown bead-counter/SKILL.md
---
name: !!str bead-counter
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
