//! `no-generic-instructions`: advice that any model knows and that has no effect.

use std::ops::Range;
use std::sync::LazyLock;

use crate::body::phrase::{PhraseSet, TextWord, collect_words, split_words};
use crate::body::{PassageKind, TextPassage};
use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

/// Phrases of generic advice.
static PHRASES: LazyLock<PhraseSet> = LazyLock::new(|| {
    PhraseSet::new(&[
        "handle errors|error|exceptions|failures appropriately|gracefully|properly|correctly|carefully|well",
        "handle all|any errors|exceptions|failures appropriately|gracefully|properly|correctly|carefully|well",
        "handle edge cases appropriately|gracefully|properly|correctly|carefully|well",
        "handle all edge cases",
        "follow|use|apply best practices",
        "follow|use|apply|adhere industry|coding|general|standard|established|security|common|modern best practices",
        "follow|use|apply industry|coding|general|standard|established standards|conventions|practices",
        "use|implement|add|ensure|include|provide proper|appropriate|good|robust|adequate error|exception handling",
        "use|implement|add|ensure|include|provide proper|appropriate|good|robust|adequate validation|logging|testing|documentation|security",
        "write clean|good|quality|high-quality|maintainable|readable|robust|efficient|elegant code",
        "write clean|good|readable|robust|efficient and|maintainable|readable|efficient maintainable|readable|efficient|code",
        "ensure|maintain|guarantee high|good|the|top highest|code|quality quality",
        "ensure|maintain|guarantee high|good|code|top quality",
        "ensure|maintain good|optimal performance|security|readability|maintainability",
        "make sure everything|it|this works",
        "ensure everything works",
        "ensure that everything works",
        "use common sense",
        "pay attention to detail|details",
        "test everything thoroughly",
        "use good|best judgment|judgement",
        "handle appropriately|gracefully|properly",
        "follow * best practices",
        "document|comment your|the code well|properly|appropriately|thoroughly",
        "be careful and thorough",
    ])
});

/// Words that turn a phrase into a warning, a purpose or a description.
const NOT_ADVICE: [&str; 22] = [
    "not",
    "don't",
    "never",
    "avoid",
    "instead",
    "vague",
    "like",
    "whether",
    "generic",
    "that",
    "to",
    "who",
    "which",
    "helps",
    "they",
    "it",
    "is",
    "are",
    "does",
    "do",
    "will",
    "implementation",
];

pub(super) static RULE: Rule = Rule {
    id: "no-generic-instructions",
    group: RuleGroup::Lint,
    extent: RuleExtent::Body,
    summary: "an instruction is so general that it changes nothing",
    levels: ProfileLevels::uniform(RuleLevel::Warning),
    fixable: false,
    docs: r"
## What it does
Searches the text of the body for phrases such as `handle errors appropriately`, `follow best
practices` and `use proper error handling`. Headings, block quotes, code, quoted phrases, warnings
about such advice and sentences that continue with details are ignored.

## Why is this bad?
A model tries to do that anyway. The words cost tokens and do not answer the actual question: which
errors, and how to handle each of them.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Count the beads. Handle errors appropriately and follow best practices.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Count the beads. If two counts differ, count a third time and report all three numbers.
```
",
    check: RuleCheck::Skill(check),
};

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    let mut in_usage_section = false;
    for passage in &skill.markdown().passages {
        if passage.kind == PassageKind::Heading {
            let lower = &passage.lower;
            // Such sections describe occasions, in which the phrases are part of a request.
            in_usage_section = lower.contains("when ") || lower.contains("use case");
        }
        if passage.quoted || passage.kind != PassageKind::Text || in_usage_section {
            continue;
        }
        if passage.listed && is_empty_advice(&passage.lower) {
            report_phrase(skill, findings, passage, 0..passage.text.trim_end().len());
            continue;
        }
        if !PHRASES.may_be_in(&passage.lower) {
            continue;
        }
        let words = collect_words(&passage.lower);
        let mut from = 0;
        while let Some((first, count)) = PHRASES.find(&words[from..]) {
            let first = from + first;
            from = first + count;
            let last = words[from - 1];
            let range = words[first].at..last.at + last.text.len();
            if is_generic(passage, &words, first, range.end) {
                report_phrase(skill, findings, passage, range);
            }
        }
    }
}

fn report_phrase(
    skill: &SkillDocument<'_>,
    findings: &mut FindingSink<'_>,
    passage: &TextPassage,
    range: Range<usize>,
) {
    let place = skill.span_at(passage.file_offset(range.start));
    let message = format!("`{}` says nothing a model does not do anyway", &passage.text[range]);
    findings.add(place, message, "say what to do in which case, or remove it");
}

/// Returns `true` if a list item is a verb with a generic adverb, such as `Test thoroughly`.
fn is_empty_advice(lower: &str) -> bool {
    let mut words = split_words(lower);
    let (Some(_), Some(second), None) = (words.next(), words.next(), words.next()) else {
        return false;
    };
    let is_adverb = matches!(
        second.text,
        "appropriately"
            | "properly"
            | "thoroughly"
            | "carefully"
            | "gracefully"
            | "correctly"
            | "regularly"
    );
    is_adverb && !second.apart
}

/// Returns `true` if a phrase is an instruction without specific text after it.
fn is_generic(passage: &TextPassage, words: &[TextWord<'_>], first: usize, end: usize) -> bool {
    let text = &passage.text;
    let quoted = text[..words[first].at].ends_with(['"', '\'', '\u{201C}', '\u{2018}', '/']);
    let sentence = text[..words[first].at].rfind(['.', '!', '?', ':', ';']).unwrap_or(0);
    // Twelve words cover the clause; more would make long passages quadratic.
    let before = words[first.saturating_sub(12)..first].iter();
    let warned =
        before.filter(|word| word.at >= sentence).any(|word| NOT_ADVICE.contains(&word.text));
    // `Follow the best practices` refers to practices listed elsewhere.
    let refers_elsewhere =
        words.get(first + 1).is_some_and(|word| matches!(word.text, "the" | "these" | "our"));
    let rest = text[end..].trim_start();
    // Such continuations make the instruction specific.
    let has_details = rest.starts_with([':', '(', '\u{2014}', '\u{2013}', '-'])
        || text.trim_end().ends_with(':')
        || [
            ", not",
            "that ",
            "when ",
            "if ",
            "by ",
            "from ",
            "in `",
            "per ",
            "as in",
            "as described",
            "with ",
            "via ",
            "using ",
        ]
        .iter()
        .any(|link| rest.starts_with(link));
    !quoted && !warned && !refers_elsewhere && !has_details
}
