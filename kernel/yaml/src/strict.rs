//! The strict reader.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScanError};

use crate::build::{LineRange, ValueBuilder};
use crate::tree::{MappingEntry, Scalar, Span, Value, retain_first};

/// The limits of [`parse_strict`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrictLimits {
    /// The maximum size of the text, in bytes.
    pub bytes: usize,
    /// The maximum nesting depth of lists and maps.
    pub depth: usize,
    /// The maximum number of keys and values.
    pub values: usize,
}

/// A parsed text without duplicate keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrictTree {
    /// The outermost value.
    pub root: Value,
    /// The keys that occur in an earlier entry of their map, in the order in which their entries
    /// end. They are not in the tree.
    pub duplicates: Vec<DuplicateKey>,
}

/// A key that occurs in an earlier entry of its map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuplicateKey {
    /// The key.
    pub key: Scalar,
    /// The line of the first key.
    pub first_line: u32,
}

/// An error that makes a text unreadable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrictError {
    /// The kind of error.
    pub kind: StrictErrorKind,
    /// The position of its cause.
    pub span: Span,
}

/// The kind of a [`StrictError`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StrictErrorKind {
    /// The text is larger than the limit.
    TooLarge,
    /// The text has no content: only comments, or `---`.
    Empty,
    /// There is an anchor or an alias.
    Anchor,
    /// There is a tag.
    Tag,
    /// A tab indents a line.
    Tab,
    /// A list or map is a key.
    ComplexKey,
    /// Lists and maps are nested deeper than the limit.
    TooDeep,
    /// There are more keys and values than the limit.
    TooManyValues,
    /// There is a second document.
    SeveralDocuments,
    /// The text is not YAML.
    Syntax {
        /// The error with its remedy, where one is known.
        message: String,
    },
}

/// Parses a text as one YAML document.
///
/// # Errors
/// Returns the first error that makes the text unreadable.
pub fn parse_strict(text: &str, limits: StrictLimits) -> Result<StrictTree, StrictError> {
    let whole = Span { line: 1, column: 1 };
    // Before the parser sees it: its cost grows with the text.
    if text.len() > limits.bytes {
        return Err(StrictError { kind: StrictErrorKind::TooLarge, span: whole });
    }
    let lines: Vec<&str> = text.lines().collect();
    let mut reader = StrictReader {
        limits,
        lines: &lines,
        builder: ValueBuilder::new(
            LineRange { source: text, start: 0, end: text.len(), line: 1 },
            0,
        ),
        values: 0,
        line: 0,
        documents: 0,
    };
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| to_strict_error(&lines, &error))?;
        reader.accept(event, span)?;
    }
    // Only comments, or `---`, are no content, in contrast to `null`.
    let Some(mut root) = reader.builder.into_documents().pop().filter(|root| !root.is_empty())
    else {
        return Err(StrictError { kind: StrictErrorKind::Empty, span: whole });
    };
    let mut duplicates = Vec::new();
    remove_duplicates(&mut root, &mut duplicates);
    Ok(StrictTree { root, duplicates })
}

struct StrictReader<'a> {
    limits: StrictLimits,
    lines: &'a [&'a str],
    builder: ValueBuilder<'a>,
    /// The number of keys and values so far.
    values: usize,
    /// The line of the latest key or value.
    line: usize,
    documents: usize,
}

impl<'a> StrictReader<'a> {
    fn accept(&mut self, event: Event<'a>, span: saphyr_parser::Span) -> Result<(), StrictError> {
        let at = span.start;
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                reject_properties(anchor, tag.is_some(), at)?;
                self.start_node(at)?;
                self.builder.add_scalar(text, style, span);
            }
            Event::SequenceStart(anchor, tag) => {
                reject_properties(anchor, tag.is_some(), at)?;
                self.start_collection(at)?;
                self.builder.open_sequence(at);
            }
            Event::MappingStart(anchor, tag) => {
                reject_properties(anchor, tag.is_some(), at)?;
                self.start_collection(at)?;
                self.builder.open_mapping(at);
            }
            Event::SequenceEnd | Event::MappingEnd => self.builder.close(span),
            Event::Alias(_) => return Err(error_at(StrictErrorKind::Anchor, at)),
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(error_at(StrictErrorKind::SeveralDocuments, at));
                }
            }
            Event::StreamStart | Event::StreamEnd | Event::DocumentEnd | Event::Nothing => {}
        }
        Ok(())
    }

    /// Counts a key or value and checks the limits.
    fn start_node(&mut self, at: Marker) -> Result<(), StrictError> {
        self.values += 1;
        if self.values > self.limits.values {
            return Err(error_at(StrictErrorKind::TooManyValues, at));
        }
        if at.line() > self.line {
            self.line = at.line();
            self.reject_tab(at)?;
        }
        Ok(())
    }

    fn start_collection(&mut self, at: Marker) -> Result<(), StrictError> {
        self.start_node(at)?;
        if self.builder.is_key_next() {
            return Err(error_at(StrictErrorKind::ComplexKey, at));
        }
        if self.builder.open_count() == self.limits.depth {
            return Err(error_at(StrictErrorKind::TooDeep, at));
        }
        Ok(())
    }

    /// Rejects a tab before the first value of a line, which the parser tolerates.
    fn reject_tab(&self, at: Marker) -> Result<(), StrictError> {
        let line = at.line().checked_sub(1).and_then(|index| self.lines.get(index)).unwrap_or(&"");
        let mut before = line.chars().take(at.col());
        match before.clone().position(|c| c == '\t') {
            Some(column) if before.all(char::is_whitespace) => {
                Err(error_at(StrictErrorKind::Tab, Marker::new(0, at.line(), column)))
            }
            _ => Ok(()),
        }
    }
}

