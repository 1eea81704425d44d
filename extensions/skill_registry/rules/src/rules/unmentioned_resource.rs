//! `unmentioned-resource`: a document that SKILL.md does not mention.

use skill_format::EntryKind;
use yaml_tree::Span;

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

/// The maximum number of documents to search for.
const MAX_DOCUMENTS: usize = 200;

/// Directories with documents for the model.
const DIRECTORIES: [&str; 3] = ["references", "reference", "resources"];

pub(super) static RULE: Rule = Rule {
    id: "unmentioned-resource",
    group: RuleGroup::Lint,
    extent: RuleExtent::Directory,
    summary: "documents of the skill are not mentioned in SKILL.md",
    levels: ProfileLevels::uniform(RuleLevel::Note),
    fixable: false,
    docs: r"
## What it does
Searches for documents (`.md`, `.txt`) directly in `references/` and `resources/` that SKILL.md does
not mention by path, by name or by their directory.

## Why is this bad?
A model opens the files that SKILL.md mentions. Other files are not read, unless another file of the
skill refers to them.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Count the beads.
```
```markdown bead-counter/references/opaque-jars.md
Hold the jar against the light.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Count the beads. For jars that are not clear, read references/opaque-jars.md.
```
```markdown bead-counter/references/opaque-jars.md
Hold the jar against the light.
```
",
    check: RuleCheck::Skill(check),
};

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    let (Some(files), Some(_)) = (skill.files(), skill.frontmatter()) else { return };
    let text = skill.text();
    let mut unmentioned = Vec::new();
    let mut searched = 0;
    for file in files.iter().filter(|file| file.kind == EntryKind::File) {
        let Some((directory, name)) = file.path.rsplit_once('/') else { continue };
        let Some((stem, "md" | "txt")) = name.rsplit_once('.') else { continue };
        if !DIRECTORIES.contains(&directory) || name.starts_with(['_', '.']) || is_boilerplate(stem)
        {
            continue;
        }
        searched += 1;
        if searched > MAX_DOCUMENTS {
            break;
        }
        // A directory on its own, as in ``see `references/` ``, covers all of its files.
        let is_directory_named = text.match_indices(directory).any(|(at, _)| {
            let rest = &text[at + directory.len()..];
            rest.starts_with("/*")
                || rest.strip_prefix('/').is_some_and(|rest| {
                    !rest.starts_with(|c: char| c.is_alphanumeric() || "_-".contains(c))
                })
        });
        // Short stems such as `api` occur as ordinary words.
        let named = text.contains(name) || (stem.len() > 3 && text.contains(stem));
        if !is_directory_named && !named {
            unmentioned.push(file.path.as_str());
        }
    }
    let message = match unmentioned.as_slice() {
        [] => return,
        [one] => format!("SKILL.md does not mention `{one}`"),
        [one, rest @ ..] => {
            format!("SKILL.md does not mention `{one}` and {} more files", rest.len())
        }
    };
    findings.add(Span::default(), message, "say when to read each of them, or remove them");
}

/// Returns `true` if a document describes its directory and is not meant for the model.
fn is_boilerplate(stem: &str) -> bool {
    matches!(
        &*stem.to_ascii_lowercase(),
        "readme" | "license" | "notice" | "requirements" | "index"
    )
}
