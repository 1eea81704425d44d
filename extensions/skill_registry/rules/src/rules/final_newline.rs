//! `final-newline`: a file whose last line has no line end.

use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup, TextEdit};
use crate::skill_document::SkillDocument;

pub(super) static RULE: Rule = Rule {
    id: "final-newline",
    group: RuleGroup::Lint,
    extent: RuleExtent::Body,
    summary: "the last line has no line end",
    levels: ProfileLevels::uniform(RuleLevel::Note),
    fixable: true,
    docs: r"
## What it does
Reports a SKILL.md that ends without a line end.

## Why is this bad?
Tools that concatenate files join the next text to the last line, and every change at the end of the
file shows that line as changed, too.

## Bad
A file without a final line end cannot be shown as an example.

## Good
```markdown bead-counter/SKILL.md
---
name: bead-counter
description: Counts beads in a jar. Use when the user asks how many beads there are.
---
Count the beads.
```
",
    check: RuleCheck::Skill(check),
};

fn check(skill: &SkillDocument<'_>, findings: &mut FindingSink<'_>) {
    let text = skill.text();
    if skill.frontmatter().is_none() || text.ends_with('\n') {
        return;
    }
    let end = text.len();
    // The edit must not mix line ends in one file.
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let edit = TextEdit { range: end..end, replacement: newline.to_owned() };
    findings.add_fixable(
        skill.span_at(end),
        "the last line has no line end",
        "end the file with one",
        vec![edit],
    );
}

#[cfg(test)]
mod tests {
    use skill_format::SkillInput;

    use crate::{CheckOptions, CheckScope, TextEdit, check_skill};

    #[test]
    fn missing_line_end_is_added() {
        let edits = |text: &str| -> Vec<TextEdit> {
            let bytes = text.as_bytes();
            let input =
                SkillInput { dir_name: "x", file_name: Some("SKILL.md"), bytes, files: None };
            let report = check_skill(
                &input,
                CheckOptions { scope: CheckScope::Lint, ..CheckOptions::default() },
            );
            let of_rule = report.findings.into_iter();
            let of_rule = of_rule.filter(|found| found.diagnostic.rule == super::RULE.id);
            of_rule.flat_map(|found| found.edits).collect()
        };
        let text = "---\nname: x\ndescription: y\n---\nDo it.";
        let end = text.len();
        let edit = TextEdit { range: end..end, replacement: "\n".to_owned() };
        assert_eq!(edits(text), [edit]);
        assert_eq!(edits(&format!("{text}\n")), []);
        let windows = text.replace('\n', "\r\n");
        let replacements: Vec<_> = edits(&windows).into_iter().map(|it| it.replacement).collect();
        assert_eq!(replacements, ["\r\n"]);
    }
}
