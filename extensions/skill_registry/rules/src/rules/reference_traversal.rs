//! `reference.traversal`: a link to a path outside the skill.

use skill_format::EntryKind;
use yaml_tree::Span;

use crate::body::local_links::LocalTarget;
use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

pub(super) static RULE: Rule = Rule {
    id: "reference.traversal",
    group: RuleGroup::Validation,
    extent: RuleExtent::Directory,
    summary: "a link leads out of the skill",
    levels: ProfileLevels {
        lenient: RuleLevel::Off,
        reference: RuleLevel::Off,
        seed_strict: RuleLevel::Error,
        ..ProfileLevels::uniform(RuleLevel::Warning)
    },
    fixable: false,
    docs: r#"
## What it does
Reports relative links of the body that climb above the skill's directory with `..`, and symbolic
links in the skill that lead out of it.

## Why is this bad?
Files outside of a skill are not shipped with it, and readers reject such paths, because a hostile
skill can use them to read files of the user.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
---
See [the other skill](../jar-counter/SKILL.md).
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
---
See [the guide](references/../references/guide.md).
```

```markdown bead-counter/references/guide.md
# How to count
```
"#,
    check: RuleCheck::Skill(check),
};

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    for link in skill.local_links() {
        if let LocalTarget::Outside(target) = &link.place {
            let message = format!("`{target}` leads out of the skill");
            findings.add(
                skill.span_at(link.at),
                message,
                "copy the file into the skill and link to it there",
            );
        }
    }
    // A link in the file system has the same effect as one in the text.
    for file in skill.files().unwrap_or_default() {
        if file.kind == (EntryKind::Symlink { escapes: true }) {
            let message = format!("the symbolic link `{}` leads out of the skill", file.path);
            findings.add(Span::default(), message, "put a copy of the file in its place");
        }
    }
}
