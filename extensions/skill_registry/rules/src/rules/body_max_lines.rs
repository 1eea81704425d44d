//! `body.maxLines`: the body has more than 500 lines.

use yaml_tree::Span;

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

pub(super) static RULE: Rule = Rule {
    id: "body.maxLines",
    group: RuleGroup::Validation,
    extent: RuleExtent::Head,
    summary: "the body has more than 500 lines",
    levels: ProfileLevels {
        lenient: RuleLevel::Off,
        reference: RuleLevel::Off,
        seed_strict: RuleLevel::Error,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Counts the lines of the body, without leading and trailing blank lines. If the limit is only advice,
`lint` reports it by the rule `context-budget` instead.

## Why is this bad?
The complete body is loaded when the skill is used. The specification recommends at most 500 lines,
with details in files that are read on demand; in the formal specification this is a hard limit.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
---
{{Count the beads in the next jar.
*501}}
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
---
{{Count the beads in the next jar.
*500}}
```
"#,
    check: RuleCheck::Skill(check),
};

/// The maximum number of lines (Agent Skills specification).
const MAX_LINES: usize = 500;

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    let lines = skill.body_lines();
    if lines > MAX_LINES {
        let at = Span { line: skill.body_line(), column: 0 };
        let message = format!("the body has {lines} lines, more than {MAX_LINES}");
        findings.add(at, message, "move details into files under references/");
    }
}
