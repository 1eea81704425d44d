//! The rules for `name`.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

use yaml_tree::excerpt;

use crate::diagnostic::Diagnostic;

/// The maximum length of a name in characters (Agent Skills specification).
const MAX_CHARS: usize = 64;

/// Checks a name that is not blank against the specification and the directory's name.
pub(super) fn check_name(name: &str, dir_name: &str, mut report: impl FnMut(Diagnostic)) {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let hyphens = name.starts_with('-') || name.ends_with('-') || name.contains("--");
    // Nearly every name is correct, and these checks need no Unicode tables.
    if name == dir_name && name.len() <= MAX_CHARS && name.bytes().all(plain) && !hyphens {
        return;
    }
    let quoted = excerpt(name);
    let normal = normalize_name(name);
    if normal != normalize_name(dir_name) {
        report(
            Diagnostic::warning(
                "name.matchesDirectory",
                format!("the name `{quoted}` is not the directory's name `{}`", excerpt(dir_name)),
            )
            .with_help("the directory's name is the skill's id; rename one of the two"),
        );
    }
    let length = normal.chars().count();
    if length > MAX_CHARS {
        report(
            Diagnostic::warning(
                "name.maxLength",
                format!("the name has {length} characters, more than {MAX_CHARS}"),
            )
            .with_help("shorten it; other readers refuse the file"),
        );
    }
    if hyphens || !normal.chars().all(|c| c == '-' || is_letter_or_digit(c)) {
        report(
            Diagnostic::warning(
                "name.format",
                format!("the name `{quoted}` is not lower-case letters, digits and single hyphens"),
            )
            .with_help("rename the skill; other readers refuse the file"),
        );
    } else if !name.is_ascii() {
        report(
            Diagnostic::warning(
                "name.portability",
                format!("the name `{quoted}` has characters outside ASCII"),
            )
            .with_help("some readers accept only a-z, 0-9 and hyphens"),
        );
    }
}

fn normalize_name(name: &str) -> Cow<'_, str> {
    // File systems differ in normalization, so names are compared in NFKC.
    if name.is_ascii() { Cow::Borrowed(name) } else { Cow::Owned(name.nfkc().collect()) }
}

/// Returns whether the reference validator accepts the character as a lower-case letter or digit.
fn is_letter_or_digit(c: char) -> bool {
    let group = c.general_category_group();
    let word = matches!(group, GeneralCategoryGroup::Letter | GeneralCategoryGroup::Number);
    word && c.to_lowercase().eq([c])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(name: &str, dir_name: &str) -> Vec<&'static str> {
        let mut rules = Vec::new();
        check_name(name, dir_name, |found| rules.push(found.rule));
        rules
    }

    #[test]
    fn names_follow_specification() {
        let long = "x".repeat(65);
        let cases: [(&str, &[&str]); 15] = [
            ("code-review", &[]),
            ("7zip", &[]),
            (&long[1..], &[]),
            (&long, &["name.maxLength"]),
            ("Upper", &["name.format"]),
            ("under_score", &["name.format"]),
            ("-lead", &["name.format"]),
            ("trail-", &["name.format"]),
            ("two--hyphens", &["name.format"]),
            ("with space", &["name.format"]),
            ("dotted.name", &["name.format"]),
            ("naïve", &["name.portability"]),
            ("技能", &["name.portability"]),
            ("ÉTÉ", &["name.format"]),
            ("a\u{200D}b", &["name.format"]),
        ];
        for (name, expected) in cases {
            assert_eq!(rules(name, name), expected, "{name}");
        }
    }

    #[test]
    fn directory_name_is_compared_normalized() {
        assert_eq!(rules("naïve", "nai\u{308}ve"), ["name.portability"]);
        assert_eq!(rules("123", "num-name"), ["name.matchesDirectory"]);
        assert_eq!(rules("Review", "review"), ["name.matchesDirectory", "name.format"]);
    }
}
