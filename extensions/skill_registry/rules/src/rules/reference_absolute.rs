//! `reference.absolute`: a link is an absolute path.

use crate::body::local_links::LocalTarget;
use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

pub(super) static RULE: Rule = Rule {
    id: "reference.absolute",
    group: RuleGroup::Validation,
    extent: RuleExtent::Body,
    summary: "a link is an absolute path",
    levels: ProfileLevels {
        lenient: RuleLevel::Off,
        reference: RuleLevel::Off,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Reports links of the body that start with `/`, with `~/` or with a drive letter.

## Why is this bad?
The path has another meaning on every machine. Links are relative to the skill's directory.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
---
See [the guide](/home/ann/skills/bead-counter/references/guide.md).
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
---
See [the guide](references/guide.md).
```

```markdown bead-counter/references/guide.md
# How to count
```
"#,
    check: RuleCheck::Skill(check),
};

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    for link in skill.local_links() {
        if let LocalTarget::Absolute(target) = &link.place {
            let message = format!("`{target}` is an absolute path");
            findings.add(
                skill.span_at(link.at),
                message,
                "write the path relative to the skill's directory",
            );
        }
    }
}
