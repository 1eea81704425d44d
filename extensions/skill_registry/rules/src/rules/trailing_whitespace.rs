//! `trailing-whitespace`: blanks at line ends of the body.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup, TextEdit};
use crate::skill_document::SkillDocument;

pub(super) static RULE: Rule = Rule {
    id: "trailing-whitespace",
    group: RuleGroup::Lint,
    extent: RuleExtent::Body,
    summary: "lines of the body end in meaningless blanks",
    levels: ProfileLevels::uniform(RuleLevel::Note),
    fixable: true,
    docs: r"
## What it does
Searches for blanks and tabs at line ends of the body, and reports the first one. Code, HTML and
hard line breaks (two blanks before a line that continues the paragraph) are ignored. `skillhost
skill fmt` removes blanks in the frontmatter.

## Why is this bad?
They appear as changes in reviews and as noise in diffs.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Count the beads.{{ *2}}
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Count the beads.
```
",
    check: RuleCheck::Skill(check),
};

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    if skill.frontmatter().is_none() {
        return;
    }
    let markdown = skill.markdown();
    let body = skill.body();
    let mut edits = Vec::new();
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', body.as_bytes()).chain([body.len()]) {
        // A carriage return belongs to the line end.
        let content = body[start..end].trim_end_matches('\r');
        let line = skill.parsed().body_start + start;
        start = (end + 1).min(body.len());
        if !content.ends_with([' ', '\t']) {
            continue;
        }
        let kept = content.trim_end_matches([' ', '\t']).len();
        let range = line + kept..line + content.len();
        // Two blanks at the end of a line are a hard line break in Markdown.
        let is_hard_break = || {
            let next = markdown.breaks.partition_point(|found| found.end <= range.start);
            markdown.breaks.get(next).is_some_and(|found| found.start < range.end)
        };
        // Behind the closing `#` of a heading, some parsers depend on blanks to recognize it.
        let closes_heading = content[..kept].ends_with('#');
        if !closes_heading && !markdown.is_opaque(range.start) && !is_hard_break() {
            edits.push(TextEdit { range, replacement: String::new() });
        }
    }
    let Some(first) = edits.first() else { return };
    let place = skill.span_at(first.range.start);
    let message = match edits.len() {
        1 => "a line ends in blanks".to_owned(),
        count => format!("{count} lines end in blanks"),
    };
    findings.add_fixable(place, message, "remove them", edits);
}
