//! The rules for `name`.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

use yaml_tree::excerpt;

use crate::diagnostic::Diagnostic;

/// The maximum length of a name in characters (Agent Skills specification).
const MAX_CHARS: usize = 64;

/// Returns whether a name is valid by the Agent Skills specification: 1 to 64 characters `a`–`z`,
/// `0`–`9` and `-`, no hyphen at either end, no two hyphens in a row.
///
/// Such a name is always in NFKC. Both `^[a-z0-9]+(-[a-z0-9]+)*$` of the formal specification, with
/// its length of at most 64, and the regular expression of the SkillsCraft specification accept
/// exactly these names.
#[must_use]
pub fn is_valid_name(name: &str) -> bool {
    // Bytes equal characters here: every allowed character is ASCII.
    (1..=MAX_CHARS).contains(&name.len())
        && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        && !has_misplaced_hyphen(name)
}

fn has_misplaced_hyphen(name: &str) -> bool {
    name.starts_with('-') || name.ends_with('-') || name.contains("--")
}

/// Checks a name that is not blank against the specification and the directory's name.
pub(super) fn check_name(name: &str, dir_name: &str, mut report: impl FnMut(Diagnostic)) {
    // Nearly every name is correct, and this check needs no Unicode tables.
    if name == dir_name && is_valid_name(name) {
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
    if has_misplaced_hyphen(name) || !normal.chars().all(|c| c == '-' || is_letter_or_digit(c)) {
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
    use std::sync::LazyLock;

    use proptest::prelude::*;
    use regex::Regex;

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

    /// The characters of names, their neighbors in ASCII, and look-alikes.
    const ALPHABET: &str = "az09-`{/:AZ_. \n\t,\u{0}\u{e9}\u{df}\u{ff41}\u{2010}\u{660}\u{1f600}";

    /// The formal specification's regular expression and its limit.
    fn formal(name: &str) -> bool {
        static REGEX: LazyLock<Regex> =
            LazyLock::new(|| Regex::new("^[a-z0-9]+(-[a-z0-9]+)*$").unwrap());
        REGEX.is_match(name) && (1..=64).contains(&name.chars().count())
    }

    /// SkillsCraft's `^[a-z0-9](?:[a-z0-9]|-(?=[a-z0-9])){0,62}[a-z0-9]?$`, step by step: the
    /// regex crate has no look-ahead.
    fn skillscraft(name: &str) -> bool {
        let chars: Vec<char> = name.chars().collect();
        let word =
            |at: usize| chars.get(at).is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        let repeated = |at: usize| word(at) || (chars.get(at) == Some(&'-') && word(at + 1));
        let ends = |at: usize| at == chars.len() || (word(at) && at + 1 == chars.len());
        word(0) && (0..=62).any(|times| (1..=times).all(repeated) && ends(times + 1))
    }

    fn assert_same_verdict(name: &str) {
        let valid = is_valid_name(name);
        assert_eq!((formal(name), skillscraft(name)), (valid, valid), "{name:?}");
    }

    #[test]
    fn short_names_match_regexes() {
        let mut valid = 0;
        assert_same_verdict("");
        for first in ALPHABET.chars() {
            assert_same_verdict(&String::from(first));
            for second in ALPHABET.chars() {
                assert_same_verdict(&String::from_iter([first, second]));
                for third in ALPHABET.chars() {
                    let name = String::from_iter([first, second, third]);
                    assert_same_verdict(&name);
                    valid += usize::from(is_valid_name(&name));
                }
            }
        }
        // Four characters are allowed at the ends, five in the middle.
        assert_eq!(valid, 4 * 5 * 4);
    }

    #[test]
    fn name_has_at_most_64_characters() {
        for (length, fits) in [(0, false), (1, true), (63, true), (64, true), (65, false)] {
            let name = "a".repeat(length);
            assert_same_verdict(&name);
            assert_eq!(is_valid_name(&name), fits, "{length}");
        }
        for length in 62..=66 {
            for hyphen in 0..length {
                for other in [None, Some(hyphen + 1), Some(hyphen + 2)] {
                    let at = |n| if n == hyphen || Some(n) == other { '-' } else { 'a' };
                    assert_same_verdict(&(0..length).map(at).collect::<String>());
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn random_names_match_regexes(
            name in "[a-z0-9-]{0,70}|[a-z0-9]{1,4}(-[a-z0-9]{1,9}){0,8}-?|.{0,5}|[a-z0-9-]{1,64}\\PC",
        ) {
            assert_same_verdict(&name);
        }
    }
}
