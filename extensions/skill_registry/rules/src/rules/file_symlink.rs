//! `file.symlink`: a SKILL.md or a path on the way to it is a symbolic link.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{Rule, RuleCheck, RuleExtent, RuleGroup};

pub(super) static RULE: Rule = Rule {
    id: "file.symlink",
    group: RuleGroup::Validation,
    reach: RuleExtent::Head,
    summary: "a SKILL.md or a path on the way to it is a symbolic link",
    levels: ProfileLevels::uniform(RuleLevel::Error),
    fixable: false,
    docs: r#"
## What it does
Reports symbolic links at the path of a SKILL.md or of a skill's directory. They are not followed,
except in the path given on the command line.

## Why is this bad?
A link can lead anywhere: out of a repository, or back to the start of the search.

## Bad
There is no example, because the rule depends on the disk.

## Good
There is no example, because the rule depends on the disk.
"#,
    check: RuleCheck::Reading,
};
