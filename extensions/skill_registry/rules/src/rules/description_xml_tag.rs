//! `description.xmlTag`: the description contains an XML tag.

use crate::profile::{Profile, ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup};
use crate::skill_document::SkillDocument;

pub(super) static RULE: Rule = Rule {
    id: "description.xmlTag",
    group: RuleGroup::Validation,
    extent: RuleExtent::Head,
    summary: "the description contains an XML tag",
    levels: ProfileLevels {
        spec: RuleLevel::Warning,
        skillscraft: RuleLevel::Warning,
        anthropic: RuleLevel::Error,
        ..ProfileLevels::uniform(RuleLevel::Off)
    },
    fixable: false,
    docs: r#"
## What it does
Searches for XML tags. `anthropic` reports every angle bracket, as the validator of Anthropic's
skill creator does.

## Why is this bad?
Descriptions are inserted into prompts made of XML. A tag can end the surrounding element, so
Anthropic's products reject such a skill.

## Bad
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts <b>beads</b>. Use when the user asks how many there are.
---
Count the beads.
```

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads, if there are < 100. Use when asked.
---
Count the beads.
```
"#,
    check: RuleCheck::Skill(check),
};

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    let Some(frontmatter) = skill.frontmatter() else { return };
    let text = frontmatter.description.as_str();
    let help = "write it without angle brackets";
    if let Some(tag) = find_tag(text) {
        let tag: String = tag.chars().take(40).collect();
        let message = format!("the description contains the tag `{tag}`");
        findings.add(skill.field_span("description"), message, help);
    // Anthropic's validator rejects every angle bracket, even in a comparison.
    } else if skill.profile() == Profile::Anthropic && text.contains(['<', '>']) {
        let message = "the description contains an angle bracket";
        findings.add(skill.field_span("description"), message, help);
    }
}

/// Returns the first tag: `<`, an optional `/`, a letter, then any text up to `>`.
fn find_tag(text: &str) -> Option<&str> {
    let mut rest = text;
    loop {
        rest = &rest[rest.find('<')?..];
        let name = rest[1..].trim_start_matches('/');
        if name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            let end = rest[1..].find(['<', '>']).map(|at| at + 1);
            match end {
                Some(end) if rest[end..].starts_with('>') => return Some(&rest[..=end]),
                // Another `<` comes first: the tag can only start there.
                Some(_) => {}
                None => return None,
            }
        }
        rest = &rest[1..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::found;

    #[test]
    fn comparison_is_not_a_tag() {
        assert_eq!(find_tag("a <b>c</b>"), Some("<b>"));
        assert_eq!(find_tag("x < y </system> z"), Some("</system>"));
        assert_eq!(find_tag("<a <img src='x'/> b"), Some("<img src='x'/>"));
        for text in ["", "a < b > c", "x <- y -> z", "<3 beads>", "List<", "<<<<a"] {
            assert_eq!(find_tag(text), None, "{text}");
        }
        assert_eq!(find_tag(&"<a".repeat(100_000)), None);
    }

    #[test]
    fn anthropic_rejects_angle_brackets() {
        let fields = "name: x\ndescription: a -> b";
        assert_eq!(found("x", fields, Profile::Anthropic), ["description.xmlTag"]);
        assert_eq!(found("x", fields, Profile::Spec), [""; 0]);
    }
}
