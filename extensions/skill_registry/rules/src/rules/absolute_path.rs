//! `absolute-path`: a path that exists only on the author's machine.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use crate::body::phrase::build_matcher;
use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

/// Prefixes of home directories, with the separator of their components.
const HOMES: [(&str, char); 5] = [
    ("/Users/", '/'),
    ("/home/", '/'),
    ("C:\\Users\\", '\\'),
    ("C:\\\\Users\\\\", '\\'),
    ("C:/Users/", '/'),
];

/// A search for any prefix, which most bodies do not contain.
static STARTS: LazyLock<AhoCorasick> = LazyLock::new(|| build_matcher(HOMES.map(|(home, _)| home)));

/// The maximum number of reported home directories.
const MAX_REPORTED: usize = 20;

/// Names that represent any user, or the only user of a container image.
const GENERIC_USERS: [&str; 34] = [
    "you",
    "your",
    "yourname",
    "yourusername",
    "your-name",
    "your-username",
    "your_username",
    "user",
    "username",
    "user_name",
    "name",
    "me",
    "runner",
    "ubuntu",
    "vscode",
    "node",
    "app",
    "dev",
    "developer",
    "alice",
    "bob",
    "john",
    "jane",
    "example",
    "shared",
    "public",
    "default",
    "linuxbrew",
    "claude",
    "coder",
    "agent",
    "root",
    "path",
    "foo",
];

pub(super) static RULE: Rule = Rule {
    id: "absolute-path",
    group: RuleGroup::Lint,
    extent: RuleExtent::Body,
    summary: "the body names a path in a user's home directory",
    levels: ProfileLevels::uniform(RuleLevel::Warning),
    fixable: false,
    docs: r"
## What it does
Searches the body, code included, for paths such as `/Users/kim/…`, `/home/kim/…` and
`C:\Users\kim\…`. Generic names (`you`, `user`, `<name>`, `$USER`) and the users of common images
(`ubuntu`, `runner`, `vscode`) are accepted. Each home directory is reported once.

## Why is this bad?
The path exists on one machine. Everywhere else the command fails, and the name of the author is
published with the skill.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Run /Users/kim/beads/count.py.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Run scripts/count.py.
```
```python bead-counter/scripts/count.py
print(42)
```
",
    check: RuleCheck::Skill(check),
};

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    let start = skill.parsed().body_start;
    let body = skill.body();
    if !STARTS.is_match(body) {
        return;
    }
    let mut seen = Vec::new();
    for (home, separator) in HOMES {
        for (at, _) in body.match_indices(home) {
            let name = body[at + home.len()..]
                .split(|c: char| c == separator || !(c.is_alphanumeric() || "._-".contains(c)))
                .next()
                .unwrap_or_default();
            let rest = &body[at + home.len() + name.len()..];
            // `src/home/user` and `${HOME}/Users/x` are not absolute paths.
            let inside = body[..at].ends_with(|c: char| c.is_alphanumeric() || "._-~}".contains(c));
            let lower = name.trim_end_matches('.').to_lowercase();
            if inside
                || lower.is_empty()
                || !rest.starts_with(separator)
                || GENERIC_USERS.contains(&&*lower)
            {
                continue;
            }
            // One finding per home directory: a body often repeats the same one.
            if seen.len() == MAX_REPORTED || seen.contains(&(home, name)) {
                continue;
            }
            seen.push((home, name));
            findings.add(
                skill.span_at(start + at),
                format!("the path `{home}{name}` exists on one machine only"),
                "use a path relative to the skill, `~` or an environment variable",
            );
        }
    }
}
