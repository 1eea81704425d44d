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
Reports a directory, a FIFO, a socket or a device named SKILL.md.

## Why is this bad?
Reading it could block forever, and it contains no text.

## Bad
There is no example, because the rule depends on the disk.

## Good
There is no example, because the rule depends on the disk.
"#,
    check: RuleCheck::Reading,
};
