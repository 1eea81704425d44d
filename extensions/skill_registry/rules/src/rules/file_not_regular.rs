//! `file.notRegular`: a SKILL.md is not a regular file.

use crate::profile::{Level, Levels};
use crate::rule::{Check, Group, Reach, Rule};

pub(super) static RULE: Rule = Rule {
    id: "file.notRegular",
    group: Group::Validation,
    reach: Reach::Head,
    summary: "a SKILL.md is not a regular file",
    levels: Levels::all(Level::Error),
    fixable: false,
    docs: r#"
## What it does
Reports a directory, a FIFO, a socket or a device of the name SKILL.md.

## Why is this bad?
Reading it could wait for ever, and there is no text in it.

## Bad
It depends on the disk, so there is no example.

## Good
It depends on the disk, so there is no example.
"#,
    check: Check::Reading,
};
