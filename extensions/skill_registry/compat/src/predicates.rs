//! The predicates of the formal specification (part 12), one function each.
//!
//! They define validity alone, without severity, message or position. Lengths are in characters.
//! Advisory limits of the specification (tokens of a body, names of directories, depth of
//! references) do not affect validity.

use skill_format::{EntryKind, FileEntry, TokenCount};

/// The maximum length of a name.
pub const MAX_NAME: usize = 64;
/// The maximum length of a description.
pub const MAX_DESCRIPTION: usize = 1_024;
/// The maximum length of `compatibility`.
pub const MAX_COMPATIBILITY: usize = 500;
/// The maximum number of lines of a body.
const MAX_BODY_LINES: usize = 500;
/// The maximum number of tokens of level 1: name and description, four characters per token.
const MAX_METADATA_TOKENS: u32 = 100;
/// The maximum length of a resource path.
const MAX_RESOURCE_PATH: usize = 1_024;

/// The frontmatter as the formal specification models it: texts and unknown keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FormalFrontmatter<'a> {
    /// The `name`.
    pub name: &'a str,
    /// The `description`.
    pub description: &'a str,
    /// The `compatibility`, if there is one.
    pub compatibility: Option<&'a str>,
    /// The keys and values of `metadata`, repeated keys included.
    pub metadata: &'a [(String, String)],
    /// The fields other than `name`, `description`, `license`, `compatibility`, `metadata` and
    /// `allowed-tools`.
    pub unknown: &'a [&'a str],
}

/// A skill as the formal specification models it.
#[derive(Clone, Copy, Debug)]
pub struct FormalSkill<'a> {
    /// The name of its directory.
    pub dir_name: &'a str,
    /// All entries of its directory, with paths relative to it.
    pub entries: &'a [FileEntry],
    /// Its frontmatter.
    pub frontmatter: FormalFrontmatter<'a>,
    /// Its body.
    pub body: &'a str,
}

/// Implements `IsValidSkillName`: 1 to 64 characters `a`–`z`, `0`–`9` and `-`, no hyphen at either
/// end, no two hyphens in a row.
///
/// Such a name is always in NFKC. Both `^[a-z0-9]+(-[a-z0-9]+)*$` of the formal specification, with
/// its length of at most 64, and the regular expression of the SkillsCraft specification reference
/// accept exactly these names.
#[must_use]
pub fn is_valid_name(name: &str) -> bool {
    // Bytes equal characters here: every allowed character is ASCII.
    (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--")
}

/// Implements `IsValidDescription`: 1 to 1,024 characters.
#[must_use]
pub fn is_valid_description(description: &str) -> bool {
    has_length(description, 1, MAX_DESCRIPTION)
}

/// Implements `IsValidFrontmatter`: a valid name and description, a `compatibility` of at most 500
/// characters, no empty or repeated key of `metadata`, and no field other than the six.
#[must_use]
pub fn is_valid_frontmatter(frontmatter: &FormalFrontmatter<'_>) -> bool {
    let keys = frontmatter.metadata.iter().map(|(key, _)| key.as_str());
    let mut distinct: Vec<&str> = keys.collect();
    distinct.sort_unstable();
    distinct.dedup();
    is_valid_name(frontmatter.name)
        && is_valid_description(frontmatter.description)
        && frontmatter.compatibility.is_none_or(|text| has_length(text, 0, MAX_COMPATIBILITY))
        && distinct.len() == frontmatter.metadata.len()
        && !distinct.contains(&"")
        && frontmatter.unknown.is_empty()
}

/// Implements `IsValidSkillDirectory`: the directory has a name and a file `SKILL.md` or
/// `skill.md`.
#[must_use]
pub fn is_valid_directory(dir_name: &str, entries: &[FileEntry]) -> bool {
    let is_skill = |entry: &FileEntry| {
        entry.kind == EntryKind::File && matches!(entry.path.as_str(), "SKILL.md" | "skill.md")
    };
    !dir_name.is_empty() && entries.iter().any(is_skill)
}

/// Implements `IsValidLevel1`: a valid name and description of at most about 100 tokens.
///
/// Part 4 has "~100 tokens" for level 1 and part 1 allows a description of 1,024 characters, which
/// are 256 tokens; so a skill can be valid as a whole and not at this level.
#[must_use]
pub fn is_valid_level_1(name: &str, description: &str) -> bool {
    let tokens = TokenCount::from_chars(name.chars().count() + description.chars().count());
    is_valid_name(name) && is_valid_description(description) && tokens.get() <= MAX_METADATA_TOKENS
}

/// Implements `IsValidLevel2`: a body of at most 500 lines. A final line break starts no line.
#[must_use]
pub fn is_valid_level_2(body: &str) -> bool {
    body.lines().count() <= MAX_BODY_LINES
}

/// Implements `IsValidLevel3`: every resource path stays in the skill's directory: not empty, at
/// most 1,024 characters, relative, no component `..`.
#[must_use]
pub fn is_valid_level_3<'a>(paths: impl IntoIterator<Item = &'a str>) -> bool {
    paths.into_iter().all(|path| {
        has_length(path, 1, MAX_RESOURCE_PATH)
            // Backslashes count as separators, because the skill may be used on Windows.
            && !path.starts_with(['/', '\\'])
            && !path.split(['/', '\\']).any(|component| component == "..")
    })
}

