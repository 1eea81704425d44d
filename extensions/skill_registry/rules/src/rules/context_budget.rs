//! `context-budget`: a body that takes more of the context than recommended.

use skill_format::TokenCount;
use yaml_tree::Span;

use super::body_max_lines;
use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

const MAX_LINES: usize = 500;
const MAX_TOKENS: u32 = 5_000;

pub(super) static RULE: Rule = Rule {
    id: "context-budget",
    group: RuleGroup::Lint,
    extent: RuleExtent::Body,
    summary: "the body has more than 500 lines or about 5,000 tokens",
    levels: ProfileLevels::uniform(RuleLevel::Warning),
    fixable: false,
    docs: r"
## What it does
Counts the lines of the body and estimates its tokens: a quarter of its characters. More than 500
lines or 5,000 tokens are reported, as the SkillsCraft specification reference recommends. The lines
are not reported in a profile in which `body.maxLines` is an error.

## Why is this bad?
A client puts the complete body into the context of the model when it loads the skill. Content that
most tasks do not need costs attention and money each time. Files under `references/` are read only
on demand.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
{{Count every bead by hand. *900}}
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Count the beads in rows of ten. For jars that are not clear, read references/opaque-jars.md.
```
```markdown bead-counter/references/opaque-jars.md
{{Count every bead by hand. *900}}
```
",
    check: RuleCheck::Skill(check),
};

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    if skill.frontmatter().is_none() {
        return;
    }
    let body = skill.body();
    let lines = skill.body_lines();
    // As an error, `body.maxLines` reports the lines itself.
    let is_error = body_max_lines::RULE.levels.level_for(skill.profile()) == RuleLevel::Error;
    let tokens = TokenCount::estimate(body).get();
    let message = match (lines > MAX_LINES && !is_error, tokens > MAX_TOKENS) {
        (false, false) => return,
        (true, false) => format!("the body has {lines} lines, more than {MAX_LINES}"),
        (false, true) => {
            format!("the body takes about {tokens} tokens, more than {MAX_TOKENS}")
        }
        (true, true) => format!(
            "the body has {lines} lines and about {tokens} tokens, more than {MAX_LINES} and \
             {MAX_TOKENS}"
        ),
    };
    let start = Span { line: skill.body_line(), column: 0 };
    findings.add(start, message, "move what only some tasks need to files under references/");
}
