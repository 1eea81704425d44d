//! `frontmatter.yaml`: the frontmatter is not YAML.

use yaml_tree::Span;

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;
use crate::strict_fences::YAML_FAULTS;

pub(super) static RULE: Rule = Rule {
    id: "frontmatter.yaml",
    group: RuleGroup::Validation,
    extent: RuleExtent::Head,
    summary: "the frontmatter is not YAML",
    levels: ProfileLevels::uniform(RuleLevel::Error),
    fixable: false,
    docs: r#"
## What it does
Reports a frontmatter without a single readable field. Loading reads invalid YAML field by field and
reports the rest as `frontmatter.recovered`. In `skillscraft` and `seed-strict` this rule covers
everything that a strict YAML parser rejects: invalid values, duplicate keys, anchors, aliases,
tags, several documents, lists and maps as keys.

## Why is this bad?
The skill has no usable data, so it is skipped.

## Bad
```markdown bead-counter/SKILL.md
---
[bead-counter, counts beads
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
    // Only these validators use a strict YAML parser; loading recovers.
    if !skill.profile().has_own_fences() {
        return;
    }
    for found in &skill.parsed().diagnostics {
        if YAML_FAULTS.contains(&found.rule) {
            let at = Span { line: found.line, column: found.column };
            let help = found.help.as_deref().unwrap_or_default();
            findings.add(at, found.message.as_str(), help);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Profile;
    use crate::testing::found;

    #[test]
    fn strict_profiles_reject_recovered_yaml() {
        let odd = [
            "a: b: c",
            "name: x",
            "a: &b c",
            "a: *b",
            "a: !!str b",
            "...\nlicense: x",
            "? {a: b}\n: c",
        ];
        for line in odd {
            let fields = format!("name: x\ndescription: y\n{line}");
            for profile in [Profile::Skillscraft, Profile::SeedStrict] {
                assert_eq!(found("x", &fields, profile), ["frontmatter.yaml"], "{line}");
            }
        }
    }
}
