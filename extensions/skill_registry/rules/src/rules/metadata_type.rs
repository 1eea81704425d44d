//! `metadata.type`: `metadata` is not a map.

use crate::profile::{Profile, ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

pub(super) static RULE: Rule = Rule {
    id: "metadata.type",
    group: RuleGroup::Validation,
    extent: RuleExtent::Head,
    summary: "`metadata` is not a map",
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
Requires `metadata` to be a map. Any other value is kept as text. In `skillscraft` an empty value is
not a map.

## Why is this bad?
Readers expect keys below `metadata`; other readers reject the file or drop the field.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
metadata: by ann
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
metadata:
  author: ann
---
Count the beads.
```
"#,
    check: RuleCheck::LoadingAnd(check),
};

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    // Loading accepts an empty `metadata`; only SkillsCraft requires a map.
    if skill.profile() != Profile::Skillscraft || findings.has_findings() {
        return;
    }
    if let Some((entry, "empty")) = skill.non_text_field("metadata") {
        let help = "write `key: value` lines below it, or remove it";
        findings.add(entry.value.span(), "`metadata` is empty, not a map", help);
    }
}

#[cfg(test)]
mod tests {
    use crate::Profile;
    use crate::testing::found;

    #[test]
    fn skillscraft_rejects_empty_metadata() {
        let fields = "name: x\ndescription: y\nmetadata:";
        assert_eq!(found("x", fields, Profile::Skillscraft), ["metadata.type"]);
        assert_eq!(found("x", fields, Profile::Spec), [""; 0]);
    }
}
