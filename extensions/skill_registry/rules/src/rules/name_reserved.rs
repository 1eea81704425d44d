//! `name.reserved`: a name with a word that Anthropic reserves.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

/// The reserved words (source: Anthropic's documentation of Agent Skills).
const RESERVED: [&str; 2] = ["anthropic", "claude"];

pub(super) static RULE: Rule = Rule {
    id: "name.reserved",
    group: RuleGroup::Validation,
    extent: RuleExtent::Head,
    summary: "the name contains a reserved word",
    levels: ProfileLevels {
        lenient: RuleLevel::Off,
        reference: RuleLevel::Off,
        seed_strict: RuleLevel::Off,
        anthropic: RuleLevel::Error,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Searches the `name` for the words `anthropic` and `claude`.

## Why is this bad?
Anthropic's products reject a skill with such a name, so that it is not mistaken for one of their
own.

## Bad
```markdown claude-beads/SKILL.md
---
name: claude-beads
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Count the beads.
```
"#,
    check: RuleCheck::Skill(check),
};

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    let Some(name) = skill.frontmatter().and_then(|it| it.name.as_deref()) else { return };
    let lower = name.to_lowercase();
    if let Some(word) = RESERVED.into_iter().find(|word| lower.contains(word)) {
        findings.add(
            skill.field_span("name"),
            format!("the name contains the reserved word `{word}`"),
            "rename the skill and its directory",
        );
    }
}
