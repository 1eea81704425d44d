//! `description-quality`: a description that does not let a model decide when to load the skill.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use crate::body::phrase::{build_matcher, split_words};
use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

/// The minimum length: shorter descriptions cannot state both purpose and occasion.
const MIN_CHARS: usize = 30;

/// Phrases that state the occasion for a skill, in lower case.
const TRIGGERS: &[&str] = &[
    "use when",
    "use this",
    "use it",
    "use for",
    "use if",
    "use to ",
    "use in ",
    "use after",
    "use before",
    "use during",
    "use as ",
    "use on ",
    "use only",
    "use these",
    "use with",
    "use proactively",
    "use the skill",
    "use skill",
    "used when",
    "used for",
    "used to ",
    "used by",
    "useful when",
    "useful for",
    "should be used",
    "must be used",
    "for use ",
    "when ",
    "whenever",
    "trigger",
    "invoke",
    "activate",
    "applies to",
    "apply to",
    "apply this",
    "apply when",
    "if the user",
    "if a user",
    "if you",
    "ideal for",
    "intended for",
    "call this",
    "load this",
    "load for",
    "run this",
    "run before",
    "run after",
    "read this",
    "consult",
    "before ",
    "after ",
    "upon ",
    "for tasks",
    "for questions",
    "for requests",
    "asks for",
    "asks to",
    "asks about",
    "in case",
    // The most common phrases in other languages.
    "wenn ",
    "lorsque",
    "quand ",
    "cuando",
    "quando",
    "когда",
    "если",
    "使用",
    "当",
    "用于",
    "適用",
    "时",
    "時",
    "場合",
    "とき",
    "때",
    "경우",
];

static ANY_TRIGGER: LazyLock<AhoCorasick> = LazyLock::new(|| build_matcher(TRIGGERS));

pub(super) static RULE: Rule = Rule {
    id: "description-quality",
    group: RuleGroup::Lint,
    extent: RuleExtent::Head,
    summary: "the description is too short or does not say when to use the skill",
    levels: ProfileLevels::uniform(RuleLevel::Warning),
    fixable: false,
    docs: r"
## What it does
Requires a clause in the `description` that states the occasion for the skill: `Use when …`, `Use
this for …`, `when the user …`, `Triggers on …` and similar ones; `when_to_use` counts as well. The
rule also reports descriptions with fewer than 30 characters and descriptions that only repeat the
name.

## Why is this bad?
Before it loads a skill, a model sees only the name and the description. A section `When to use` in
the body comes too late.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar and reports the total per colour.
---
Count the beads.
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
    let Some(frontmatter) = skill.frontmatter() else { return };
    let description = frontmatter.description.trim();
    let place = skill.field_span("description");
    let advice = "say what the skill does and when to use it: add \"Use when the user asks to …\"";
    let name = frontmatter.name.as_deref().unwrap_or(skill.input().dir_name);
    if repeats_name(name, description) {
        findings.add(place, "the description only repeats the name", advice);
        return;
    }
    let length = description.chars().count();
    // From U+2E80 on, most scripts need few characters for a whole sentence.
    let is_cjk = description.chars().any(|c| c >= '\u{2E80}');
    if length < MIN_CHARS && !is_cjk {
        findings.add(place, format!("the description has only {length} characters"), advice);
        return;
    }
    // Clients append `when_to_use` to the description.
    if frontmatter.when_to_use.is_none() && !has_trigger(description) {
        let section = skill.markdown().headings().find(|heading| is_usage_heading(&heading.text));
        let help = match section {
            Some(heading) => format!(
                "move the gist of the section on line {} into the description; models see the \
                 body only after they have loaded the skill",
                skill.span_at(heading.file_offset(0)).line
            ),
            None => "add \"Use when the user asks to …\"".to_owned(),
        };
        findings.add(place, "the description does not say when to use the skill", help);
    }
}

/// Returns `true` if a description states the occasion for its skill.
fn has_trigger(description: &str) -> bool {
    let folded = description.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    // Triggers that end with a blank must also match at the end.
    let padded = format!("{folded} ");
    let occurs = |trigger: &&str| {
        padded.match_indices(trigger).any(|(at, _)| {
            // Other scripts have no blanks before a word.
            !trigger.is_ascii() || !padded[..at].ends_with(|c: char| c.is_alphanumeric())
        })
    };
    ANY_TRIGGER.is_match(&padded) && TRIGGERS.iter().any(occurs)
}

fn is_usage_heading(heading: &str) -> bool {
    let lower = heading.to_lowercase();
    ["when to use", "when to apply", "usage triggers"].iter().any(|it| lower.contains(it))
}

/// Returns `true` if every word of a description is part of the name.
fn repeats_name(name: &str, description: &str) -> bool {
    let name = name.to_lowercase();
    let lower = description.to_lowercase();
    let mut parts = split_words(&lower).flat_map(|word| word.text.split('-')).filter(|word| {
        !matches!(*word, "" | "a" | "an" | "the" | "skill" | "for" | "of" | "and" | "this" | "is")
    });
    let first = parts.next();
    // A description of filler words alone is too short, not a repetition.
    first.is_some()
        && first
            .into_iter()
            .chain(parts)
            .all(|word| name.split(['-', '_', ' ']).any(|it| it == word))
}
