//! `structure.missingSkillMd`: there is no SKILL.md.

use yaml_tree::Span;

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

pub(super) static RULE: Rule = Rule {
    id: "structure.missingSkillMd",
    group: RuleGroup::Validation,
    extent: RuleExtent::Head,
    summary: "there is no SKILL.md",
    levels: ProfileLevels::uniform(RuleLevel::Error),
    fixable: false,
    docs: r#"
## What it does
Requires `SKILL.md`, or else `skill.md`, in the directory. `seed-strict` accepts every other
spelling as well.

## Why is this bad?
A directory without this file is not a skill. Another spelling is found on some file systems, but
not on others.

## Bad
```markdown bead-counter/Skill.md
---
name: bead-counter
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
    check: RuleCheck::Skill(check),
};

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    let file_name = skill.input().file_name;
    if skill.profile().has_skill_md(file_name) {
        return;
    }
    let message = match file_name {
        Some(other) => format!("there is no SKILL.md, only `{other}`"),
        None => "there is no SKILL.md".to_owned(),
    };
    findings.add(Span::default(), message, "a skill is a directory with a file SKILL.md");
}

#[cfg(test)]
mod tests {
    use skill_format::SkillInput;

    use crate::{CheckOptions, CheckScope, Profile, check_skill};

    #[test]
    fn missing_skill_has_one_finding() {
        for profile in Profile::ALL {
            let input =
                SkillInput { dir_name: "X y", file_name: None, bytes: b"", files: Some(&[]) };
            let report = check_skill(&input, CheckOptions { profile, scope: CheckScope::Lint });
            let found: Vec<_> = report.findings.iter().map(|it| it.diagnostic.rule).collect();
            assert_eq!(found, ["structure.missingSkillMd"], "{profile:?}");
        }
    }
}
