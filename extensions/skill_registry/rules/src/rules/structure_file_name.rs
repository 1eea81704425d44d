//! `structure.fileName`: the file is not called SKILL.md.

use yaml_tree::Span;

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

pub(super) static RULE: Rule = Rule {
    id: "structure.fileName",
    group: RuleGroup::Validation,
    extent: RuleExtent::Head,
    summary: "the file is not called SKILL.md",
    levels: ProfileLevels {
        spec: RuleLevel::Warning,
        skillscraft: RuleLevel::Note,
        seed_strict: RuleLevel::Note,
        anthropic: RuleLevel::Error,
        ..ProfileLevels::uniform(RuleLevel::Off)
    },
    fixable: false,
    docs: r#"
## What it does
Reports a file named `skill.md`, or any other spelling that the profile accepts.

## Why is this bad?
The specification requires `SKILL.md`. Readers that search for exactly this name do not find the
skill.

## Bad
```markdown bead-counter/skill.md
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
    check: RuleCheck::Skill(check),
};

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    let Some(name) = skill.input().file_name.filter(|name| *name != "SKILL.md") else { return };
    findings.add(Span::default(), format!("the file is called `{name}`"), "rename it to SKILL.md");
}
