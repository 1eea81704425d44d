//! `placeholder-text`: text of a template that was not replaced.

use yaml_tree::{Span, Value};

use crate::body::{PassageKind, TextPassage};
use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

/// Starts of template texts; case is ignored.
const TEMPLATES: [&str; 12] = [
    "lorem ipsum",
    "insert instructions below",
    "replace with description of the skill",
    "complete and informative explanation of what the skill does",
    "[todo:",
    "[todo]",
    "your description here",
    "your instructions here",
    "brief description of what this skill does",
    "a description of what this skill does and when to use it",
    // The templates for new skills of the command line.
    "list common mistakes here, and how to recognize each",
    "determine the user's starting point and the result they need",
];

/// The beginnings of the descriptions of these templates, before the words of the id.
const NEW_DESCRIPTIONS: [&str; 3] =
    ["Helps with ", "Answers questions about ", "Runs a script for "];

/// The end of these descriptions, after the words of the id.
const NEW_DESCRIPTION_END: &str = " or mentions it by name.";

/// The author in the metadata of these templates.
const NEW_AUTHOR: &str = "Your name";

/// Labels of missing text, in upper case as authors write them.
const LABELS: [&str; 5] = ["TODO", "FIXME", "TBD", "XXX", "TKTK"];

pub(super) static RULE: Rule = Rule {
    id: "placeholder-text",
    group: RuleGroup::Lint,
    extent: RuleExtent::Body,
    summary: "text of a template was not replaced",
    levels: ProfileLevels::uniform(RuleLevel::Warning),
    fixable: false,
    docs: r"
## What it does
Searches for descriptions and paragraphs that start with a text of a template (`Lorem ipsum`,
`Insert instructions below`, `[TODO: …]`) or with `TODO`, `FIXME`, `TBD` or `XXX`. Code, tables and
block quotes are ignored. The description, the author and the first step of the templates for new
skills count as well.

## Why is this bad?
The part is not written yet, and a model reads the placeholder as an instruction.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
TODO: describe how beads are counted.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Count the beads in rows of ten. Report TODO comments that the jar has on its label.
```
",
    check: RuleCheck::Skill(check),
};

const HELP: &str = "write it, or remove it";

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    let Some(frontmatter) = skill.frontmatter() else { return };
    if let Some((_, found)) = find_placeholder(&frontmatter.description) {
        let message = format!("the description still has the placeholder `{found}`");
        findings.add(skill.field_span("description"), message, HELP);
    } else if is_new_description(&frontmatter.description) {
        let message = "the description is still that of the template";
        let help = "say what the skill does and when to use it";
        findings.add(skill.field_span("description"), message, help);
    }
    if let Some(at) = find_new_author(skill) {
        findings.add(at, format!("the author is still `{NEW_AUTHOR}`"), HELP);
    }
    for passage in skill.markdown().passages.iter().filter(|passage| is_running_text(passage)) {
        if let Some((at, found)) = find_placeholder(&passage.text) {
            let place = skill.span_at(passage.file_offset(at));
            findings.add(place, format!("`{found}` is a placeholder"), HELP);
        }
    }
}

/// Returns `true` if a description is that of a template with the words of an id.
fn is_new_description(description: &str) -> bool {
    let Some(start) = description.strip_suffix(NEW_DESCRIPTION_END) else { return false };
    let Some((what, when)) = start.split_once(". Use when the user asks ") else { return false };
    // The words of the id occur in both sentences.
    NEW_DESCRIPTIONS.iter().filter_map(|first| what.strip_prefix(first)).any(|words| {
        when.strip_prefix("about ").or_else(|| when.strip_prefix("for ")) == Some(words)
    })
}

/// Returns the position of the author in the metadata if it is that of a template.
fn find_new_author(skill: &SkillDocument<'_>) -> Option<Span> {
    let Value::Mapping(metadata) = &skill.field("metadata")?.value else { return None };
    let author = metadata.entries.iter().find(|entry| entry.key.text == "author")?;
    (author.value.as_str() == Some(NEW_AUTHOR)).then(|| author.value.span())
}

fn is_running_text(passage: &TextPassage) -> bool {
    !passage.quoted && passage.kind != PassageKind::Cell
}

/// Returns the offset and text of a placeholder, if there is one.
fn find_placeholder(text: &str) -> Option<(usize, &str)> {
    // Only the start counts: skills may write about placeholders.
    let start = text.len() - text.trim_start().len();
    let label = LABELS.into_iter().find(|label| {
        text[start..]
            .strip_prefix(label)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    });
    if let Some(label) = label {
        return Some((start, label));
    }
    TEMPLATES.into_iter().find_map(|template| {
        let found = text.get(start..start + template.len())?;
        found.eq_ignore_ascii_case(template).then_some((start, found))
    })
}
