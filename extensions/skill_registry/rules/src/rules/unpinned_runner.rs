//! `unpinned-runner`: a package that is downloaded and run in its newest version.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use crate::body::phrase::build_matcher;
use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

/// Commands that download a package and run it, and whether it is a Python package.
const RUNNERS: [(&str, bool); 11] = [
    ("npx ", false),
    ("pnpx ", false),
    ("bunx ", false),
    ("npm exec ", false),
    ("npm x ", false),
    ("pnpm dlx ", false),
    ("yarn dlx ", false),
    ("bun x ", false),
    ("uvx ", true),
    ("pipx run ", true),
    ("uv tool run ", true),
];

static ANY_RUNNER: LazyLock<AhoCorasick> =
    LazyLock::new(|| build_matcher(RUNNERS.map(|(runner, _)| runner)));

/// Options whose value is the package.
const PACKAGE_OPTIONS: [&str; 4] = ["--from", "--spec", "--package", "-p"];

/// Options whose value is something else.
const VALUE_OPTIONS: [&str; 7] =
    ["--python", "--with", "--index-url", "--index", "--registry", "-c", "--call"];

/// Options with which nothing is downloaded.
const LOCAL_OPTIONS: [&str; 3] = ["--no-install", "--no", "--offline"];

/// Versions that name the newest one.
const MOVING: [&str; 5] = ["latest", "next", "canary", "beta", "*"];

pub(super) static RULE: Rule = Rule {
    id: "unpinned-runner",
    group: RuleGroup::Lint,
    extent: RuleExtent::Body,
    summary: "a package is downloaded and run without a version",
    levels: ProfileLevels::uniform(RuleLevel::Note),
    fixable: false,
    docs: r"
## What it does
Searches code for `npx`, `pnpx`, `bunx`, `bun x`, `npm exec`, `pnpm dlx`, `yarn dlx`, `uvx`,
`uv tool run` and `pipx run` with a package that has no version, or a moving one such as `@latest`.
Each package is reported once per skill. Paths, placeholders and commands with `--no-install` are
ignored.

## Why is this bad?
The newest version of the package is downloaded and run with the rights of the agent. The code is not
the code that the author of the skill tried: it can break or turn hostile without a change of the
skill. `npx` prefers a copy that the project has installed; `--no-install` requires one.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Run `npx bead-tools count jar.json`.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Run `npx bead-tools@2.1.0 count jar.json`.
```
",
    check: RuleCheck::Skill(check),
};

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    let text = skill.text();
    let start = skill.parsed().body_start;
    // Most skills run no package; the search spares them the Markdown pass.
    if skill.frontmatter().is_none() || !ANY_RUNNER.is_match(&text[start..]) {
        return;
    }
    let mut reported: Vec<&str> = Vec::new();
    for range in skill.markdown().code_ranges() {
        for found in ANY_RUNNER.find_iter(&text[range.clone()]) {
            let at = range.start + found.start();
            let follows_word =
                text[..at].ends_with(|c: char| c.is_alphanumeric() || "-_./@".contains(c));
            let (runner, is_python) = RUNNERS[found.pattern()];
            let rest = &text[range.start + found.end()..range.end];
            let line = rest.split('\n').next().unwrap_or_default();
            let Some(package) = named_package(line).filter(|_| !follows_word) else { continue };
            if is_pinned(package, is_python) || reported.contains(&package) {
                continue;
            }
            reported.push(package);
            let message = format!("`{}` runs the newest version of `{package}`", runner.trim_end());
            findings.add(skill.span_at(at), message, advice(package, is_python));
        }
    }
}

/// Returns the package of a command line after its runner; `None` if it names none, or a path or a
/// placeholder.
fn named_package(line: &str) -> Option<&str> {
    let ends_command = |word: &&str| !matches!(*word, "|" | "||" | "&&" | ";" | "#" | "\\" | ">");
    let mut words = line.split_ascii_whitespace().take_while(ends_command);
    let mut package = None;
    while let Some(word) = words.next() {
        let (option, value) = word.split_once('=').unwrap_or((word, ""));
        if LOCAL_OPTIONS.contains(&option) {
            return None;
        } else if PACKAGE_OPTIONS.contains(&option) {
            package = if value.is_empty() { words.next() } else { Some(value) };
            break;
        } else if VALUE_OPTIONS.contains(&option) {
            if value.is_empty() {
                words.next();
            }
        } else if !word.starts_with('-') {
            package = Some(word);
            break;
        }
    }
    let package = package?.trim_matches(['"', '\'', '`', ')', ';', ',']);
    let name = package.strip_prefix('@').unwrap_or(package);
    let is_name = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && package.bytes().all(|c| c.is_ascii_alphanumeric() || b"@/._-=[]~^*<>+:".contains(&c))
        && !package.contains("://");
    is_name.then_some(package)
}

/// Returns `true` if a package has a version that stays the same.
fn is_pinned(package: &str, is_python: bool) -> bool {
    // The first `@` of a scoped package is a part of its name.
    let version =
        package.get(1..).and_then(|rest| rest.split_once('@')).map(|(_, version)| version);
    version.is_some_and(|version| !version.is_empty() && !MOVING.contains(&version))
        || (is_python && package.contains("=="))
}

fn advice(package: &str, is_python: bool) -> String {
    let name = package.get(1..).and_then(|rest| rest.find(['@', '=', '<', '>', '~']));
    let name = name.map_or(package, |end| &package[..=end]);
    let separator = if is_python { "==" } else { "@" };
    format!("name the version that you have tried: `{name}{separator}VERSION`")
}
