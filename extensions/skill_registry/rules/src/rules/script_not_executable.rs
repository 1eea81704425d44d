//! `script-not-executable`: a script that the body runs by its path but that is not executable.

use std::collections::HashSet;

use skill_format::{EntryKind, FileEntry};

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

pub(super) static RULE: Rule = Rule {
    id: "script-not-executable",
    group: RuleGroup::Lint,
    extent: RuleExtent::Directory,
    summary: "a script that is run by its path is not executable",
    levels: ProfileLevels::uniform(RuleLevel::Warning),
    fixable: false,
    docs: r"
## What it does
Searches blocks of code for commands that run a script of the skill by its path (`./scripts/count.sh
jar`, `scripts/count.py`) without execute permission on the file. A command that names an
interpreter (`python scripts/count.py`) needs none.

## Why is this bad?
The command fails with `permission denied`, and the model has to find the cause.

## Bad
````markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
```sh
./scripts/count.sh jar
```
````
```sh bead-counter/scripts/count.sh
#!/bin/sh
echo 42
```

## Good
````markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
```sh
sh scripts/count.sh jar
```
````
```sh bead-counter/scripts/count.sh
#!/bin/sh
echo 42
```
",
    check: RuleCheck::Skill(check),
};

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    let Some(files) = skill.files() else { return };
    let is_non_executable =
        |file: &&FileEntry| file.kind == EntryKind::File && file.mode & 0o111 == 0;
    let mut non_executable: HashSet<&str> =
        files.iter().filter(is_non_executable).map(|file| &*file.path).collect();
    // A command without a slash is searched in `PATH`, not in the skill.
    non_executable.retain(|path| path.contains('/'));
    if non_executable.is_empty() {
        return;
    }
    for code in &skill.markdown().code_blocks {
        let mut at = code.range.start;
        for line in skill.text()[code.range.clone()].split_inclusive('\n') {
            let start = at + (line.len() - line.trim_start().len());
            at += line.len();
            let command = line.trim_start().trim_start_matches("$ ");
            let program = command.split_whitespace().next().unwrap_or_default();
            let path = program.strip_prefix("./").unwrap_or(program);
            // Removed on the first use, so that each script is reported once.
            if path.contains('/') && non_executable.remove(path) {
                findings.add(
                    skill.span_at(start),
                    format!("`{path}` is run by its path but is not executable"),
                    format!("run `chmod +x {path}`, or name the interpreter in the command"),
                );
            }
        }
    }
}
