//! `name.required`: there is no name.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

pub(super) static RULE: Rule = Rule {
    id: "name.required",
    group: RuleGroup::Validation,
    extent: RuleExtent::Head,
    summary: "there is no name",
    levels: ProfileLevels {
        lenient: RuleLevel::Warning,
        ..ProfileLevels::uniform(RuleLevel::Error)
    },
    fixable: false,
    docs: r#"
## What it does
Requires a `name` that is not blank. Loading uses the directory's name instead.

## Why is this bad?
People and agents refer to the skill by its name. Other readers reject a skill without one.

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
    check: RuleCheck::LoadingAnd(check),
};

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    // Elsewhere `null` and `~` are strings; loading has reported a missing field.
    if !skill.profile().uses_core_schema() || findings.has_findings() {
        return;
    }
    if let Some((entry, "empty")) = skill.non_text_field("name") {
        findings.add(entry.value.span(), "the name is empty", "write the directory's name");
    }
}

#[cfg(test)]
mod tests {
    use crate::Profile;
    use crate::testing::found;

    #[test]
    fn null_name_is_missing() {
        let fields = "name: ~\ndescription: y";
        for profile in [Profile::Skillscraft, Profile::SeedStrict, Profile::Anthropic] {
            assert!(found("~", fields, profile).contains(&"name.required"), "{profile:?}");
        }
        assert_eq!(found("~", fields, Profile::Spec), ["name.format"]);
    }
}