/// Implements `IsValidCompleteSkill`: directory, frontmatter, body and resources are valid, and the
/// name equals the directory's name.
#[must_use]
pub fn is_valid_complete_skill(skill: &FormalSkill<'_>) -> bool {
    is_valid_directory(skill.dir_name, skill.entries)
        && is_valid_frontmatter(&skill.frontmatter)
        && skill.frontmatter.name == skill.dir_name
        && is_valid_level_2(skill.body)
        && is_valid_level_3(skill.entries.iter().map(|entry| entry.path.as_str()))
}

fn has_length(text: &str, least: usize, most: usize) -> bool {
    (least..=most).contains(&text.chars().count())
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

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

    #[test]
    fn lengths_count_characters() {
        let text = |c: char, length: usize| String::from(c).repeat(length);
        for c in ['a', '\u{e9}', '\u{1f600}', ' ', '\n'] {
            for (length, fits) in [(0, false), (1, true), (1023, true), (1024, true), (1025, false)]
            {
                assert_eq!(is_valid_description(&text(c, length)), fits, "{c:?} {length}");
            }
            for (length, fits) in [(0, true), (1, true), (499, true), (500, true), (501, false)] {
                let compatibility = text(c, length);
                let frontmatter =
                    FormalFrontmatter { compatibility: Some(&compatibility), ..frontmatter() };
                assert_eq!(is_valid_frontmatter(&frontmatter), fits, "{c:?} {length}");
            }
        }
    }

    fn frontmatter() -> FormalFrontmatter<'static> {
        FormalFrontmatter { name: "pdf", description: "Reads PDF.", ..FormalFrontmatter::default() }
    }

    #[test]
    fn frontmatter_requires_valid_parts() {
        let pair = |key: &str| (key.to_owned(), "x".to_owned());
        let with = |change: &dyn Fn(&mut FormalFrontmatter<'static>)| {
            let mut changed = frontmatter();
            change(&mut changed);
            is_valid_frontmatter(&changed)
        };
        let once: &[_] = Box::leak(Box::new([pair("a"), pair("b"), pair("A")]));
        let twice: &[_] = Box::leak(Box::new([pair("a"), pair("b"), pair("a")]));
        let blank: &[_] = Box::leak(Box::new([pair("")]));
        assert!(with(&|_| {}));
        assert!(with(&|it| it.metadata = once));
        assert!(!with(&|it| it.metadata = twice));
        assert!(!with(&|it| it.metadata = blank));
        assert!(!with(&|it| it.name = "PDF"));
        assert!(!with(&|it| it.description = ""));
        assert!(!with(&|it| it.unknown = &["tags"]));
    }

    fn entry(path: &str, kind: EntryKind) -> FileEntry {
        FileEntry { path: path.to_owned(), size: 1, mode: 0o644, kind }
    }

    #[test]
    fn directory_requires_name_and_file() {
        let has = |path: &str, kind| {
            is_valid_directory("pdf", &[entry("x", EntryKind::File), entry(path, kind)])
        };
        assert!(has("SKILL.md", EntryKind::File));
        assert!(has("skill.md", EntryKind::File));
        for path in ["Skill.md", "SKILL.MD", "README.md", "references/SKILL.md", "SKILL.md "] {
            assert!(!has(path, EntryKind::File), "{path}");
        }
        for kind in [EntryKind::Directory, EntryKind::Other, EntryKind::Symlink { escapes: false }]
        {
            assert!(!has("SKILL.md", kind));
        }
        assert!(!is_valid_directory("", &[entry("SKILL.md", EntryKind::File)]));
        assert!(!is_valid_directory("pdf", &[]));
    }

    #[test]
    fn levels_have_limits() {
        // `pdf` and 397 characters are 400, a hundred tokens.
        for (length, fits) in [(0, false), (1, true), (396, true), (397, true), (398, false)] {
            assert_eq!(is_valid_level_1("pdf", &"\u{e9}".repeat(length)), fits, "{length}");
        }
        assert!(!is_valid_level_1("PDF", "Reads PDF."));
        for (lines, fits) in [(0, true), (1, true), (499, true), (500, true), (501, false)] {
            let body = "a\n".repeat(lines);
            assert_eq!(is_valid_level_2(&body), fits, "{lines}");
            assert_eq!(is_valid_level_2(body.trim_end_matches('\n')), fits, "{lines}, cut");
            assert_eq!(is_valid_level_2(&body.replace('\n', "\r\n")), fits, "{lines}, CRLF");
        }
        for path in ["references/GUIDE.md", "a", "v1..v2.md", "...", "a/..b/c", ".hidden"] {
            assert!(is_valid_level_3([path]), "{path}");
        }
        for path in ["", "..", "../x", "a/../x", "a/..", "/etc/passwd", "..\\x", "a\\..\\x", "\\x"]
        {
            assert!(!is_valid_level_3(["a", path]), "{path}");
        }
        for (length, fits) in [(1023, true), (1024, true), (1025, false)] {
            assert_eq!(is_valid_level_3([&*"a".repeat(length)]), fits, "{length}");
        }
        assert!(is_valid_level_3([]));
    }

    #[test]
    fn complete_skill_requires_valid_parts() {
        let entries = ["SKILL.md", "scripts/a.py"].map(|path| entry(path, EntryKind::File));
        let complete = FormalSkill {
            dir_name: "pdf",
            entries: &entries,
            frontmatter: frontmatter(),
            body: "# PDF\n",
        };
        assert!(is_valid_complete_skill(&complete));
        let long = "a".repeat(1024);
        let described = FormalFrontmatter { description: &long, ..frontmatter() };
        assert!(!is_valid_level_1("pdf", &long));
        assert!(is_valid_complete_skill(&FormalSkill { frontmatter: described, ..complete }));
        let unnamed = FormalFrontmatter { name: "pdf-", ..frontmatter() };
        let out = [entry("SKILL.md", EntryKind::File), entry("../x", EntryKind::File)];
        for broken in [
            FormalSkill { dir_name: "PDF", ..complete },
            FormalSkill { dir_name: "pdf-", frontmatter: unnamed, ..complete },
            FormalSkill { entries: &entries[1..], ..complete },
            FormalSkill { entries: &out, ..complete },
            FormalSkill { body: &"\n".repeat(501), ..complete },
        ] {
            assert!(!is_valid_complete_skill(&broken), "{broken:?}");
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
