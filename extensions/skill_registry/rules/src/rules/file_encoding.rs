//! `file.encoding`: the file is not UTF-8.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "file.encoding",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "the file is not UTF-8",
    levels: ProfileLevels {
        lenient: RuleLevel::Warning,
        ..ProfileLevels::uniform(RuleLevel::Error)
    },
    fixable: false,
    docs: r#"
## What it does
Reports bytes that are not UTF-8, with the position of the first one, and files in UTF-16. Loading
decodes UTF-16 if the file starts with a byte order mark, and rejects all other encodings.

## Why is this bad?
The format is UTF-8. The handling of other bytes is undefined: some readers stop with an exception,
some show other letters than the author wrote.

## Bad
```markdown bead-counter/SKILL.md encoding=latin-1
---
name: bead-counter
description: Counts beads in a jar. Use when asked in a café.
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when asked in a café.
---
Count the beads.
```
"#,
    check: RuleCheck::Loading,
};
