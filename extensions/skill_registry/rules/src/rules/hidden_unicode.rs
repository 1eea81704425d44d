//! `hidden-unicode`: characters that are invisible to a reader but not to a model.

use std::fmt::Write as _;
use std::ops::Range;

use crate::body::invisible::{HiddenCharKind, find_hidden, has_invisible};
use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup, TextEdit};
use crate::skill_document::SkillDocument;

pub(super) static RULE: Rule = Rule {
    id: "hidden-unicode",
    group: RuleGroup::Lint,
    extent: RuleExtent::Body,
    summary: "the text has invisible characters",
    levels: ProfileLevels::uniform(RuleLevel::Warning),
    fixable: true,
    docs: r"
## What it does
Searches the complete file for tag characters, bidirectional overrides and isolates, zero-width
characters, fillers, control characters and runs of variation selectors, and decodes the text of tag
characters. Joiners in emoji and in the scripts that need them, direction marks next to text that is
written from right to left, and a single variation selector after a character are accepted.

`--fix` removes zero-width characters from the text of the body. Other characters have to be reviewed
by the author.

## Why is this bad?
A reviewer approves visible text. Tag characters carry entire sentences that only a model reads,
bidirectional overrides show text in another order than it has, and a stray zero-width character
breaks a command that looks correct.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Count the be{{U+200B*1}}ads.
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
    let text = skill.text();
    if !has_invisible(text) {
        return;
    }
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let found = find_hidden(line);
        if let Some((first, _)) = found.first() {
            let edits = found.iter().filter_map(|(range, kind)| {
                let range = start + range.start..start + range.end;
                // Other kinds may carry meaning or an attack that a person has to look at.
                (*kind == HiddenCharKind::ZeroWidth && is_removable(skill, &range))
                    .then(|| TextEdit { range, replacement: String::new() })
            });
            findings.add_fixable(
                skill.span_at(start + first.start),
                format_message(line, &found),
                "remove them, or write them as an escape if they are what the text is about",
                edits.collect(),
            );
        }
        start += line.len();
    }
}

fn format_message(line: &str, found: &[(Range<usize>, HiddenCharKind)]) -> String {
    let mut spelled = String::new();
    let mut text = String::new();
    for (range, kind) in found {
        for c in line[range.clone()].chars() {
            if *kind == HiddenCharKind::Tag {
                // Tag characters mirror ASCII, which is how they smuggle instructions.
                let ascii = u32::from(c).checked_sub(0xE0000).and_then(char::from_u32);
                spelled.extend(ascii.filter(|c| c.is_ascii_graphic() || *c == ' '));
            }
        }
    }
    let mut kinds: Vec<HiddenCharKind> = found.iter().map(|(_, kind)| *kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let first = line[found[0].0.clone()].chars().next().map_or(0, u32::from);
    let names: Vec<_> = kinds.iter().map(|kind| kind.name()).collect();
    let _ = write!(text, "this line has {} (first U+{first:04X})", names.join(", "));
    if !spelled.is_empty() {
        // The text is untrusted and may be long.
        let end = spelled.char_indices().nth(80).map_or(spelled.len(), |(at, _)| at);
        let _ = write!(text, ", which spell `{}`", &spelled[..end]);
    }
    text
}

/// Returns `true` if removing a character has no other effect: it is in prose, between characters
/// without meaning in Markdown.
fn is_removable(skill: &SkillDocument<'_>, range: &Range<usize>) -> bool {
    let text = skill.text();
    let plain = |c: Option<char>| c.is_some_and(|c| c.is_alphabetic() || c == ' ');
    let before = text[..range.start].chars().next_back();
    let after = text[range.end..].chars().next();
    range.start >= skill.parsed().body_start
        && !skill.markdown().is_opaque(range.start)
        && plain(before)
        && plain(after)
        // Two blanks that meet could become a hard line break.
        && (before, after) != (Some(' '), Some(' '))
}