fn reject_properties(anchor: usize, tagged: bool, at: Marker) -> Result<(), StrictError> {
    if anchor != 0 {
        return Err(error_at(StrictErrorKind::Anchor, at));
    }
    if tagged {
        return Err(error_at(StrictErrorKind::Tag, at));
    }
    Ok(())
}

fn error_at(kind: StrictErrorKind, at: Marker) -> StrictError {
    // The parser counts lines from 1 and columns from 0.
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    StrictError { kind, span: Span { line: number(at.line()), column: number(at.col() + 1) } }
}

/// Removes the entries with a key that occurs earlier in their map.
fn remove_duplicates(value: &mut Value, duplicates: &mut Vec<DuplicateKey>) {
    match value {
        Value::Scalar(_) => {}
        Value::Sequence(sequence) => {
            sequence.items.iter_mut().for_each(|item| remove_duplicates(item, duplicates));
        }
        Value::Mapping(mapping) => {
            let mut lines: HashMap<&str, u32> = HashMap::with_capacity(mapping.entries.len());
            let before = duplicates.len();
            for MappingEntry { key, value } in &mut mapping.entries {
                remove_duplicates(value, duplicates);
                if let Some(&first_line) = lines.get(&*key.text) {
                    duplicates.push(DuplicateKey { key: key.clone(), first_line });
                } else {
                    lines.insert(&key.text, key.span.line);
                }
            }
            if duplicates.len() > before {
                retain_first(&mut mapping.entries);
            }
        }
    }
}

/// Converts a parser error into a message with a remedy, at the position of the cause.
fn to_strict_error(lines: &[&str], error: &ScanError) -> StrictError {
    let at = *error.marker();
    let info = error.info();
    let here = at.line().saturating_sub(1);
    if info.contains("recursion limit") {
        return error_at(StrictErrorKind::TooDeep, at);
    }
    if info.contains("unknown anchor") {
        return error_at(StrictErrorKind::Anchor, at);
    }
    if info.split_whitespace().any(|word| word == "tab" || word == "tabs") {
        // The parser reports the start of the value, which can be lines before the tab.
        let has_tab = |line: &&str| line.trim_start_matches(' ').starts_with('\t');
        if let Some(index) = lines.iter().skip(here).position(has_tab) {
            return error_at(StrictErrorKind::Tab, line_start(lines, here + index));
        }
    }
    if info.starts_with("simple key expect") {
        // The parser reports the line after the one without `:`.
        let content = |line: &&str| !matches!(line.trim_start().chars().next(), None | Some('#'));
        if let Some(index) = lines.iter().take(here).rposition(content) {
            let message = "this line is neither `field: value` nor part of a value".to_owned();
            return error_at(StrictErrorKind::Syntax { message }, line_start(lines, index));
        }
    }
    // The exact texts of the pinned `saphyr-parser`; an unknown one is passed on unchanged.
    let message = match info {
        "mapping values are not allowed in this context" => {
            "`:` is not allowed here; check the indentation, or put the value in quotes"
        }
        "while scanning a quoted scalar, found unexpected end of stream" => {
            "the quoted text that starts here is not closed"
        }
        "invalid indentation in quoted scalar" => {
            "the quoted text that starts here is not closed, or not all its lines are indented"
        }
        "while parsing a block mapping, did not find expected key" => {
            "expected a field; check that this line is indented like those above"
        }
        _ => info,
    };
    error_at(StrictErrorKind::Syntax { message: message.to_owned() }, at)
}

/// Returns the position after the leading spaces of a line.
fn line_start(lines: &[&str], index: usize) -> Marker {
    let spaces = lines[index].chars().take_while(|&c| c == ' ').count();
    Marker::new(0, index + 1, spaces)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: StrictLimits = StrictLimits { bytes: 200, depth: 3, values: 20 };

    #[test]
    fn duplicates_are_removed_and_listed() {
        let text = "a: 1\nb:\n  c: 2\n  c: 3\na:\n  d: 4\n  d: 5\n";
        let tree = parse_strict(text, LIMITS).unwrap();
        let found =
            tree.duplicates.iter().map(|it| (&*it.key.text, it.key.span.line, it.first_line));
        assert_eq!(found.collect::<Vec<_>>(), [("c", 4, 3), ("d", 7, 6), ("a", 5, 1)]);
        let rest = parse_strict("a: 1\nb: {c: 2}\n", LIMITS).unwrap();
        assert!(tree.root.same_content(&rest.root));
    }

    #[test]
    fn unusual_yaml_is_rejected_in_place() {
        let cases = [
            ("# nothing\n", StrictErrorKind::Empty, (1, 1)),
            ("a: &b 1\n", StrictErrorKind::Anchor, (1, 4)),
            ("a: !t 1\n", StrictErrorKind::Tag, (1, 4)),
            ("a: 1\n---\nb: 2\n", StrictErrorKind::SeveralDocuments, (2, 1)),
            ("{a: 1}: 2\n", StrictErrorKind::ComplexKey, (1, 1)),
            ("a: [[[1]]]\n", StrictErrorKind::TooDeep, (1, 6)),
            ("a:\n  - 1\n\t- 2\n", StrictErrorKind::Tab, (3, 1)),
        ];
        for (text, kind, (line, column)) in cases {
            let error = parse_strict(text, LIMITS).unwrap_err();
            assert_eq!(error, StrictError { kind, span: Span { line, column } }, "{text:?}");
        }
        let kind_of = |text: &str| parse_strict(text, LIMITS).unwrap_err().kind;
        assert_eq!(kind_of(&"a: 1\n".repeat(50)), StrictErrorKind::TooLarge);
        assert_eq!(kind_of(&"- 1\n".repeat(25)), StrictErrorKind::TooManyValues);
    }
}
