//! `description.required`: there is no description.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

pub(super) static RULE: Rule = Rule {
    id: "description.required",
    group: RuleGroup::Validation,
    extent: RuleExtent::Head,
    summary: "there is no description",
    levels: ProfileLevels::uniform(RuleLevel::Error),
    fixable: false,
    docs: r#"
## What it does
Requires a `description` that is not blank.

## Why is this bad?
The description is all that an agent sees of a skill before it selects one. A skill without a
description is never selected, so it is not loaded.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: ""
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
    if let Some((entry, "empty")) = skill.non_text_field("description") {
        let help = "say what the skill does and when to use it";
        findings.add(entry.value.span(), "the description is empty", help);
    }
}

#[cfg(test)]
mod tests {
    use crate::Profile;
    use crate::testing::found;

    #[test]
    fn null_description_is_missing() {
        let fields = "name: x\ndescription: null";
        assert_eq!(found("x", fields, Profile::Skillscraft), ["description.required"]);
        assert_eq!(found("x", fields, Profile::Spec), [""; 0]);
    }
}
