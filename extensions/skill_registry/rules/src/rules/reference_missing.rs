//! `reference.missing`: a link to a file that does not exist.

use std::collections::HashSet;

use crate::body::local_links::LocalTarget;
use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

pub(super) static RULE: Rule = Rule {
    id: "reference.missing",
    group: RuleGroup::Validation,
    extent: RuleExtent::Directory,
    summary: "a link leads to a file that does not exist",
    levels: ProfileLevels {
        spec: RuleLevel::Warning,
        skillscraft: RuleLevel::Warning,
        anthropic: RuleLevel::Warning,
        ..ProfileLevels::uniform(RuleLevel::Off)
    },
    fixable: false,
    docs: r#"
## What it does
Follows the relative links of the body, and paths in inline code that start with a directory of the
skill, such as `scripts/count.py`. Code blocks, web addresses and placeholders are ignored.

## Why is this bad?
An agent that follows the instructions requests a file that does not exist, and may invent its
content.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
---
See [the guide](references/guide.md).
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
---
See [the guide](references/guide.md).
```

```markdown bead-counter/references/guide.md
# How to count
```
"#,
    check: RuleCheck::Skill(check),
};

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    let Some(files) = skill.files() else { return };
    if skill.local_links().is_empty() {
        return;
    }
    let mut known: HashSet<&str> = HashSet::new();
    for file in files {
        known.insert(&file.path);
        // Callers may list files without their directories.
        known.extend(file.path.match_indices('/').map(|(at, _)| &file.path[..at]));
    }
    for link in skill.local_links() {
        let LocalTarget::Inside(path) = &link.place else { continue };
        let directory = path.split('/').next().unwrap_or_default();
        // Code may name files of the user's project, unless the directory is one of the skill.
        let is_skill_path = !link.is_code || known.contains(directory);
        if is_skill_path && !path.is_empty() && !known.contains(path.as_str()) {
            let message = format!("there is no file `{path}` in the skill");
            findings.add(skill.span_at(link.at), message, "add the file, or correct the path");
        }
    }
}

#[cfg(test)]
mod tests {
    use skill_format::{EntryKind, FileEntry, SkillInput};

    use crate::{CheckOptions, CheckScope, check_skill};

    #[test]
    fn missing_link_target_is_reported() {
        let body = "[a](references/a.md#x) [b](references/b.md) [f](references/) `scripts/no.py`\n\
                    `references/c.md` [web](https://e.org/x.md) [top](#top) [t](<{file}.md>)\n\
                    [s](./references/./a%2Emd) [q](references/a.md?raw=1) `references/*.md`\n";
        let text = format!("---\nname: x\ndescription: y\n---\n{body}");
        let path = "references/a.md".to_owned();
        let files = [FileEntry { path, size: 1, mode: 0o644, kind: EntryKind::File }];
        let bytes = text.as_bytes();
        let input =
            SkillInput { dir_name: "x", file_name: Some("SKILL.md"), bytes, files: Some(&files) };
        let options = CheckOptions { scope: CheckScope::Lint, ..CheckOptions::default() };
        let found: Vec<_> = check_skill(&input, options)
            .findings
            .iter()
            .filter(|it| it.diagnostic.rule == super::RULE.id)
            .map(|it| (it.diagnostic.line, it.diagnostic.column, it.diagnostic.message.clone()))
            .collect();
        let missing = |path: &str| format!("there is no file `{path}` in the skill");
        let expected = [(5, 24, missing("references/b.md")), (6, 1, missing("references/c.md"))];
        assert_eq!(found, expected);
    }
}
