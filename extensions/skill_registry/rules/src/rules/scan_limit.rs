//! `scan.limit`: a search that stopped at a limit.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "scan.limit",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "there is more to search than is searched",
    levels: ProfileLevels::uniform(RuleLevel::Error),
    fixable: false,
    docs: r#"
## What it does
Says that a search stopped at its limit: 500,000 directories, or 32 levels.

## Why is this bad?
Skills beyond the limit were not checked, which must not look as if all were well.

## Bad
It depends on the disk, so there is no example.

## Good
It depends on the disk, so there is no example.
"#,
    check: RuleCheck::Reading,
};
