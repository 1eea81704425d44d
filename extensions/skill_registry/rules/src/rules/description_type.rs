//! `description.type`: the description is not a string.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

pub(super) static RULE: Rule = Rule {
    id: "description.type",
    group: RuleGroup::Validation,
    extent: RuleExtent::Head,
    summary: "the description is not a string",
    levels: ProfileLevels {
        lenient: RuleLevel::Warning,
        ..ProfileLevels::uniform(RuleLevel::Error)
    },
    fixable: false,
    docs: r#"
## What it does
Requires `description` to be a string. Loading rejects a list or a map on lines of its own and reads
brackets as literal text. In `skillscraft`, `seed-strict` and `anthropic`, an unquoted number or
boolean is not a string either.

## Why is this bad?
Other readers reject the file, or show an agent the internal form of the value instead of a
sentence.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description:
  - Counts beads.
  - Use when asked.
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: >-
  Counts beads.
  Use when asked.
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
    if let Some((entry, what)) =
        skill.non_text_field("description").filter(|(_, what)| *what != "empty")
    {
        let message = format!("the description is {what}, not a string");
        findings.add(entry.value.span(), message, "put it in quotes");
    }
}

#[cfg(test)]
mod tests {
    use crate::Profile;
    use crate::testing::found;

    #[test]
    fn strict_profiles_reject_typed_scalar() {
        let of =
            |value: &str, profile| found("x", &format!("name: x\ndescription: {value}"), profile);
        for value in ["1.10", "true", "[a, b]"] {
            assert_eq!(of(value, Profile::Skillscraft), ["description.type"], "{value}");
        }
        assert_eq!(of("1.10", Profile::Spec), [""; 0]);
        assert_eq!(of("[a, b]", Profile::Spec), ["description.type"]);
    }
}
