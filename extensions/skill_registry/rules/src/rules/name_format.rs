//! `name.format`: the name is not lower-case letters, digits and single hyphens.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

pub(super) static RULE: Rule = Rule {
    id: "name.format",
    group: RuleGroup::Validation,
    extent: RuleExtent::Head,
    summary: "the name is not lower-case letters, digits and single hyphens",
    levels: ProfileLevels {
        lenient: RuleLevel::Warning,
        ..ProfileLevels::uniform(RuleLevel::Error)
    },
    fixable: false,
    docs: r#"
## What it does
Requires lower-case letters, digits and single hyphens between them. `lenient`, `spec` and
`reference` trim and normalize the name (NFKC) and accept the letters of every alphabet;
`skillscraft`, `seed-strict` and `anthropic` accept a to z and compare the name as written.

## Why is this bad?
The name is part of paths, commands and identifiers. Other readers reject the file.

## Bad
```markdown Bead_Counter/SKILL.md
---
name: Bead_Counter
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
    // Loading has already checked names by the rules of the specification, which allow Unicode.
    if !skill.profile().requires_ascii_names() || findings.has_findings() {
        return;
    }
    let Some(entry) = skill.field("name") else { return };
    let Some(name) = entry.value.as_str().filter(|name| !name.trim().is_empty()) else { return };
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if !name.bytes().all(plain) {
        findings.add(
            entry.value.span(),
            "the name has characters other than a-z, 0-9 and hyphens",
            "rename the skill and its directory",
        );
    }
}

#[cfg(test)]
mod tests {
    use crate::Profile;
    use crate::testing::found;

    #[test]
    fn strict_profiles_require_ascii_names() {
        let of = |name: &str, profile| {
            found(name.trim(), &format!("name: \"{name}\"\ndescription: y"), profile)
        };
        for profile in [Profile::Skillscraft, Profile::SeedStrict, Profile::Anthropic] {
            for name in ["caf\u{e9}", " x ", "Xy"] {
                assert_eq!(of(name, profile), ["name.format"], "{name}");
            }
            assert_eq!(of("x-1", profile), [""; 0]);
        }
        assert_eq!(of("caf\u{e9}", Profile::Spec), ["name.portability"]);
        assert_eq!(of(" x ", Profile::Spec), [""; 0]);
    }
}
