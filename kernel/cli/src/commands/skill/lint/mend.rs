//! What `--fix` makes of a file.

use std::borrow::Cow;

use skill_format::decode_file;
use skill_rules::{CheckOptions, CheckReport, Finding, SkillInput, apply_fixes, check_skill};

/// A mark that says nothing: UTF-8 has but one byte order.
const MARK: &[u8] = b"\xEF\xBB\xBF";

/// Returns the mended file and how many findings are gone; nothing if there is nothing to mend.
///
/// A byte order mark goes where a rule objects to it. A UTF-16 file is left alone: the edits of its
/// findings say nothing about its bytes.
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

/// How many findings there are that this mends.
fn count_fixable(report: &CheckReport) -> usize {
    let found = report.findings.iter();
    found.filter(|found| !found.edits.is_empty() || is_mark(found)).count()
}

fn is_mark(found: &Finding) -> bool {
    found.diagnostic.rule == "file.bom"
}
