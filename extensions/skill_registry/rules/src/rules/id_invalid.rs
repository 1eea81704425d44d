//! `id.invalid`: the directory's name cannot be the id of a skill.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "id.invalid",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "the directory's name cannot be the id of a skill",
    levels: ProfileLevels::uniform(RuleLevel::Error),
    fixable: false,
    docs: r#"
## What it does
Reports directories whose name is not UTF-8, is longer than 128 bytes, or has control characters,
characters that change the direction of writing, or backticks.

## Why is this bad?
The directory's name is the skill's id. It is printed, compared and inserted into prompts.

## Bad
There is no example, because the rule depends on the disk.

## Good
There is no example, because the rule depends on the disk.
"#,
    check: RuleCheck::Reading,
};
