//! `path.notFound`: a path does not exist.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "path.notFound",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "a path does not exist",
    levels: ProfileLevels::uniform(RuleLevel::Error),
    fixable: false,
    docs: r#"
## What it does
Reports a path of the command line that does not exist.

## Why is this bad?
No skill was checked, which must not look like success.

## Bad
There is no example, because the rule depends on the disk.

## Good
There is no example, because the rule depends on the disk.
"#,
    check: RuleCheck::Reading,
};
