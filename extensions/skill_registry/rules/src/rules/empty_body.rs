//! `empty-body`: a skill without instructions.

use yaml_tree::Span;

use crate::body::PassageKind;
use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

pub(super) static RULE: Rule = Rule {
    id: "empty-body",
    group: RuleGroup::Lint,
    extent: RuleExtent::Body,
    summary: "there are no instructions after the frontmatter",
    levels: ProfileLevels::uniform(RuleLevel::Warning),
    fixable: false,
    docs: r"
## What it does
Reports a SKILL.md without text after the frontmatter, or with only headings and comments.

## Why is this bad?
A model that loads the skill learns no more than from the description.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
# Bead counter
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
# Bead counter

Count the beads in rows of ten.
```
",
    check: RuleCheck::Skill(check),
};

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    if skill.frontmatter().is_none() {
        return;
    }
    let markdown = skill.markdown();
    let has_content = markdown.passages.iter().any(|passage| passage.kind != PassageKind::Heading)
        || !markdown.code_blocks.is_empty()
        || markdown.links.iter().any(|link| link.is_image);
    if !has_content {
        findings.add(
            // An empty body has no line of its own; the closing fence is the last one.
            Span { line: skill.body_line().saturating_sub(1), column: 0 },
            "there are no instructions after the frontmatter",
            "write what the model shall do, and how",
        );
    }
}
