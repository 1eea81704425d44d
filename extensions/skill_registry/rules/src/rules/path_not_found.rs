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
Reports a path of the command line that leads nowhere.

## Why is this bad?
Nothing was checked, which must not look as if all were well.

## Bad
It depends on the disk, so there is no example.

## Good
It depends on the disk, so there is no example.
"#,
    check: RuleCheck::Reading,
};
