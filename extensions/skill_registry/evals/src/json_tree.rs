//! JSON as a tree of strings with positions.
//!
//! The files of cases are JSON or YAML; with the same tree for both, one reader finds what is wrong
//! with a value and where.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use skill_format::JsonParseError;
use yaml_tree::{Mapping, MappingEntry, Scalar, Sequence, Span, Value, YamlStyle};

use crate::finding::{CaseFinding, MAX_CASE_FILE};

/// The limit on nested lists and objects.
const MAX_DEPTH: usize = 16;

/// The limit on keys and values.
const MAX_VALUES: usize = 400_000;

/// Parses a JSON text.
///
/// # Errors
/// The text is not JSON, or over a limit; the finding has the position.
pub(crate) fn parse_json(text: &str) -> Result<Value, Box<CaseFinding>> {
    // Editors on Windows write the mark, and JSON does not allow it.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() > MAX_CASE_FILE {
        let message =
            format!("the file has {} bytes, at most {MAX_CASE_FILE} are read", text.len());
        return Err(error(Span::default(), message, "divide the cases among several skills"));
    }
    let raw: &RawValue = serde_json::from_str(text).map_err(|found| {
        let JsonParseError { span, reason } = JsonParseError::new(text, &found);
        error(span, format!("the file is not JSON: {reason}"), "correct the syntax")
    })?;
    let start = Span { line: 1, column: 1 };
    TreeBuilder { text, offset: 0, at: start, values: 0 }.read_value(raw, 0)
}

fn error(at: Span, message: String, help: &str) -> Box<CaseFinding> {
    Box::new(CaseFinding::error(at, message, help))
}

/// The entries of an object in the order of the file, duplicates included.
struct RawEntries<'t>(Vec<(&'t RawValue, &'t RawValue)>);

impl<'de: 't, 't> Deserialize<'de> for RawEntries<'t> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;

        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = RawEntries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(RawEntries(entries))
            }
        }

        deserializer.deserialize_map(EntriesVisitor)
    }
}

struct TreeBuilder<'t> {
    text: &'t str,
    /// A byte offset with its position. Values come in the order of the file, so that the text is
    /// passed once.
    offset: usize,
    at: Span,
    values: usize,
}

impl<'t> TreeBuilder<'t> {
    fn read_value(&mut self, raw: &'t RawValue, depth: usize) -> Result<Value, Box<CaseFinding>> {
        let span = self.locate(raw);
        self.values += 1;
        if self.values > MAX_VALUES {
            let message = format!("the file has more than {MAX_VALUES} values");
            return Err(error(span, message, "divide the cases among several skills"));
        }
        if depth > MAX_DEPTH {
            let message = format!("lists and objects are nested more than {MAX_DEPTH} deep");
            return Err(error(span, message, "no file of cases needs such a value"));
        }
        let source = raw.get();
        let range = self.offset..self.offset + source.len();
        match source.as_bytes().first() {
            Some(b'{') => {
                let RawEntries(raw) = parse_part(source, span)?;
                let mut entries = Vec::with_capacity(raw.len());
                for (key, value) in raw {
                    let key = self.read_scalar(key)?;
                    entries.push(MappingEntry { key, value: self.read_value(value, depth + 1)? });
                }
                Ok(Value::Mapping(Mapping { entries, flow: true, span, range }))
            }
            Some(b'[') => {
                let raw: Vec<&RawValue> = parse_part(source, span)?;
                let items = raw.into_iter().map(|item| self.read_value(item, depth + 1));
                let items = items.collect::<Result<_, _>>()?;
                Ok(Value::Sequence(Sequence { items, flow: true, span, range }))
            }
            _ => Ok(Value::Scalar(self.read_scalar(raw)?)),
        }
    }

    fn read_scalar(&mut self, raw: &'t RawValue) -> Result<Scalar, Box<CaseFinding>> {
        let (source, span) = (raw.get(), self.locate(raw));
        if source.starts_with('"') {
            let text = parse_part(source, span)?;
            return Ok(Scalar { text, style: YamlStyle::DoubleQuoted, span });
        }
        // `null` is a missing value, as in YAML.
        let text = if source == "null" { "" } else { source };
        Ok(Scalar { text: text.to_owned(), style: YamlStyle::Plain, span })
    }

    /// Returns the position of a value, which lies at or behind the last one.
    fn locate(&mut self, raw: &RawValue) -> Span {
        let start = raw.get().as_ptr().addr() - self.text.as_ptr().addr();
        for c in self.text[self.offset..start].chars() {
            if c == '\n' {
                self.at = Span { line: self.at.line + 1, column: 1 };
            } else {
                self.at.column += 1;
            }
        }
        self.offset = start;
        self.at
    }
}

/// Parses a part of a text whose syntax was checked.
fn parse_part<'t, T: Deserialize<'t>>(source: &'t str, at: Span) -> Result<T, Box<CaseFinding>> {
    // Only the escapes of strings are not checked before.
    serde_json::from_str(source)
        .map_err(|_| error(at, "a string is not valid Unicode".to_owned(), "correct its escapes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(text: &str) -> String {
        let found = parse_json(text).unwrap_err();
        format!("{}:{} {}", found.line, found.column, found.message)
    }

    #[test]
    fn values_have_their_positions() {
        let text = "\u{feff}[\n  {\"é\": \"x\\n\",\n   \"b\": [1.10, null, true]}\n]";
        let Value::Sequence(list) = parse_json(text).unwrap() else { panic!("no list") };
        let Value::Mapping(map) = &list.items[0] else { panic!("no map") };
        let span = |line, column| Span { line, column };
        assert_eq!((map.span, map.entries[0].key.span), (span(2, 3), span(2, 4)));
        assert_eq!(map.entries[0].value.span(), span(2, 9));
        assert_eq!(map.get("é").and_then(Value::as_str), Some("x\n"));
        let Some(Value::Sequence(list)) = map.get("b") else { panic!("no list") };
        assert_eq!(list.items[2].span(), span(3, 22));
        let texts: Vec<_> = list.items.iter().filter_map(Value::as_str).collect();
        assert_eq!(texts, ["1.10", "", "true"]);
    }

    #[test]
    fn bad_texts_are_refused_in_place() {
        assert_eq!(fail("[\n  1,\n]"), "3:1 the file is not JSON: expected value");
        assert_eq!(fail(""), "1:1 the file is not JSON: EOF while parsing a value");
        assert_eq!(fail("[\"\\ud800\"]"), "1:2 a string is not valid Unicode");
        let deep = format!("{}1{}", "[".repeat(20), "]".repeat(20));
        assert_eq!(fail(&deep), "1:18 lists and objects are nested more than 16 deep");
        // No recursion follows the depth of the text.
        assert!(fail(&"[".repeat(1 << 20)).contains("not JSON"));
        let many = format!("[{}1]", "1,".repeat(MAX_VALUES));
        assert!(fail(&many).contains("more than 400000 values"));
        let large = format!("\"{}\"", "x".repeat(MAX_CASE_FILE));
        assert_eq!(fail(&large), "1:1 the file has 4194306 bytes, at most 4194304 are read");
    }

    #[test]
    fn duplicate_keys_stay_in_the_tree() {
        let Value::Mapping(map) = parse_json(r#"{"a": 1, "a": 2}"#).unwrap() else {
            panic!("no map")
        };
        assert_eq!(map.entries.len(), 2);
    }
}
