//! `reference.depth`: a reference is more than one level deep.

use crate::body::local_links::LocalTarget;
use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

pub(super) static RULE: Rule = Rule {
    id: "reference.depth",
    group: RuleGroup::Validation,
    extent: RuleExtent::Body,
    summary: "a reference is more than one level deep",
    levels: ProfileLevels {
        lenient: RuleLevel::Off,
        reference: RuleLevel::Off,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Reports links to files below a subdirectory of `references/`.

## Why is this bad?
The specification keeps references one level deep. Agents tend to read only parts of deeply nested
files.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
---
See [the guide](references/glass/jars.md).
```

```markdown bead-counter/references/glass/jars.md
# Glass jars
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
---
See [the guide](references/glass-jars.md).
```

```markdown bead-counter/references/glass-jars.md
# Glass jars
```
"#,
    check: RuleCheck::Skill(check),
};

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    for link in skill.local_links() {
        let LocalTarget::Inside(path) = &link.place else { continue };
        // The specification limits the depth only below this directory.
        if path.strip_prefix("references/").is_some_and(|rest| rest.contains('/')) {
            let message = format!("`{path}` is more than one level deep");
            findings.add(skill.span_at(link.at), message, "move the file up into references/");
        }
    }
}
