//! Comments that suppress findings: `# skillhost: allow(rule)` in the frontmatter and
//! `<!-- skillhost: allow(rule) -->` in the body.
//!
//! A comment in the frontmatter, on a line of its own or after a value, applies to the whole file.
//! A comment in the body applies to the next block if it has lines of its own, else to its line.
//! Errors are never suppressed. An unused suppression is itself a finding.

use std::ops::Range;

use skill_format::{Severity, find_fences, tree};
use skillhost_payload::OperatorCommand;
use yaml_tree::{Scalar, Span, Value, YamlStyle};

use crate::rule::{Finding, FindingSink, RuleCheck};
use crate::rule_set::RuleSet;
use crate::rules::{RULES, find_rule, suppression_unknown, suppression_unused};
use crate::skill_document::SkillDocument;

const START: &str = "skillhost: allow(";

/// The maximum number of comments read in a frontmatter: each one costs another parse.
const MAX_COMMENTS: usize = 50;

/// The maximum number of suppressions in one body.
const MAX_SUPPRESSIONS: usize = 1_000;

/// A rule that a comment names.
#[derive(Debug)]
struct Suppression {
    rule: String,
    /// The offset of the rule's name in the text.
    at: usize,
    /// The lines that it applies to; `None` for the whole file.
    lines: Option<Range<u32>>,
    used: bool,
    /// Whether a finding was kept because it is an error.
    hit_error: bool,
}

/// Removes suppressed findings and returns them; reports suppressions that are unused or name no
/// rule.
pub(crate) fn apply_suppressions(
    skill: &SkillDocument<'_>,
    rules: &RuleSet,
    findings: &mut Vec<Finding>,
) -> Vec<Finding> {
    // Most files have no suppression; the search spares them the Markdown pass.
    if !skill.text().contains(START) {
        return Vec::new();
    }
    let mut suppressions = frontmatter_suppressions(skill);
    collect_body_suppressions(skill, &mut suppressions);
    let suppressed = findings.extract_if(.., |finding| {
        let found = &finding.diagnostic;
        let mut kept = true;
        // Every suppression is visited, so that two for the same finding both count as used.
        for suppression in &mut suppressions {
            let here = suppression.lines.as_ref().is_none_or(|lines| lines.contains(&found.line));
            if here && suppression.rule == found.rule {
                let is_error = found.severity == Severity::Error;
                suppression.hit_error |= is_error;
                suppression.used |= !is_error;
                kept &= is_error;
            }
        }
        !kept
    });
    let suppressed = suppressed.collect();
    for suppression in suppressions {
        report_suppression(skill, rules, &suppression, findings);
    }
    suppressed
}

/// Returns the ids of the rules that the frontmatter suppresses for the whole file.
pub(crate) fn file_wide_suppressions(skill: &SkillDocument<'_>) -> Vec<String> {
    frontmatter_suppressions(skill).into_iter().map(|suppression| suppression.rule).collect()
}

fn report_suppression(
    skill: &SkillDocument<'_>,
    rules: &RuleSet,
    suppression: &Suppression,
    findings: &mut Vec<Finding>,
) {
    let id = &*suppression.rule;
    let position = skill.span_at(suppression.at);
    let known = find_rule(id);
    let (reporter, message, help) = match known {
        None => {
            let near = nearest_rule(id).map(|id| format!("did you mean `{id}`?"));
            let help =
                near.unwrap_or_else(|| format!("`{}` lists them", OperatorCommand::ListRules));
            (&suppression_unknown::RULE, format!("there is no rule `{id}`"), help)
        }
        // A catalog rule runs after this check, so its suppressions cannot be judged here.
        Some(rule) if suppression.used || matches!(rule.check, RuleCheck::Catalog) => return,
        // A rule that the check does not run cannot use it.
        Some(rule) if rules.severity(rule.id).is_none() => return,
        Some(_) if suppression.hit_error => (
            &suppression_unused::RULE,
            format!("`{id}` is an error here, and errors cannot be suppressed"),
            "fix the finding, then remove the suppression".to_owned(),
        ),
        Some(_) => (
            &suppression_unused::RULE,
            format!("nothing here is suppressed by `{id}`"),
            "remove it".to_owned(),
        ),
    };
    if let Some(severity) = rules.severity(reporter.id) {
        FindingSink::new(reporter, severity, findings).add(position, message, help);
    }
}

fn nearest_rule(id: &str) -> Option<&'static str> {
    // Authors often get the case of ids such as `name.maxLength` wrong.
    let lower = id.to_lowercase();
    let scored =
        RULES.iter().map(|rule| (strsim::jaro_winkler(&lower, &rule.id.to_lowercase()), rule.id));
    let best = scored.max_by(|left, right| left.0.total_cmp(&right.0))?;
    (best.0 > 0.8).then_some(best.1)
}

