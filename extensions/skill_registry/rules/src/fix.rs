//! Application of the edits of findings.

use skill_format::{SkillInput, find_fences, tree};
use yaml_tree::Value;

use crate::check_report::CheckReport;
use crate::rule::TextEdit;
use crate::rule_set::RuleSet;

/// The maximum number of check-and-fix rounds for one text.
const MAX_ROUNDS: usize = 8;

/// Applies edits to the text they were made for.
///
/// Of overlapping edits, the one that starts first wins; of two with the same start, the first of
/// the list. Edits outside the text are skipped.
#[must_use]
pub(crate) fn apply_edits(text: &str, edits: &[TextEdit]) -> String {
    let mut sorted: Vec<&TextEdit> = edits.iter().collect();
    // The sort is stable, which decides between edits with the same start.
    sorted.sort_by_key(|edit| edit.range.start);
    let mut fixed = String::with_capacity(text.len());
    let mut done = 0;
    for edit in sorted {
        let range = &edit.range;
        // `get` also rejects ranges that split a character.
        let fits = range.start >= done && text.get(range.clone()).is_some();
        if fits {
            fixed.push_str(&text[done..range.start]);
            fixed.push_str(&edit.replacement);
            done = range.end;
        }
    }
    fixed.push_str(&text[done..]);
    fixed
}

/// A skill after its fixable findings were fixed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixOutcome {
    /// The text of the file, without a byte order mark.
    pub text: String,
    /// The number of applied edits.
    pub edits: usize,
    /// The remaining findings.
    pub report: CheckReport,
}

/// Applies the fixes of a skill in rounds, until no fixable finding remains.
///
/// The meaning of the frontmatter never changes: a round of edits that would change it is
/// discarded. Files that are not UTF-8 stay unchanged.
#[must_use]
pub fn apply_fixes(input: &SkillInput<'_>, rules: &RuleSet) -> FixOutcome {
    let mut report = rules.check_input(input);
    let Ok(decoded) = skill_format::decode_file(input.bytes) else {
        let text = String::from_utf8_lossy(input.bytes).into_owned();
        return FixOutcome { text, edits: 0, report };
    };
    let mut text = decoded.text.into_owned();
    let mut count = 0;
    // A fix can enable another one; the bound guards against rules that undo each other.
    for _ in 0..MAX_ROUNDS {
        let found = report.findings.iter().flat_map(|finding| finding.edits.clone());
        let edits: Vec<TextEdit> = found.collect();
        let fixed = apply_edits(&text, &edits);
        if fixed == text || !has_same_frontmatter(&text, &fixed) {
            break;
        }
        count += edits.len();
        text = fixed;
        report = rules.check_input(&SkillInput { bytes: text.as_bytes(), ..*input });
    }
    FixOutcome { text, edits: count, report }
}

fn has_same_frontmatter(before: &str, after: &str) -> bool {
    let root = |text: &str| {
        let fences = find_fences(text)?;
        Some(tree::parse_frontmatter(&text[fences.yaml], fences.open_line + 1).root)
    };
    match (root(before), root(after)) {
        (Some(Value::Mapping(before)), Some(Value::Mapping(after))) => before.same_content(&after),
        // Without a map on both sides there is no meaning to compare, so that any change counts.
        (before, after) => before.is_none() && after.is_none(),
    }
}

#[cfg(test)]
mod tests;
