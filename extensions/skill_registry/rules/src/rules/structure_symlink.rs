//! `structure.symlink`: a file is a symbolic link.

use skill_format::EntryKind;
use yaml_tree::Span;

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

pub(super) static RULE: Rule = Rule {
    id: "structure.symlink",
    group: RuleGroup::Validation,
    extent: RuleExtent::Directory,
    summary: "a file is a symbolic link",
    levels: ProfileLevels {
        lenient: RuleLevel::Off,
        reference: RuleLevel::Off,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Reports symbolic links within a skill. Links that lead out of it are reported by
`reference.traversal`.

## Why is this bad?
Archives, Windows and most installers do not preserve links, and careful readers do not follow them.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
---
Count the beads.
```

```markdown bead-counter/references/jars.md
# Kinds of jars
```

```text bead-counter/references/bowls.md link=jars.md
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
---
Count the beads.
```

```markdown bead-counter/references/jars.md
# Kinds of jars and bowls
```
"#,
    check: RuleCheck::Skill(check),
};

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    for file in skill.files().unwrap_or_default() {
        // A link that leaves the skill is reported by `reference.traversal`.
        if file.kind == (EntryKind::Symlink { escapes: false }) {
            let message = format!("`{}` is a symbolic link", file.path);
            findings.add(Span::default(), message, "put a copy of the file in its place");
        }
    }
}
