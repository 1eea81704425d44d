//! `broad-description`: a description that fits any request.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use crate::body::phrase::{PhraseSet, TextWord, build_matcher, collect_words};
use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

/// Requests that have nothing to do with each other, each as the starts of the words that a skill
/// for it would have in its description.
const REQUESTS: [&[&str]; 24] = [
    // Translate this letter into Spanish.
    &["translat", "letter", "spanish"],
    // Plan vegetarian dinners for the week.
    &["vegetarian", "dinner", "recipe", "cooking"],
    // Fix the memory leak in this C++ parser.
    &["c++", "parser", "leak"],
    // Draw a logo for my bakery.
    &["logo", "bakery", "draw"],
    // Summarize this earnings report.
    &["summariz", "earnings", "report"],
    // Book a flight and a hotel in Lisbon.
    &["flight", "hotel", "travel", "book"],
    // Transcribe this podcast episode.
    &["transcri", "podcast", "episode"],
    // Convert the invoice from PDF to Excel.
    &["convert", "invoice", "pdf", "excel"],
    // Explain photosynthesis to a child.
    &["photosynthesis", "child", "tutor", "homework"],
    // Deploy the container to Kubernetes.
    &["kubernetes", "container", "deploy"],
    // Prepare me for a job interview.
    &["interview", "résumé", "resume"],
    // Write a wedding speech.
    &["wedding", "speech"],
    // Analyze the survey results in this spreadsheet.
    &["survey", "spreadsheet"],
    // Review the clauses of a rental contract.
    &["clause", "contract", "rental", "legal"],
    // Schedule a dentist appointment.
    &["appointment", "dentist", "schedul", "calendar"],
    // Compose a melody for piano.
    &["compose ", "composing ", "melod", "piano", "music"],
    // Optimize this slow SQL query.
    &["sql", "quer", "optimiz"],
    // Suggest exercises for back pain.
    &["exercise", "pain", "health", "fitness"],
    // Edit the vacation video.
    &["vacation", "video"],
    // Draft a marketing email to customers.
    &["email", "marketing", "customer"],
    // Solve this differential equation.
    &["equation", "differential", "math"],
    // Research competitors of our startup.
    &["research", "competitor", "startup"],
    // Create slides for the board.
    &["slide", "presentation", "powerpoint"],
    // Calculate the tax on my salary.
    &["tax", "salary", "calculat", "budget"],
];

/// The number of requests from which a description counts as fitting most of them.
const MOST: u32 = 13;

/// The words of all requests, and the request of each.
static WORDS: LazyLock<(AhoCorasick, Vec<usize>)> = LazyLock::new(|| {
    let words =
        || REQUESTS.iter().enumerate().flat_map(|(at, list)| list.iter().map(move |it| (at, *it)));
    (build_matcher(words().map(|(_, word)| word)), words().map(|(at, _)| at).collect())
});

/// Claims on every request. They count where the clause ends after them: `for any task that involves
/// PDF` is specific.
static CLAIMS: LazyLock<PhraseSet> = LazyLock::new(|| {
    PhraseSet::new(&[
        "for|on|in|before|during|with any|every|all|each task|tasks|request|requests|question|questions|prompt|prompts|message|messages|conversation|conversations|situation|situations|turn|purpose|purposes",
        "for|on|in|before|during|with any|every|all|each user task|tasks|request|requests|question|questions|prompt|prompts|message|messages",
        "for|with anything|everything",
        "whatever the user asks|wants|needs",
        "any|every|all kind|kinds|type|types|sort|sorts of task|tasks|request|requests|question|questions|problem|problems",
    ])
});

pub(super) static RULE: Rule = Rule {
    id: "broad-description",
    group: RuleGroup::Lint,
    extent: RuleExtent::Head,
    summary: "the description fits most requests",
    levels: ProfileLevels::uniform(RuleLevel::Warning),
    fixable: false,
    docs: r"
## What it does
Compares `description` and `when_to_use` with 24 requests that have nothing to do with each other,
from a wedding speech to a slow SQL query, and reports a skill that shares a word with more than half of
them, or that claims every request: `use for any task`, `whatever the user asks`.

## Why is this bad?
A model loads the skill when another one, or none, would serve better. Each time it costs its tokens
and its instructions interfere.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar and helps with other work. Use this skill for any task.
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use for any task that involves jars of beads.
---
Count the beads.
```
",
    check: RuleCheck::Skill(check),
};

const HELP: &str = "name the occasions for this skill alone; make several skills if it has many";

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    let Some(frontmatter) = skill.frontmatter() else { return };
    let mut text = frontmatter.description.to_lowercase();
    // Clients append `when_to_use` to the description.
    if let Some(more) = &frontmatter.when_to_use {
        text.push_str(". ");
        text.push_str(&more.to_lowercase());
    }
    let matched = count_requests(&text);
    let message = if matched >= MOST {
        format!("the description fits {matched} of {} unrelated requests", REQUESTS.len())
    } else if let Some(claim) = find_claim(&text) {
        format!("`{claim}` fits every request")
    } else {
        return;
    };
    findings.add(skill.field_span("description"), message, HELP);
}

/// Returns the number of requests with a word in a lower-case text.
fn count_requests(text: &str) -> u32 {
    let (words, requests) = &*WORDS;
    let mut matched = 0_u32;
    for found in words.find_iter(text) {
        // A part of a longer word, such as the `tax` of `syntax`, is another word.
        if !text[..found.start()].ends_with(|c: char| c.is_alphanumeric()) {
            matched |= 1 << requests[found.pattern().as_usize()];
        }
    }
    matched.count_ones()
}

/// Returns the first claim on every request in a lower-case text.
fn find_claim(text: &str) -> Option<&str> {
    if !CLAIMS.may_be_in(text) {
        return None;
    }
    let words = collect_words(text);
    let mut from = 0;
    while let Some((first, count)) = CLAIMS.find(&words[from..]) {
        let (first, end) = (from + first, from + first + count);
        // `find` gives words; the claim ends with the last of them.
        let range = words[first].at..words[end - 1].at + words[end - 1].text.len();
        if ends_clause(text, range.end, words.get(end)) && !is_negated(&words[..first]) {
            return Some(&text[range]);
        }
        from = end;
    }
    None
}

/// Returns `true` if nothing after a claim restricts it.
fn ends_clause(text: &str, end: usize, next: Option<&TextWord<'_>>) -> bool {
    let rest = text[end..].trim_start();
    rest.is_empty()
        || rest.starts_with(['.', '!', ';'])
        || next.is_some_and(|word| !word.apart && matches!(word.text, "the" | "a" | "you"))
            && (rest.starts_with("the user")
                || rest.starts_with("a user")
                || rest.starts_with("you "))
}

/// Returns `true` if the words before a claim deny it.
fn is_negated(before: &[TextWord<'_>]) -> bool {
    let mut near = before.iter().rev().take(4);
    near.any(|word| matches!(word.text, "not" | "don't" | "never" | "instead" | "isn't"))
}