/// Collects the suppressions in comments of the frontmatter.
fn frontmatter_suppressions(skill: &SkillDocument<'_>) -> Vec<Suppression> {
    let text = skill.text();
    let Some(fences) = find_fences(text) else { return Vec::new() };
    let yaml = &text[fences.yaml.clone()];
    if !yaml.contains(START) {
        return Vec::new();
    }
    let mut suppressions = Vec::new();
    let mut start = fences.yaml.start;
    let mut tried = 0;
    for line in yaml.split_inclusive('\n') {
        for (at, _) in line.match_indices('#') {
            let comment = line[at + 1..].trim_start();
            // YAML starts a comment only at the start of a line or after a blank.
            let is_start = line[..at].is_empty() || line[..at].ends_with([' ', '\t']);
            if !is_start || !comment.starts_with(START) || tried == MAX_COMMENTS {
                continue;
            }
            tried += 1;
            if is_comment(skill, line, at, yaml, &fences) {
                let open = start + line.len() - comment.len();
                parse_rule_list(text, open, None, &mut suppressions);
                break;
            }
        }
        start += line.len();
    }
    suppressions
}

/// Returns `true` if a `#` starts a comment: without the text after it, the tree is the same.
fn is_comment(
    skill: &SkillDocument<'_>,
    line: &str,
    at: usize,
    yaml: &str,
    fences: &skill_format::FrontmatterFences,
) -> bool {
    let Some(before) = skill.tree() else { return true };
    // `line` is a slice of `yaml`, so the pointers give its offset.
    let offset = line.as_ptr() as usize - yaml.as_ptr() as usize;
    let content = line.trim_end_matches(['\n', '\r']).len();
    let without = format!("{}{}", &yaml[..offset + at], &yaml[offset + content..]);
    match tree::parse_frontmatter(&without, fences.open_line + 1).root {
        Value::Mapping(after) => before.same_content(&after),
        Value::Scalar(Scalar { text, style: YamlStyle::Plain, .. }) => {
            // A frontmatter of only a comment parses as an empty scalar.
            before.entries.is_empty() && text.is_empty()
        }
        Value::Scalar(_) | Value::Sequence(_) => false,
    }
}

fn collect_body_suppressions(skill: &SkillDocument<'_>, suppressions: &mut Vec<Suppression>) {
    let text = skill.text();
    let markdown = skill.markdown();
    let mut done = 0;
    for range in &markdown.html {
        for (at, _) in text[range.clone()].match_indices("<!--") {
            let open = range.start + at;
            let comment = text[open + 4..].trim_start();
            // Inline HTML inside an HTML block is listed twice.
            if open < done || !comment.starts_with(START) || suppressions.len() >= MAX_SUPPRESSIONS
            {
                continue;
            }
            let start = text.len() - comment.len();
            let end = comment.find("-->").map_or(text.len(), |end| start + end + 3);
            done = end;
            let alone = is_alone(text, open, end);
            let lines = if alone {
                // Blocks are sorted by start; the first one after the comment is meant.
                let next = markdown.blocks.partition_point(|block| block.start < end);
                markdown.blocks.get(next).map_or(0..0, |block| line_range(skill, block))
            } else {
                line_range(skill, &(open..end))
            };
            parse_rule_list(text, start, Some(&lines), suppressions);
        }
    }
}

/// Returns `true` if a comment shares its lines only with blanks and quote markers.
fn is_alone(text: &str, open: usize, end: usize) -> bool {
    let before = text[..open].trim_end_matches([' ', '\t', '>']);
    let after = text[end..].trim_start_matches([' ', '\t', '\r']);
    before.ends_with('\n') && (after.is_empty() || after.starts_with('\n'))
}

fn line_range(skill: &SkillDocument<'_>, range: &Range<usize>) -> Range<u32> {
    // Block ranges include the blank lines after the block.
    let content = skill.text()[range.clone()].trim_end().len();
    let Span { line: first, .. } = skill.span_at(range.start);
    let last = skill.span_at(range.start + content.saturating_sub(1));
    first..last.line.saturating_add(1)
}

/// Parses the names between the parentheses; `start` is the offset of `skillhost: allow(`.
fn parse_rule_list(
    text: &str,
    start: usize,
    lines: Option<&Range<u32>>,
    suppressions: &mut Vec<Suppression>,
) {
    let start = start + START.len();
    let list = text[start..].split([')', '\n']).next().unwrap_or_default();
    let mut at = start;
    for name in list.split(',') {
        let rule = name.trim();
        if !rule.is_empty() {
            let at = at + (name.len() - name.trim_start().len());
            let (rule, lines) = (rule.to_owned(), lines.cloned());
            suppressions.push(Suppression { rule, at, lines, used: false, hit_error: false });
        }
        at += name.len() + 1;
    }
}
