//! `positional-placeholder`: `$1` in the code of a skill that takes arguments.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

pub(super) static RULE: Rule = Rule {
    id: "positional-placeholder",
    group: RuleGroup::Lint,
    extent: RuleExtent::Body,
    summary: "`$1` in code is replaced when the skill takes `$ARGUMENTS`",
    levels: ProfileLevels::uniform(RuleLevel::Warning),
    fixable: false,
    docs: r"
## What it does
Searches the code of skills that take arguments, by `$ARGUMENTS` in the body or by `argument-hint` or
`arguments` in the frontmatter, for `$0`, `$1` and so on. Escaped ones (`\$1`, `${1}`, `$(1)`) are
ignored. If the text outside code, a piece of code that is only `$1`, or the frontmatter shows that
the skill takes positional arguments, only lines in which `$1` has a meaning of its own are reported:
those with `awk`, `sed`, `perl`, `set --` or a shell function.

## Why is this bad?
Claude Code replaces `$0` and `$1` anywhere in such a skill with the words that the user typed, and
with nothing where there are fewer words. `awk '{print $1}'` then prints something else.

## Bad
````markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Count the beads of $ARGUMENTS:

```sh
wc -l beads.txt | awk '{print $1}'
```
````

## Good
````markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Count the beads of $ARGUMENTS:

```sh
wc -l beads.txt | awk '{print $(1)}'
```
````
",
    check: RuleCheck::Skill(check),
};

/// Commands in whose code `$1` is not an argument of the skill.
const OWN_MEANING: [&str; 6] = ["awk", "sed ", "perl ", "set --", "() {", "function "];

const HELP: &str =
    "write `${1}` in a shell or `$(1)` in awk, or move the code to a file in scripts/";

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    let Some(frontmatter) = skill.frontmatter() else { return };
    let hinted = frontmatter.argument_hint.is_some() || frontmatter.arguments.is_some();
    let (text, body) = (skill.text(), skill.body());
    if !(hinted || body.contains("$ARGUMENTS")) || next_placeholder(body).is_none() {
        return;
    }
    let is_intended = hinted || names_placeholder(skill);
    for range in skill.markdown().code_ranges() {
        let mut line_start = range.start;
        for line in text[range.clone()].split_inclusive('\n') {
            let has_own_meaning = OWN_MEANING.iter().any(|command| line.contains(command));
            if let Some((at, name)) =
                next_placeholder(line).filter(|_| has_own_meaning || !is_intended)
            {
                let message = format!("`{name}` in code is replaced when the skill gets arguments");
                findings.add(skill.span_at(line_start + at), message, HELP);
                // One finding per piece of code: a script mostly has several of them.
                break;
            }
            line_start += line.len();
        }
    }
}

/// Returns `true` if the text outside code, or code of a single placeholder, names a positional
/// argument.
fn names_placeholder(skill: &SkillDocument<'_>) -> bool {
    let markdown = skill.markdown();
    let is_whole = |content: &str| {
        let content = content.trim_start_matches('@');
        next_placeholder(content).is_some_and(|(at, name)| at == 0 && name.len() == content.len())
    };
    markdown.code_spans.iter().any(|code| is_whole(&skill.text()[code.content.clone()]))
        || markdown.passages.iter().any(|passage| {
            let mut from = 0;
            while let Some((at, name)) = next_placeholder(&passage.text[from..]) {
                if !markdown.is_opaque(passage.file_offset(from + at)) {
                    return true;
                }
                from += at + name.len();
            }
            false
        })
}

/// Returns the first `$` with digits that is replaced, and its offset.
fn next_placeholder(text: &str) -> Option<(usize, &str)> {
    text.match_indices('$').find_map(|(at, _)| {
        let rest = &text[at + 1..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let is_escaped = text[..at].ends_with(['\\', '$']);
        let ends = !rest[digits..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
        (digits > 0 && ends && !is_escaped).then(|| (at, &text[at..=at + digits]))
    })
}
