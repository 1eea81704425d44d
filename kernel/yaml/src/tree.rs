//! The tree: scalars as texts, lists and maps, each with its position.

use std::collections::HashSet;
use std::ops::Range;

use serde::ser::{Serialize, SerializeMap, Serializer};

/// A position in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct Span {
    /// The line, counted from 1.
    pub line: u32,
    /// The column in characters, counted from 1.
    pub column: u32,
}

/// The notation of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum YamlStyle {
    /// Without quotes.
    Plain,
    /// In single quotes.
    SingleQuoted,
    /// In double quotes.
    DoubleQuoted,
    /// A block after `|`.
    Literal,
    /// A block after `>`.
    Folded,
    /// An alias such as `*a`, kept as written.
    Alias,
    /// Not YAML: text of the file, kept unchanged.
    Raw,
}

/// A key, or a value that is neither list nor map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scalar {
    /// The text, never typed: `1.10` is `1.10`.
    pub text: String,
    /// The notation in the file.
    pub style: YamlStyle,
    /// The position of its first character.
    pub span: Span,
}

/// A list of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// The values in the order of the file.
    pub items: Vec<Value>,
    /// `true` for a list in brackets.
    pub flow: bool,
    /// The position of its first character.
    pub span: Span,
    /// Its byte range in the parsed text.
    pub range: Range<usize>,
}

/// One `key: value` of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappingEntry {
    /// The key.
    pub key: Scalar,
    /// The value.
    pub value: Value,
}

/// A map: keys with values in the order of the file, duplicates included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// The entries in the order of the file.
    pub entries: Vec<MappingEntry>,
    /// `true` for a map in braces.
    pub flow: bool,
    /// The position of its first character.
    pub span: Span,
    /// Its byte range in the parsed text.
    pub range: Range<usize>,
}

/// A node of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Text.
    Scalar(Scalar),
    /// A list.
    Sequence(Sequence),
    /// A map.
    Mapping(Mapping),
}

impl Mapping {
    /// Returns the value of a key; the first one if the key is duplicated.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.iter().find(|entry| entry.key.text == key).map(|entry| &entry.value)
    }

    /// Returns whether two maps have the same keys and values in the same order, regardless of
    /// positions and notation.
    #[must_use]
    pub fn same_content(&self, other: &Self) -> bool {
        self.entries.len() == other.entries.len()
            && self.entries.iter().zip(&other.entries).all(|(left, right)| {
                left.key.text == right.key.text && left.value.same_content(&right.value)
            })
    }
}

impl Value {
    /// Returns the text of a scalar.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Scalar(scalar) => Some(&scalar.text),
            Self::Sequence(_) | Self::Mapping(_) => None,
        }
    }

    /// Returns the position of the first character.
    #[must_use]
    pub fn span(&self) -> Span {
        match self {
            Self::Scalar(scalar) => scalar.span,
            Self::Sequence(sequence) => sequence.span,
            Self::Mapping(mapping) => mapping.span,
        }
    }

    /// Returns whether the value is absent, as in `key:`.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Scalar(Scalar { text, style: YamlStyle::Plain | YamlStyle::Raw, .. }) if text.is_empty())
    }

    /// Returns whether two values have the same texts in the same structure, regardless of positions
    /// and notation.
    #[must_use]
    pub fn same_content(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Scalar(left), Self::Scalar(right)) => left.text == right.text,
            (Self::Sequence(left), Self::Sequence(right)) => {
                left.items.len() == right.items.len()
                    && left.items.iter().zip(&right.items).all(|(l, r)| l.same_content(r))
            }
            (Self::Mapping(left), Self::Mapping(right)) => left.same_content(right),
            _ => false,
        }
    }

    /// Converts the value to text: that of a scalar, or the value's range of `source`, the parsed
    /// text, without the indentation of the value.
    #[must_use]
    pub fn into_text(self, source: &str) -> String {
        let (range, span) = match self {
            Self::Scalar(scalar) => return scalar.text,
            Self::Sequence(sequence) => (sequence.range, sequence.span),
            Self::Mapping(mapping) => (mapping.range, mapping.span),
        };
        // The first line starts at the value; only the further lines carry its indentation.
        let indent = usize::try_from(span.column).map_or(0, |column| column.saturating_sub(1));
        let mut lines = source.get(range).unwrap_or_default().lines();
        let mut text = lines.next().unwrap_or_default().to_owned();
        for line in lines {
            let blanks = line.bytes().take(indent).take_while(|byte| *byte == b' ').count();
            text.push('\n');
            text.push_str(&line[blanks..]);
        }
        text
    }
}

