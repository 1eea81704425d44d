//! `defaults-over-menus`: several options without a default.

use std::sync::LazyLock;

use crate::body::phrase::{PhraseSet, TextWord, collect_words, split_words};
use crate::body::{PassageKind, TextPassage};
use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

/// Phrases that explicitly leave the choice open.
static OPEN_CHOICES: LazyLock<PhraseSet> = LazyLock::new(|| {
    PhraseSet::new(&[
        "pick|choose|select|use|take any|one of these|them|those options|tools|approaches|methods|libraries|techniques",
        "pick|choose|select any of these|them|those|the",
        "pick|choose|select any one",
        "pick|choose|use whichever|whatever works|tool|one|approach|method|fits",
        "any of these|them|those works|work|would",
        "any of these|them|those will do|work",
        "whichever|whatever you prefer|like",
        "either is|are fine|ok|okay|acceptable",
        "either one|approach|option|way works",
        "either works",
        "depending on preference|taste",
        "depending|based on your|personal|team preference|preferences|taste",
    ])
});

/// Phrases that start a list of options in a sentence.
static OFFERS: LazyLock<PhraseSet> = LazyLock::new(|| {
    PhraseSet::new(&["you can|could|may|might use|try|choose|pick", "options include|are"])
});

/// Words that select an option or name a condition for one.
const DECIDING_WORDS: [&str; 34] = [
    "default",
    "defaults",
    "prefer",
    "preferred",
    "preferably",
    "recommend",
    "recommended",
    "unless",
    "if",
    "when",
    "first",
    "fallback",
    "otherwise",
    "depending",
    "depends",
    "best",
    "usually",
    "normally",
    "instead",
    "except",
    "only",
    "start",
    "for",
    "whether",
    "user",
    "users",
    "user's",
    "ask",
    "rather",
    "then",
    "based",
    "according",
    "never",
    "avoid",
];

pub(super) static RULE: Rule = Rule {
    id: "defaults-over-menus",
    group: RuleGroup::Lint,
    extent: RuleExtent::Body,
    summary: "several options are offered and none is the default",
    levels: ProfileLevels::uniform(RuleLevel::Warning),
    fixable: false,
    docs: r"
## What it does
Searches for sentences that offer three or more options (`you can use A, or B, or C`) or explicitly
leave the choice open (`pick any of these`, `whichever you prefer`) in a paragraph without a default
or a condition, and for similar lists of options after a label such as `Options:`. Choices of the
user are accepted.

## Why is this bad?
The model has to decide without the knowledge of the author, and decides differently each time.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
You can use tallies, or an abacus, or a scale. Pick any of these options.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Count with tallies. If there are more than 1,000 beads, use a scale instead.
```
",
    check: RuleCheck::Skill(check),
};

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    let passages = &skill.markdown().passages;
    for (index, passage) in passages.iter().enumerate() {
        if passage.quoted || passage.kind != PassageKind::Text {
            continue;
        }
        if let Some(at) = find_menu(passage).or_else(|| find_menu_list(passages, index)) {
            findings.add(
                skill.span_at(passage.file_offset(at)),
                "several options, and nothing says which to take",
                "name the default, and say when to take another one",
            );
        }
    }
}

/// Returns the offset of an undecided choice in a passage, if there is one.
fn find_menu(passage: &TextPassage) -> Option<usize> {
    let lower = &*passage.lower;
    let offers = || lower.contains(" or ") && OFFERS.may_be_in(lower);
    // Splitting into words is expensive, and most passages have no candidate.
    if !OPEN_CHOICES.may_be_in(lower) && !offers() {
        return None;
    }
    let words = collect_words(lower);
    let decided =
        |words: &[TextWord<'_>]| words.iter().any(|word| DECIDING_WORDS.contains(&word.text));
    if let Some((first, count)) = OPEN_CHOICES.find(&words) {
        let quoted = lower[..words[first].at].ends_with(['"', '\u{201C}', '\'']);
        // The phrase itself may contain a deciding word, such as `depending`.
        let around = words[..first].iter().chain(&words[first + count..]).copied();
        let around: Vec<TextWord<'_>> = around.collect();
        return (!quoted && !decided(&around)).then_some(words[first].at);
    }
    let (first, count) = OFFERS.find(&words)?;
    let rest = &lower[words[first + count - 1].at..];
    // A parenthesis often explains the options and must not add to their number.
    let end = rest.find(". ").into_iter().chain(rest.find('(')).min().unwrap_or(rest.len());
    let sentence = &rest[..end];
    let options = sentence.split(", ").count().max(sentence.matches(" or ").count() + 1);
    let has_or = sentence.contains(" or ");
    // Two options are a contrast more often than a menu.
    (has_or && options >= 3 && !decided(&words)).then_some(words[first].at)
}

/// Returns the offset of a list of options, if there is one: at least three names after a label
/// such as `Options:`.
fn find_menu_list(passages: &[TextPassage], index: usize) -> Option<usize> {
    let label = &passages[index];
    if label.listed || !label.text.trim_end().ends_with(':') {
        return None;
    }
    let title = label.lower.trim().strip_suffix(':')?;
    let (kind, noun) = title.rsplit_once(' ').unwrap_or(("", title));
    let is_label = matches!(kind, "" | "popular" | "common" | "available" | "possible" | "good")
        && (matches!(noun, "options" | "choices" | "alternatives")
            || (!kind.is_empty() && matches!(noun, "tools" | "libraries" | "frameworks")));
    // Behind a question, the options are the possible answers of the user.
    let is_question = index > 0 && passages[index - 1].text.contains('?');
    if !is_label || is_question {
        return None;
    }
    let rest = &passages[index + 1..];
    let count = rest.iter().take_while(|passage| passage.listed).count();
    let named = rest[..count].iter().all(|item| {
        let name = item.text.split([':', '\u{2014}', '\u{2013}']).next().unwrap_or_default();
        let name = name.split(" - ").next().unwrap_or_default();
        // Commands and longer texts are steps or explanations, not names.
        !item.text.starts_with('`') && name.split_whitespace().count() <= 3
    });
    let decided = rest
        .iter()
        // The paragraphs after the list often name the default.
        .take(count + 2)
        .any(|passage| split_words(&passage.lower).any(|word| DECIDING_WORDS.contains(&word.text)));
    (count >= 3 && named && !decided).then_some(0)
}
