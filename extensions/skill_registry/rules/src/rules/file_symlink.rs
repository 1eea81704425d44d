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
Reports symbolic links where a SKILL.md or a skill's directory is looked for. They are not followed,
except in the path that is named on the command line.

## Why is this bad?
A link can lead anywhere: out of a repository, or back to where the search began.

## Bad
It depends on the disk, so there is no example.

## Good
It depends on the disk, so there is no example.
"#,
    check: RuleCheck::Reading,
};
