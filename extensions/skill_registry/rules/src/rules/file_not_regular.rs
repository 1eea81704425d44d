//! `file.notRegular`: a SKILL.md is not a regular file.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "file.notRegular",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "a SKILL.md is not a regular file",
    levels: ProfileLevels::uniform(RuleLevel::Error),
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
    check: RuleCheck::Reading,
};
