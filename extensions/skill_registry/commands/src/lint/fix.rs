//! The result of `--fix` for a file.

use std::borrow::Cow;

use skill_format::{SkillInput, decode_file};
use skill_rules::{CheckOptions, CheckReport, Finding, apply_fixes, check_skill};

/// The UTF-8 byte order mark, which carries no information because UTF-8 has one byte order.
const MARK: &[u8] = b"\xEF\xBB\xBF";

/// Returns the fixed file and the number of resolved findings, or `None` without a fix.
///
/// A byte order mark is removed if a rule objects to it. A UTF-16 file is left unchanged: the edits
/// of its findings do not refer to its bytes.
pub(super) fn fix_file(input: &SkillInput<'_>, options: CheckOptions) -> Option<(Vec<u8>, usize)> {
    let Cow::Borrowed(_) = decode_file(input.bytes).ok()?.text else { return None };
    let before = check_skill(input, options);
    let keeps_mark = input.bytes.starts_with(MARK) && !before.findings.iter().any(is_mark);
    let fixed = apply_fixes(input, options);
    let bytes = [if keeps_mark { MARK } else { &[] }, fixed.text.as_bytes()].concat();
    if bytes == input.bytes {
        return None;
    }
    let after = check_skill(&SkillInput { bytes: &bytes, ..*input }, options);
    Some((bytes, count_fixable(&before).saturating_sub(count_fixable(&after))))
}

/// Counts the findings that `--fix` resolves.
fn count_fixable(report: &CheckReport) -> usize {
    let found = report.findings.iter();
    found.filter(|found| !found.edits.is_empty() || is_mark(found)).count()
}

fn is_mark(found: &Finding) -> bool {
    found.diagnostic.rule == "file.bom"
}
