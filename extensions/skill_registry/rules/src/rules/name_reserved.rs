//! `name.reserved`: a name with a word that Anthropic keeps for itself.

use crate::profile::{Level, Levels};
use crate::rule::{Check, Findings, Group, Reach, Rule};
use crate::subject::Subject;

/// The words, as Anthropic's documentation of Agent Skills lists them.
const RESERVED: [&str; 2] = ["anthropic", "claude"];

pub(super) static RULE: Rule = Rule {
    id: "name.reserved",
    group: Group::Validation,
    reach: Reach::Head,
    summary: "the name contains a reserved word",
    levels: Levels {
        lenient: Level::Off,
        reference: Level::Off,
        seed_strict: Level::Off,
        anthropic: Level::Error,
        ..Levels::all(Level::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Looks for the words `anthropic` and `claude` in the `name`.

## Why is this bad?
Anthropic's products refuse to upload a skill with such a name, so that nobody takes it for one of
their own.

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
    check: Check::Skill(check),
};

fn check(skill: &Subject<'_>, findings: &mut Findings<'_>) {
    let Some(name) = skill.frontmatter().and_then(|it| it.name.as_deref()) else { return };
    let lower = name.to_lowercase();
    if let Some(word) = RESERVED.into_iter().find(|word| lower.contains(word)) {
        findings.add(
            skill.place_of("name"),
            format!("the name contains the reserved word `{word}`"),
            "rename the skill and its directory",
        );
    }
}
