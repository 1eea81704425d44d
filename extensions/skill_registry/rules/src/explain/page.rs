//! Rendering of the documentation of rules as Markdown.

use std::fmt::Write as _;

use skillhost_payload::OperatorCommand;

use super::{FencedBlock, InfoString, MarkdownPart, split_blocks};
use crate::profile::{Profile, RuleLevel};
use crate::rule::{Rule, RuleGroup};

/// Renders the page of a rule as Markdown.
#[must_use]
pub fn render_page(rule: &Rule) -> String {
    let mut page = format!("# {}\n", rule.id);
    write_rule(rule, "##", &mut page);
    page
}

/// Renders one document with a table per group and the pages of all rules.
#[must_use]
pub fn render_all_pages(rules: &[&Rule]) -> String {
    let (validate, lint) = (OperatorCommand::ValidateSkills, OperatorCommand::LintSkills);
    let show = OperatorCommand::ShowRule { rule: "RULE" };
    let mut text = format!(
        "# Rules\n\n\
        Generated from the rules; `UPDATE_DOCS=1 cargo test -p skill-rules` updates it.\n\n\
        `{validate}` runs the rules of the first group that read only the \
        frontmatter and the number of lines, and the rules that are errors in the profile. \
        `{lint}` runs all rules. `{show}` prints a page of \
        this document.\n\n\
        *Loading* is the way in which this program reads a skill: it keeps all that it can \
        read and reports the rest. *Readers* are all programs that read skills. In the \
        examples, `{{{{text*n}}}}` is the text n times.\n\n\
        A profile sets the level of each rule (`--profile`):\n\n\
        | profile | source |\n| --- | --- |\n"
    );
    for profile in Profile::ALL {
        let _ = writeln!(text, "| `{}` | {} |", profile.as_str(), profile.source());
    }
    for (group, title) in GROUPS {
        let _ = write!(
            text,
            "\n## {title}\n\n| rule | in `spec` | automatic fix | finding |\n| --- | --- | --- | --- |\n"
        );
        for rule in rules.iter().filter(|rule| rule.group == group) {
            let _ = writeln!(
                text,
                "| [`{}`](#{}) | {} | {} | {} |",
                rule.id,
                anchor(rule.id),
                rule.levels.spec.as_str(),
                if rule.fixable { "yes" } else { "" },
                rule.summary
            );
        }
    }
    for rule in rules {
        let _ = write!(text, "\n## {}\n", rule.id);
        write_rule(rule, "###", &mut text);
    }
    text
}

const GROUPS: [(RuleGroup, &str); 2] =
    [(RuleGroup::Validation, "Conformance"), (RuleGroup::Lint, "Quality")];

/// Returns the anchor of the heading of a rule.
fn anchor(id: &str) -> String {
    id.chars().filter(|c| *c != '.').map(|c| c.to_ascii_lowercase()).collect()
}

/// Writes the text below a rule's heading; inner headings start with `marks`.
fn write_rule(rule: &Rule, marks: &str, text: &mut String) {
    let mut summary = rule.summary.chars();
    let first = summary.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    let _ = write!(text, "\n{first}{}.\n\n", summary.as_str());
    let names: Vec<_> =
        Profile::ALL.iter().map(|profile| format!("`{}`", profile.as_str())).collect();
    let levels = Profile::ALL.map(|profile| rule.levels.level_for(profile).as_str());
    let _ = writeln!(text, "| {} |", names.join(" | "));
    let _ = writeln!(text, "|{}", " --- |".repeat(names.len()));
    let _ = writeln!(text, "| {} |", levels.join(" | "));
    if rule.levels.level_for(Profile::Lenient) == RuleLevel::Off
        && rule.group == RuleGroup::Validation
    {
        text.push_str("\nLoading does not check it.\n");
    }
    if rule.fixable {
        let (format, fix) = (OperatorCommand::FormatSkills, OperatorCommand::FixSkills);
        let _ = write!(text, "\n`{format}` or `{fix}` fixes it.\n");
    }
    text.push('\n');
    match split_blocks(rule.docs.trim_start()) {
        Ok(parts) => parts.into_iter().for_each(|part| write_part(part, marks, text)),
        // The tests exclude this case; an unformatted page is better than none.
        Err(_) => text.push_str(rule.docs),
    }
}

fn write_part(part: MarkdownPart<'_>, marks: &str, text: &mut String) {
    match part {
        MarkdownPart::Text(line) => match line.strip_prefix("## ") {
            Some(heading) => {
                // Headings of the documentation have level 2; the page may be part of a document.
                let _ = write!(text, "{marks} {heading}");
                text.push('\n');
            }
            None => text.push_str(line),
        },
        MarkdownPart::Block(block) => write_block(block, text),
    }
}

/// Writes a block with a preceding line that describes its info string.
fn write_block(FencedBlock { fence, info, content }: FencedBlock<'_>, text: &mut String) {
    // An ordinary block, such as one inside an explanation, stays as written.
    let Some(info) = InfoString::read(info) else {
        let _ = writeln!(text, "{fence}{info}\n{content}{fence}");
        return;
    };
    let _ = write!(text, "`{}/{}`", info.dir_name, info.path);
    if let Some(profile) = info.profile {
        let _ = write!(text, ", in profile `{}`", profile.as_str());
    }
    if let Some(encoding) = info.encoding {
        let _ = write!(text, ", saved as {encoding}");
    }
    if info.mode != 0o644 {
        let _ = write!(text, ", with mode {:o}", info.mode);
    }
    match info.link {
        Some(target) => {
            let _ = writeln!(text, ", a symbolic link to `{target}`");
        }
        None => {
            let _ = writeln!(text, ":\n\n{fence}{}\n{content}{fence}", info.language);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::ProfileLevels;
    use crate::rule::{RuleCheck, RuleExtent};

    const RULE: Rule = Rule {
        id: "a.bC",
        group: RuleGroup::Lint,
        extent: RuleExtent::Head,
        summary: "it is odd",
        levels: ProfileLevels { spec: RuleLevel::Note, ..ProfileLevels::uniform(RuleLevel::Off) },
        fixable: true,
        docs: "\n## What it does\nLooks.\n\n## Bad\n````text x/y profile=skillscraft mode=755\n## z\n```\n````\n```text x/l link=y\n```\n",
        check: RuleCheck::Loading,
    };

    const BELOW: &str = "\nIt is odd.\n\n\
        | `lenient` | `spec` | `reference` | `skillscraft` | `seed-strict` | `anthropic` |\n\
        | --- | --- | --- | --- | --- | --- |\n\
        | off | note | off | off | off | off |\n\n\
        `skillhost skill fmt` or `skillhost skill lint --fix` fixes it.\n\n\
        ## What it does\n\nLooks.\n\n## Bad\n\n\
        `x/y`, in profile `skillscraft`, with mode 755:\n\n````text\n## z\n```\n````\n\
        `x/l`, a symbolic link to `y`\n";

    #[test]
    fn page_describes_rule() {
        assert_eq!(render_page(&RULE), format!("# a.bC\n{BELOW}"));
    }

    #[test]
    fn document_has_group_tables() {
        let text = render_all_pages(&[&RULE]);
        let below = BELOW.replace("## ", "### ").replace("### z", "## z");
        assert!(text.ends_with(&format!(
            "## Quality\n\n| rule | in `spec` | automatic fix | finding |\n\
             | --- | --- | --- | --- |\n| [`a.bC`](#abc) | note | yes | it is odd |\n\n## a.bC\n{below}"
        )));
    }
}
