//! `file.unreadable`: a file or a directory cannot be read.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "file.unreadable",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "a file or a directory cannot be read",
    levels: ProfileLevels::uniform(RuleLevel::Error),
    fixable: false,
    docs: r#"
## What it does
Reports what the system refuses to open or to read, and files that keep changing while they are
read.

## Why is this bad?
What cannot be read cannot be checked, and no agent can use it.

## Bad
It depends on the disk, so there is no example.

## Good
It depends on the disk, so there is no example.
"#,
    check: RuleCheck::Reading,
};
