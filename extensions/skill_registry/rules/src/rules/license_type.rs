//! `license.type`: `license` is not a string.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

pub(super) static RULE: Rule = Rule {
    id: "license.type",
    group: RuleGroup::Validation,
    extent: RuleExtent::Head,
    summary: "`license` is not a string",
    levels: ProfileLevels {
        spec: RuleLevel::Error,
        reference: RuleLevel::Off,
        skillscraft: RuleLevel::Error,
        seed_strict: RuleLevel::Off,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Requires `license` to be one string. In `skillscraft`, an unquoted number, boolean or null is not a
string.

## Why is this bad?
Readers that show or compare licenses expect a name or a file, such as `MIT` or `LICENSE.txt`.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
license: [MIT, Apache-2.0]
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
license: MIT OR Apache-2.0
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
    if let Some((entry, what)) = skill.non_text_field("license") {
        let message = format!("`license` is {what}, not a string");
        findings.add(entry.value.span(), message, "put it in quotes");
    }
}

#[cfg(test)]
mod tests {
    use crate::Profile;
    use crate::testing::found;

    #[test]
    fn strict_profiles_reject_typed_scalar() {
        let of = |value: &str, profile| {
            found("x", &format!("name: x\ndescription: y\nlicense: {value}"), profile)
        };
        for value in ["1.0", "", "true", "[a]"] {
            assert_eq!(of(value, Profile::Skillscraft), ["license.type"], "{value}");
        }
        assert_eq!(of("'1.0'", Profile::Skillscraft), [""; 0]);
        assert_eq!(of("1.0", Profile::Spec), [""; 0]);
    }
}
