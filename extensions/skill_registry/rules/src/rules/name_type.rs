//! `name.type`: the name is not a string.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

pub(super) static RULE: Rule = Rule {
    id: "name.type",
    group: RuleGroup::Validation,
    extent: RuleExtent::Head,
    summary: "the name is not a string",
    levels: ProfileLevels {
        lenient: RuleLevel::Warning,
        ..ProfileLevels::uniform(RuleLevel::Error)
    },
    fixable: false,
    docs: r#"
## What it does
Requires `name` to be a string, not a list or a map. In `skillscraft`, `seed-strict` and `anthropic`,
an unquoted number or boolean is not a string either.

## Why is this bad?
A list cannot be a name. A number has another spelling for every reader: `007` is 7 to some.

## Bad
```markdown bead-counter/SKILL.md
---
name: [bead, counter]
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
    // Loading has already reported lists and maps; only typed scalars are left.
    if !skill.profile().uses_core_schema() || findings.has_findings() {
        return;
    }
    if let Some((entry, what)) = skill.non_text_field("name").filter(|(_, what)| *what != "empty") {
        findings.add(
            entry.value.span(),
            format!("the name is {what}, not a string"),
            "put it in quotes",
        );
    }
}

#[cfg(test)]
mod tests {
    use crate::Profile;
    use crate::testing::found;

    #[test]
    fn strict_profiles_reject_typed_name() {
        let number = "name: 123\ndescription: y";
        for profile in [Profile::Skillscraft, Profile::SeedStrict, Profile::Anthropic] {
            assert_eq!(found("123", number, profile), ["name.type"]);
            assert_eq!(found("123", "name: '123'\ndescription: y", profile), [""; 0]);
        }
        assert_eq!(found("123", number, Profile::Spec), [""; 0]);
    }
}
