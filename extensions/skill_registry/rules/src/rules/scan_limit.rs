//! `scan.limit`: a search that stopped at a limit.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "scan.limit",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "the search stopped at a limit",
    levels: ProfileLevels::uniform(RuleLevel::Error),
    fixable: false,
    docs: r#"
## What it does
Reports that a search stopped at its limit: 500,000 directories, or 32 levels.

## Why is this bad?
Skills beyond the limit were not checked, which must not look like success.

## Bad
There is no example, because the rule depends on the disk.

## Good
There is no example, because the rule depends on the disk.
"#,
    check: RuleCheck::Reading,
};
