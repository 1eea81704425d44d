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
Reports files and directories that the system cannot open or read, and files that change while they
are read.

## Why is this bad?
An unreadable file cannot be checked, and no agent can use it.

## Bad
There is no example, because the rule depends on the disk.

## Good
There is no example, because the rule depends on the disk.
"#,
    check: RuleCheck::Reading,
};
