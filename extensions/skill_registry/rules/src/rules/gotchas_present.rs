//! `gotchas-present`: a long skill without a section on pitfalls.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use yaml_tree::Span;

use crate::body::phrase::{PhraseSet, build_matcher, split_words};
use crate::body::{PassageKind, TextPassage};
use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

/// The maximum number of lines of a body that needs no such section.
const MAX_LINES_WITHOUT: usize = 50;

/// Phrases in the titles of such sections.
static TITLES: LazyLock<PhraseSet> = LazyLock::new(|| {
    PhraseSet::new(&[
        "gotcha|gotchas|caveat|caveats|pitfall|pitfalls|mistake|mistakes|limitation|limitations",
        "troubleshooting|troubleshoot|footgun|footguns|trap|traps|warning|warnings|caution|cautions",
        "anti-pattern|anti-patterns|antipattern|antipatterns|don'ts|don\u{2019}ts|donts|don't|avoid",
        "edge|corner|failure|special cases|case|modes",
        "known|common|frequent issues|problems|errors|failures|fixes|misconceptions|misuses",
        "error|failure handling|recovery|scenarios|messages|reference",
        "red flag|flags",
        "stop signals|conditions|rules",
        "rationalizations|rationalization|excuses|guardrails|guardrail|constraints|safety|important|notes|faq|never|debugging|critical|risks|problems|issues|errors|failures|blockers",
        "watch out",
        "breaking changes",
        "what not to",
        "do not",
        "false positives|negatives",
        "things to remember|know|watch",
        "hard|safety|golden|iron rules|limits|law|constraints",
        "key considerations",
        "considerations",
        "iron law",
    ])
});

/// Phrases that are unambiguous even as the label of a paragraph.
static LABELS: LazyLock<PhraseSet> = LazyLock::new(|| {
    PhraseSet::new(&[
        "gotcha|gotchas|caveat|caveats|pitfall|pitfalls|limitation|limitations|warning|warnings",
        "common mistake|mistakes|errors|issues|problems",
        "edge cases",
        "red flags",
        "known issues|limitations",
        "troubleshooting|important|anti-patterns",
    ])
});

/// Parts of the names of files about pitfalls.
static FILES: LazyLock<AhoCorasick> = LazyLock::new(|| {
    build_matcher([
        "gotcha",
        "caveat",
        "pitfall",
        "troubleshoot",
        "anti-pattern",
        "antipattern",
        "mistake",
    ])
});

pub(super) static RULE: Rule = Rule {
    id: "gotchas-present",
    group: RuleGroup::Lint,
    extent: RuleExtent::Body,
    summary: "a body of more than 50 lines has no section on pitfalls",
    levels: ProfileLevels::uniform(RuleLevel::Note),
    fixable: false,
    docs: r"
## What it does
Requires bodies of more than 50 lines to have a section on pitfalls: `Gotchas`, `Caveats`,
`Pitfalls`, `Common mistakes`, `Limitations`, `Troubleshooting`, `Red flags`, `Notes`, `Error
handling` and similar titles. A label such as `**Gotchas:**` counts, and so does a file with such a
name.

## Why is this bad?
It is not an error, but such a section is often the most useful part of a skill: facts that a model
cannot guess and gets wrong without it.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
{{Count the beads of the next jar.
*51}}
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
{{Count the beads of the next jar.
*51}}

## Gotchas

- Glass beads stick together: shake the jar first.
```
",
    check: RuleCheck::Skill(check),
};

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    if skill.frontmatter().is_none() {
        return;
    }
    let lines = skill.body_lines();
    if lines <= MAX_LINES_WITHOUT || skill.markdown().passages.iter().any(is_warning) {
        return;
    }
    findings.add(
        Span { line: skill.body_line(), column: 0 },
        format!("the body has {lines} lines and no section on what goes wrong"),
        "add a section `## Gotchas` with what a model gets wrong without it",
    );
}

fn is_warning(passage: &TextPassage) -> bool {
    let lower = &*passage.lower;
    if passage.kind == PassageKind::Heading {
        return has_phrase(&TITLES, lower, usize::MAX);
    }
    // A paragraph counts by its label alone: running text mentions errors often.
    let label = lower.split_once(':').map_or(lower, |(label, _)| label);
    names_file(lower) || has_phrase(&LABELS, label, 4)
}

/// Returns `true` if a text of at most `most` words contains one of the phrases.
fn has_phrase(phrases: &PhraseSet, lower: &str, most: usize) -> bool {
    if !phrases.may_be_in(lower) {
        return false;
    }
    let words: Vec<_> = split_words(lower).take(most.saturating_add(1)).collect();
    words.len() <= most && phrases.find(&words).is_some()
}

/// Returns `true` if a text names a file about pitfalls.
fn names_file(lower: &str) -> bool {
    if !FILES.is_match(lower) {
        return false;
    }
    // The odd parts between backticks are code.
    let mut code = lower.split('`').skip(1).step_by(2);
    code.any(|code| code.contains('.') && FILES.is_match(code)) || lower.contains(".md")
}