/// Removes every entry whose key occurs in an earlier one.
pub fn retain_first(entries: &mut Vec<MappingEntry>) {
    let repeated = repeated_keys(entries);
    if repeated.is_empty() {
        return;
    }
    let mut index = 0;
    // `retain` visits the entries in order and does not pass their index.
    entries.retain(|_| {
        index += 1;
        repeated.binary_search(&(index - 1)).is_err()
    });
}

/// Returns the ascending indexes of the entries whose key occurs in an earlier one.
pub(crate) fn repeated_keys(entries: &[MappingEntry]) -> Vec<usize> {
    // Nearly every map is small; for those, comparing is faster than hashing.
    const SMALL: usize = 16;
    if entries.len() <= SMALL {
        let repeats = |index: &usize| {
            entries[..*index].iter().any(|earlier| earlier.key.text == entries[*index].key.text)
        };
        return (1..entries.len()).filter(repeats).collect();
    }
    let mut seen = HashSet::with_capacity(entries.len());
    (0..entries.len()).filter(|&index| !seen.insert(entries[index].key.text.as_str())).collect()
}

/// Serializes to strings, arrays and objects; a duplicate key keeps its first value.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Scalar(scalar) => serializer.serialize_str(&scalar.text),
            Self::Sequence(sequence) => serializer.collect_seq(&sequence.items),
            Self::Mapping(mapping) => {
                // JSON readers disagree about duplicate keys, so none is written.
                let repeated = repeated_keys(&mapping.entries);
                let mut map = serializer.serialize_map(None)?;
                for (index, entry) in mapping.entries.iter().enumerate() {
                    if repeated.binary_search(&index).is_err() {
                        map.serialize_entry(&entry.key.text, &entry.value)?;
                    }
                }
                map.end()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_recovering;

    fn map(text: &str) -> Mapping {
        match parse_recovering(text, 2, &[]).root {
            Value::Mapping(mapping) => mapping,
            other => panic!("not a map: {other:?}"),
        }
    }

    #[test]
    fn duplicate_key_keeps_first_value() {
        let mut few = map("a: 1\nb: 2\na: 3\n");
        assert_eq!(few.get("a").and_then(Value::as_str), Some("1"));
        retain_first(&mut few.entries);
        assert!(few.same_content(&map("a: 1\nb: 2\n")));
        let line = |n: usize| format!("k{}: {n}\n", n % 30);
        let mut many = map(&(0..60).map(line).collect::<String>());
        retain_first(&mut many.entries);
        assert!(many.same_content(&map(&(0..30).map(line).collect::<String>())));
    }

    #[test]
    fn same_content_ignores_notation() {
        let plain = map("a: [x, 'y']\nb: {c: d}\n");
        assert!(plain.same_content(&map("a:\n- \"x\"\n- y\nb:\n  c: >-\n    d\n")));
        for other in ["a: [x]\nb: {c: d}\n", "a: x\nb: {c: d}\n", "a: [x, y]\nb: {e: d}\n"] {
            assert!(!plain.same_content(&map(other)), "{other}");
        }
    }

    #[test]
    fn value_serializes_untyped() {
        let value = Value::Mapping(map("a: 1.10\nb: [yes, {c: ''}]\na: 2\n"));
        let json = serde_json::to_string(&value).unwrap();
        assert_eq!(json, r#"{"a":"1.10","b":["yes",{"c":""}]}"#);
    }
}
