//! `unclosed-fence`: a block of code without a closing fence.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

pub(super) static RULE: Rule = Rule {
    id: "unclosed-fence",
    group: RuleGroup::Lint,
    extent: RuleExtent::Body,
    summary: "a block of code is never closed",
    levels: ProfileLevels::uniform(RuleLevel::Warning),
    fixable: false,
    docs: r"
## What it does
Reports a fence of backticks or tildes that opens a block of code which extends to the end of the
file.

## Why is this bad?
A reader treats all text after the fence as code. The cause is often an example with inner fences:
the first of them closes the outer one, and from there on code and text are swapped.

## Bad
````markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
```sh
scripts/count.sh jar

Report the number.
````

## Good
````markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
```sh
count-beads jar
```

Report the number.
````
",
    check: RuleCheck::Skill(check),
};

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    for code in skill.markdown().code_blocks.iter().filter(|code| code.is_unclosed) {
        findings.add(
            skill.span_at(code.range.start),
            "this block of code runs to the end of the file",
            "close it; around an example that has fences of its own, use a longer fence",
        );
    }
}
