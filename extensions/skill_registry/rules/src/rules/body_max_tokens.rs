//! `body.maxTokens`: the body has more than about 5,000 tokens.

use skill_format::TokenCount;
use yaml_tree::Span;

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

pub(super) static RULE: Rule = Rule {
    id: "body.maxTokens",
    group: RuleGroup::Validation,
    extent: RuleExtent::Head,
    summary: "the body has more than about 5,000 tokens",
    levels: ProfileLevels {
        seed_strict: RuleLevel::Warning,
        ..ProfileLevels::uniform(RuleLevel::Off)
    },
    fixable: false,
    docs: r#"
## What it does
Estimates the tokens of the body: a quarter of its characters. `lint` reports the limit by the rule
`context-budget` instead.

## Why is this bad?
The complete body is loaded when the skill is used. The checklist of the formal specification
recommends fewer than 5,000 tokens.

## Bad
```markdown bead-counter/SKILL.md profile=seed-strict
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
---
{{Count the beads in the next jar, then in the one after that. *400}}
```

## Good
```markdown bead-counter/SKILL.md profile=seed-strict
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many there are.
---
Count the beads.
```
"#,
    check: RuleCheck::Skill(check),
};

/// The recommended maximum number of tokens (formal specification).
const MAX_TOKENS: u32 = 5_000;

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    let tokens = TokenCount::estimate(skill.body().trim()).get();
    if tokens > MAX_TOKENS {
        let at = Span { line: skill.body_line(), column: 0 };
        let message = format!("the body has about {tokens} tokens, more than {MAX_TOKENS}");
        findings.add(at, message, "move details into files under references/");
    }
}
