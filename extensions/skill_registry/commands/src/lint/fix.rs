//! The result of `--fix` for a file.

use std::borrow::Cow;

use skill_format::{SkillInput, decode_file};
use skill_rules::{CheckReport, Finding, RuleSet, SkillDocument, apply_fixes};

/// The UTF-8 byte order mark, which carries no information because UTF-8 has one byte order.
const MARK: &[u8] = b"\xEF\xBB\xBF";

/// Returns the fixed file and the number of resolved findings, or `None` without a fix.
///
/// A byte order mark is removed if a rule objects to it. A UTF-16 file is left unchanged: the edits
/// of its findings do not refer to its bytes.
pub(super) fn fix_file(input: &SkillInput<'_>, rules: &RuleSet) -> Option<(Vec<u8>, usize)> {
    let check =
        |input: &SkillInput<'_>| rules.check(&SkillDocument::new(input, rules.options().profile));
    let Cow::Borrowed(_) = decode_file(input.bytes).ok()?.text else { return None };
    let before = check(input);
    let keeps_mark = input.bytes.starts_with(MARK) && !before.findings.iter().any(is_mark);
    let fixed = apply_fixes(input, rules);
    let bytes = [if keeps_mark { MARK } else { &[] }, fixed.text.as_bytes()].concat();
    if bytes == input.bytes {
        return None;
    }
    let after = check(&SkillInput { bytes: &bytes, ..*input });
    Some((bytes, count_fixable(&before).saturating_sub(count_fixable(&after))))
}

/// Counts the findings that `--fix` resolves.
fn count_fixable(report: &CheckReport) -> usize {
    report.findings.iter().filter(|found| found.is_fixable()).count()
}

fn is_mark(found: &Finding) -> bool {
    found.diagnostic.rule == "file.bom"
}
