//! `first-person-description`: a description in the first person.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

pub(super) static RULE: Rule = Rule {
    id: "first-person-description",
    group: RuleGroup::Lint,
    extent: RuleExtent::Head,
    summary: "the description is written in the first person",
    levels: ProfileLevels::uniform(RuleLevel::Warning),
    fixable: false,
    docs: r"
## What it does
Searches for sentences of the `description` that start with `I`, `We`, `My` or `Let me`. Text in
quotation marks is a request of a user and is ignored.

## Why is this bad?
The description becomes part of a system prompt that describes the skill in the third person, as
Anthropic's guide to writing skills recommends. There, `I can …` is the voice of the model itself.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: I can count the beads in a jar. Use when the user asks how many beads there are.
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts the beads in a jar. Use when the user asks how many beads there are.
---
Count the beads.
```
",
    check: RuleCheck::Skill(check),
};

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    let Some(frontmatter) = skill.frontmatter() else { return };
    // Quoted text is an example of a request, which may be in the first person.
    let description = remove_quoted_text(&frontmatter.description);
    let first_person = description.split(['.', '!', '?', '\n']).find(|sentence| {
        let mut words = sentence.split_whitespace();
        let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        matches!(
            first,
            "I" | "We" | "My" | "Our" | "I'll" | "I'm" | "We'll" | "I\u{2019}ll" | "I\u{2019}m" // `I / O` is not a pronoun.
        ) && second != "/"
            && !second.is_empty()
            || (first == "Let" && second == "me")
    });
    if let Some(sentence) = first_person {
        let words: Vec<_> = sentence.split_whitespace().take(4).collect();
        findings.add(
            skill.field_span("description"),
            format!("the description speaks in the first person: `{} \u{2026}`", words.join(" ")),
            "write what the skill does in the third person: \"Counts \u{2026}\"",
        );
    }
}

fn remove_quoted_text(text: &str) -> String {
    let mut quoted = false;
    text.chars()
        .filter(|&c| {
            let mark = matches!(c, '"' | '\u{201C}' | '\u{201D}');
            quoted ^= mark;
            !quoted && !mark
        })
        .collect()
}
