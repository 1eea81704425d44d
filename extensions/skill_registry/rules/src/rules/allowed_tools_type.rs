//! `allowed-tools.type`: `allowed-tools` is not a string.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

pub(super) static RULE: Rule = Rule {
    id: "allowed-tools.type",
    group: RuleGroup::Validation,
    extent: RuleExtent::Head,
    summary: "`allowed-tools` is not a string",
    levels: ProfileLevels {
        lenient: RuleLevel::Warning,
        spec: RuleLevel::Error,
        skillscraft: RuleLevel::Error,
        ..ProfileLevels::uniform(RuleLevel::Off)
    },
    fixable: false,
    docs: r#"
## What it does
Requires `allowed-tools` to be one string with the tools separated by blanks. Lists are read, but only
Claude Code documents them. In `skillscraft`, a number, a boolean and null are not strings either.

## Why is this bad?
Readers that follow the specification expect a string, and skip the field or the file.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
allowed-tools: [Read, Write]
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
allowed-tools: Read Write
---
Count the beads.
```
"#,
    check: RuleCheck::LoadingAnd(check),
};

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    // Loading has already reported other types; only plain scalars are left.
    if !skill.profile().uses_core_schema() || findings.has_findings() {
        return;
    }
    if let Some((entry, what)) = skill.non_text_field("allowed-tools") {
        let message = format!("`allowed-tools` is {what}, not a string");
        findings.add(
            entry.value.span(),
            message,
            "write the tools in one string, separated by blanks",
        );
    }
}

#[cfg(test)]
mod tests {
    use crate::Profile;
    use crate::testing::found;

    #[test]
    fn non_text_is_reported_once() {
        let of = |value: &str, profile| {
            found("x", &format!("name: x\ndescription: y\nallowed-tools: {value}"), profile)
        };
        for value in ["", "true", "[Read]", "{}"] {
            assert_eq!(of(value, Profile::Skillscraft), ["allowed-tools.type"], "{value}");
        }
        assert_eq!(of("Read, Write", Profile::Skillscraft), [""; 0]);
        assert_eq!(of("[Read]", Profile::Anthropic), [""; 0]);
    }
}
