//! `hardcoded-secret`: a key or a token in the text of the skill.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use crate::body::phrase::build_matcher;
use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

/// Prefixes of keys of well-known services, with the minimum number of letters and digits that follow.
const KEYS: [(&str, usize, &str); 12] = [
    ("sk-ant-", 32, "an Anthropic key"),
    ("sk-proj-", 32, "an OpenAI key"),
    ("ghp_", 36, "a GitHub token"),
    ("gho_", 36, "a GitHub token"),
    ("github_pat_", 40, "a GitHub token"),
    ("glpat-", 20, "a GitLab token"),
    ("AKIA", 16, "an AWS key"),
    ("AIza", 35, "a Google key"),
    ("xoxb-", 30, "a Slack token"),
    ("xoxp-", 30, "a Slack token"),
    ("sk_live_", 24, "a Stripe key"),
    ("-----BEGIN ", 0, "a private key"),
];

/// A search for any prefix, which most texts do not contain.
static STARTS: LazyLock<AhoCorasick> =
    LazyLock::new(|| build_matcher(KEYS.map(|(start, ..)| start)));

pub(super) static RULE: Rule = Rule {
    id: "hardcoded-secret",
    group: RuleGroup::Lint,
    extent: RuleExtent::Body,
    summary: "the text has what looks like a key or a token",
    levels: ProfileLevels::uniform(RuleLevel::Warning),
    fixable: false,
    docs: r"
## What it does
Searches the complete file for keys and tokens of well-known services by their prefix, and for
private keys. Obvious placeholders (`EXAMPLE`, `xxxx`, one repeated character) are ignored.

## Why is this bad?
Every reader of the skill can use the key, and every model that loads the skill transmits it.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Upload with the token ghp_{{q8T2*9}}.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Upload with the token in `GITHUB_TOKEN`, such as ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx.
```
",
    check: RuleCheck::Skill(check),
};

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    let text = skill.text();
    if !STARTS.is_match(text) {
        return;
    }
    for (start, min_length, what) in KEYS {
        for (at, _) in text.match_indices(start) {
            let rest = &text[at + start.len()..];
            // In the middle of a word, the prefix is part of other text.
            if text[..at].ends_with(|c: char| c.is_alphanumeric())
                || !is_secret(start, rest, min_length)
            {
                continue;
            }
            findings.add(
                skill.span_at(at),
                format!("this looks like {what}"),
                "revoke it, remove it, and name the environment variable it is read from",
            );
        }
    }
}

fn is_secret(start: &str, rest: &str, min_length: usize) -> bool {
    // Of a private key, the first line of the encoded data is checked instead of the header.
    if min_length == 0 {
        let line = rest.lines().next().unwrap_or_default();
        let key = rest.lines().nth(1).unwrap_or_default().trim();
        let base64 = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
        return line.trim_end().trim_end_matches('-').ends_with("PRIVATE KEY")
            && key.chars().all(base64)
            && is_random(key, 40);
    }
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "_-".contains(c)));
    let key = &rest[..end.unwrap_or(rest.len())];
    // Key ids of AWS have a fixed length and no lower case; longer words are no keys.
    let aws = start == "AKIA";
    (!aws || (key.len() == min_length && !key.bytes().any(|byte| byte.is_ascii_lowercase())))
        && is_random(key, min_length)
}

/// Returns `true` if a key is long and mixed enough to be real.
fn is_random(key: &str, min_length: usize) -> bool {
    let lower = key.to_ascii_lowercase();
    let mut kinds: Vec<char> = lower.chars().collect();
    kinds.sort_unstable();
    kinds.dedup();
    let has_digit = key.bytes().any(|byte| byte.is_ascii_digit());
    let has_letter = key.bytes().any(|byte| byte.is_ascii_alphabetic());
    let placeholders = [
        "example",
        "xxx",
        "your",
        "1234567",
        "abcdef",
        "placeholder",
        "redacted",
        "fake",
        "dummy",
        "sample",
        "exposed",
        "secret",
    ];
    key.len() >= min_length
        && has_digit
        && has_letter
        // Placeholders such as `aaaa1111` repeat few characters.
        && kinds.len() >= 4
        && !placeholders.iter().any(|it| lower.contains(it))
}
