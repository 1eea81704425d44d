//! `final-newline`: a file whose last line has no line end.

use crate::profile::{Level, Levels};
use crate::rule::{Check, Edit, Findings, Group, Reach, Rule};
use crate::subject::Subject;

pub(super) static RULE: Rule = Rule {
    id: "final-newline",
    group: Group::Lint,
    reach: Reach::Body,
    summary: "the last line has no line end",
    levels: Levels::all(Level::Note),
    fixable: true,
    docs: r"
## What it does
Finds a SKILL.md that ends without a line end.

## Why is this bad?
Tools that put files together glue the next text to the last line, and every change at the end of
the file shows that line as changed too.

## Bad
A file that ends without a line end is no example.

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Count the beads.
```
",
    check: Check::Skill(check),
};

fn check(skill: &Subject<'_>, findings: &mut Findings<'_>) {
    let text = skill.text();
    if skill.frontmatter().is_none() || text.ends_with('\n') {
        return;
    }
    let end = text.len();
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let edit = Edit { range: end..end, replacement: newline.to_owned() };
    findings.add_fixable(
        skill.span_at(end),
        "the last line has no line end",
        "end the file with one",
        vec![edit],
    );
}
