//! `reference.depth`: a reference is more than one level deep.

use crate::body::local_links::Place;
use crate::profile::{Level, Levels};
use crate::rule::{Check, Findings, Group, Reach, Rule};
use crate::subject::Subject;

pub(super) static RULE: Rule = Rule {
    id: "reference.depth",
    group: Group::Validation,
    reach: Reach::Body,
    summary: "a reference is more than one level deep",
    levels: Levels { lenient: Level::Off, reference: Level::Off, ..Levels::all(Level::Warning) },
    fixable: false,
    docs: r#"
## What it does
Reports links to files below a subfolder of `references/`.

## Why is this bad?
The specification keeps references one level deep. Agents tend to read only parts of files that
they reach by long ways.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
---
See [the guide](references/glass/jars.md).
```

```markdown bead-counter/references/glass/jars.md
# Glass jars
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
---
See [the guide](references/glass-jars.md).
```

```markdown bead-counter/references/glass-jars.md
# Glass jars
```
"#,
    check: Check::Skill(check),
};

fn check(skill: &Subject<'_>, findings: &mut Findings<'_>) {
    for link in skill.local_links() {
        let Place::Inside(path) = &link.place else { continue };
        if path.strip_prefix("references/").is_some_and(|rest| rest.contains('/')) {
            let message = format!("`{path}` is more than one level deep");
            findings.add(skill.span_at(link.at), message, "move the file up into references/");
        }
    }
}
