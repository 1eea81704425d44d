//! `large-file`: a file of the skill that is too large to be read.

use skill_format::EntryKind;
use yaml_tree::Span;

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

/// The maximum size of a text, in bytes: 128 KiB are about 32,000 tokens, too many for one read.
const MAX_TEXT_BYTES: u64 = 128 << 10;

/// The maximum size of any file, in bytes: larger ones make a skill slow to copy.
const MAX_BYTES: u64 = 5 << 20;

pub(super) static RULE: Rule = Rule {
    id: "large-file",
    group: RuleGroup::Lint,
    extent: RuleExtent::Directory,
    summary: "a file of the skill is very large",
    levels: ProfileLevels::uniform(RuleLevel::Note),
    fixable: false,
    docs: r"
## What it does
Checks the sizes of the skill's files: documents (`.md`, `.txt`) of more than 128 KiB, and any file
of more than 5 MiB.

## Why is this bad?
A document of 128 KiB is about 32,000 tokens, more than a model should read for one question. A
large binary makes every copy of the skill slow.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Read references/all-beads.md.
```
```markdown bead-counter/references/all-beads.md
{{One more bead. *9000}}
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Read references/red-beads.md or references/blue-beads.md.
```
```markdown bead-counter/references/red-beads.md
One red bead.
```
```markdown bead-counter/references/blue-beads.md
One blue bead.
```
",
    check: RuleCheck::Skill(check),
};

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    for file in skill.files().into_iter().flatten() {
        // SKILL.md has limits of its own.
        if file.kind != EntryKind::File || Some(&*file.path) == skill.input().file_name {
            continue;
        }
        let lower = file.path.to_ascii_lowercase();
        let is_text = [".md", ".txt", ".rst"].iter().any(|end| lower.ends_with(end));
        let (kib, path) = (file.size >> 10, &file.path);
        if is_text && file.size > MAX_TEXT_BYTES {
            findings.add(
                Span::default(),
                format!("`{path}` has {kib} KiB, more than a model should read at once"),
                "split it by topic, or name the part to read in SKILL.md",
            );
        } else if file.size > MAX_BYTES {
            findings.add(
                Span::default(),
                format!("`{path}` has {kib} KiB"),
                "keep it elsewhere and let a script fetch it",
            );
        }
    }
}
