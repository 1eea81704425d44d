//! The identifier of a skill: the name of its directory.

use std::borrow::Borrow;
use std::fmt;

use serde::{Serialize, Serializer};
use skillhost_payload::is_hidden;

/// The identifier of a skill: the name of the directory that holds its SKILL.md.
///
/// It is a single UTF-8 path component of 1 to [`SkillId::MAX_BYTES`] bytes without `/`, `\`,
/// backticks and hidden characters (see [`is_hidden`]), and not `.` or `..`. Ids are looked
/// up in an index and never joined to a path; the rule exists so that an id can be printed in a
/// prompt line or a terminal without changing the surrounding text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SkillId(Box<str>);

/// An error for a directory name that cannot be a skill id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SkillIdError {
    /// The name has no characters.
    #[error("a skill id cannot be empty")]
    Empty,
    /// The name is longer than [`SkillId::MAX_BYTES`]; the value is its length in bytes.
    #[error("a skill id has at most 128 bytes, this name has {0}")]
    TooLong(usize),
    /// The name is `.` or `..`.
    #[error("a skill id cannot be `.` or `..`")]
    Dots,
    /// The name has a character that is not allowed.
    #[error("a skill id cannot contain U+{:04X}", u32::from(*.0))]
    Character(char),
}

impl SkillId {
    /// The largest length of an id in bytes.
    pub const MAX_BYTES: usize = 128;

    /// Validates a directory name and converts it to an id.
    ///
    /// # Errors
    /// Returns the first rule that the name breaks.
    pub fn new(name: &str) -> Result<Self, SkillIdError> {
        if name.is_empty() {
            return Err(SkillIdError::Empty);
        }
        if name.len() > Self::MAX_BYTES {
            return Err(SkillIdError::TooLong(name.len()));
        }
        if name == "." || name == ".." {
            return Err(SkillIdError::Dots);
        }
        // Separators would make the id a path; a backtick would end the quotes of a prompt line.
        let is_forbidden = |c: char| matches!(c, '/' | '\\' | '`') || is_hidden(c);
        match name.chars().find(|&c| is_forbidden(c)) {
            Some(c) => Err(SkillIdError::Character(c)),
            None => Ok(Self(name.into())),
        }
    }

    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SkillId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for SkillId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for SkillId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Serialize for SkillId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_name_is_valid_id() {
        for name in
            ["a", "code-review", "naïve", "技能", "with space", "dotted.name", "...", "Upper"]
        {
            assert_eq!(SkillId::new(name).map(|id| id.to_string()), Ok(name.to_owned()));
        }
        assert!(SkillId::new(&"x".repeat(128)).is_ok());
    }

    #[test]
    fn broken_rule_returns_own_error() {
        let cases = [
            ("", SkillIdError::Empty),
            (".", SkillIdError::Dots),
            ("..", SkillIdError::Dots),
            ("a/b", SkillIdError::Character('/')),
            ("a\\b", SkillIdError::Character('\\')),
            ("a`b", SkillIdError::Character('`')),
            ("a\0b", SkillIdError::Character('\0')),
            ("a\nb", SkillIdError::Character('\n')),
            ("a\u{1b}[2Jb", SkillIdError::Character('\u{1b}')),
            ("a\u{85}b", SkillIdError::Character('\u{85}')),
            ("a\u{202e}b", SkillIdError::Character('\u{202e}')),
            ("code-review\u{200b}", SkillIdError::Character('\u{200b}')),
            ("co\u{ad}de", SkillIdError::Character('\u{ad}')),
            ("a\u{200d}b", SkillIdError::Character('\u{200d}')),
            ("a\u{e0041}", SkillIdError::Character('\u{e0041}')),
            ("a\u{fe0f}", SkillIdError::Character('\u{fe0f}')),
        ];
        for (name, error) in cases {
            assert_eq!(SkillId::new(name), Err(error), "{name:?}");
        }
        assert_eq!(SkillId::new(&"é".repeat(65)), Err(SkillIdError::TooLong(130)));
        assert_eq!(
            SkillIdError::Character('\u{202e}').to_string(),
            "a skill id cannot contain U+202E"
        );
    }
}
