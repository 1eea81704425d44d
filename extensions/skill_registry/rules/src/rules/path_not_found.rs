//! `path.notFound`: a path does not exist.

use crate::profile::{Level, Levels};
use crate::rule::{Check, Group, Reach, Rule};

pub(super) static RULE: Rule = Rule {
    id: "path.notFound",
    group: Group::Validation,
    reach: Reach::Head,
    summary: "a path does not exist",
    levels: Levels::all(Level::Error),
    fixable: false,
    docs: r#"
## What it does
Reports a path of the command line that leads nowhere.

## Why is this bad?
Nothing was checked, which must not look as if all were well.

## Bad
It depends on the disk, so there is no example.

## Good
It depends on the disk, so there is no example.
"#,
    check: Check::Reading,
};
