//! `name.required`: there is no name.

use crate::profile::{Level, Levels};
use crate::rule::{Check, Findings, Group, Reach, Rule};
use crate::subject::Subject;

pub(super) static RULE: Rule = Rule {
    id: "name.required",
    group: Group::Validation,
    reach: Reach::Head,
    summary: "there is no name",
    levels: Levels { lenient: Level::Warning, ..Levels::all(Level::Error) },
    fixable: false,
    docs: r#"
## What it does
Wants a `name` that is not blank. Loading takes the directory's name instead.

## Why is this bad?
The name is how people and agents call the skill. Other readers refuse a skill without one.

## Bad
```markdown bead-counter/SKILL.md
---
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
    check: Check::LoadingAnd(check),
};

fn check(skill: &Subject<'_>, findings: &mut Findings<'_>) {
    if !skill.profile().types_scalars() || findings.any() {
        return;
    }
    if let Some((entry, "empty")) = skill.untextual("name") {
        findings.add(entry.value.span(), "the name is empty", "write the directory's name");
    }
}

#[cfg(test)]
mod tests {
    use crate::Profile;
    use crate::testing::found;

    #[test]
    fn null_is_no_name_where_scalars_have_types() {
        let fields = "name: ~\ndescription: y";
        for profile in [Profile::Skillscraft, Profile::SeedStrict, Profile::Anthropic] {
            assert!(found("~", fields, profile).contains(&"name.required"), "{profile:?}");
        }
        assert_eq!(found("~", fields, Profile::Spec), ["name.format"]);
    }
}
