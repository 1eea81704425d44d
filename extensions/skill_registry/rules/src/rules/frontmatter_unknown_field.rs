//! `frontmatter.unknownField`: a field is not in the specification.

use yaml_tree::MappingEntry;

use crate::profile::{Profile, ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

pub(super) static RULE: Rule = Rule {
    id: "frontmatter.unknownField",
    group: RuleGroup::Validation,
    extent: RuleExtent::Head,
    summary: "a field is not in the specification",
    levels: ProfileLevels {
        lenient: RuleLevel::Warning,
        skillscraft: RuleLevel::Warning,
        ..ProfileLevels::uniform(RuleLevel::Error)
    },
    fixable: false,
    docs: r#"
## What it does
Reports fields other than `name`, `description`, `license`, `compatibility`, `allowed-tools` and
`metadata`. All are kept; `tags`, `requires`, `when_to_use`, `disable-model-invocation`,
`user-invocable`, `argument-hint`, `arguments` and `version` are also used here. In `anthropic` the
fields that Claude Code documents are not reported.

## Why is this bad?
The reference validator rejects a skill with any other field. Custom data belongs under `metadata`,
where every reader accepts it.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
author: ann
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

/// The fields of Claude Code (source: its documentation of skills and of custom commands).
const CLAUDE_CODE: [&str; 13] = [
    "agent",
    "argument-hint",
    "arguments",
    "context",
    "disable-model-invocation",
    "disallowed-tools",
    "effort",
    "hooks",
    "model",
    "paths",
    "shell",
    "user-invocable",
    "when_to_use",
];

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    if skill.profile() != Profile::Anthropic || !findings.has_findings() {
        return;
    }
    let Some(tree) = skill.tree() else { return };
    // Loading reports these fields, but Anthropic's products accept them.
    findings.retain(|found| {
        let here = |entry: &&MappingEntry| {
            // A finding has no key, so its position identifies the field.
            (entry.key.span.line, entry.key.span.column) == (found.line, found.column)
        };
        let field = tree.entries.iter().find(here);
        field.is_none_or(|entry| !CLAUDE_CODE.contains(&entry.key.text.as_str()))
    });
}

#[cfg(test)]
mod tests {
    use crate::Profile;
    use crate::testing::found;

    #[test]
    fn anthropic_accepts_claude_code_fields() {
        let fields = "name: x\ndescription: y\nmodel: small\nhint: z";
        let unknown = "frontmatter.unknownField";
        assert_eq!(found("x", fields, Profile::Spec), [unknown, unknown]);
        assert_eq!(found("x", fields, Profile::Anthropic), [unknown]);
    }
}
