//! A parser of YAML text into a tree with the position of every key and value.
//!
//! The tree stores the text of scalars as written; the reader determines the type of a scalar.
//! Hostile text costs a bounded amount of work: size, depth and number of values are limited, and
//! aliases, which multiply values, are rejected.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError};

use crate::{Located, ManifestError, ManifestErrorKind, YamlType};

/// The maximum size of a manifest, in bytes.
pub(crate) const MAX_BYTES: usize = 256 * 1024;
/// The maximum nesting depth of lists and mappings.
pub(crate) const MAX_DEPTH: usize = 32;
/// The maximum number of keys and values in a manifest.
pub(crate) const MAX_VALUES: usize = 5_000;

/// A value with its position.
pub(crate) type YamlNode = Located<YamlValue>;

/// A YAML value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum YamlValue {
    /// A single value. Only a plain one, without quotes, can have a type other than text.
    Scalar { text: String, plain: bool },
    /// A list.
    Sequence(Vec<YamlNode>),
    /// A mapping with unique keys.
    Mapping(Vec<(Located<String>, YamlNode)>),
}

/// A YAML document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct YamlDocument {
    /// The outermost value.
    pub(crate) root: YamlNode,
    /// Errors that do not stop the parser: duplicate keys.
    pub(crate) errors: Vec<ManifestError>,
}

impl YamlValue {
    /// Returns the type of the value.
    pub(crate) fn yaml_type(&self) -> YamlType {
        match self {
            Self::Scalar { text, plain } => match scalar_to_json(text, *plain) {
                serde_json::Value::Null => YamlType::Nothing,
                serde_json::Value::Bool(_) => YamlType::Boolean,
                serde_json::Value::Number(_) => YamlType::Number,
                _ => YamlType::Text,
            },
            Self::Sequence(_) => YamlType::List,
            Self::Mapping(_) => YamlType::Mapping,
        }
    }

    /// Converts the value to JSON.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Scalar { text, plain } => scalar_to_json(text, *plain),
            Self::Sequence(items) => items.iter().map(|item| item.value.to_json()).collect(),
            Self::Mapping(entries) => entries
                .iter()
                .map(|(key, node)| (key.value.clone(), node.value.to_json()))
                .collect(),
        }
    }
}

/// Converts a scalar as `serde_yaml` does. Infinite and undefined numbers remain text.
///
/// A value thus has the same type in a manifest and in the settings that override it.
fn scalar_to_json(text: &str, plain: bool) -> serde_json::Value {
    use serde_json::Value as Json;

    let as_text = || Json::String(text.to_owned());
    // All other types are spelled with these few characters; the check also keeps hostile text away
    // from a second parser.
    let is_word = text.len() <= 40
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-._~".contains(&b));
    if !plain || !is_word {
        return as_text();
    }
    match serde_yaml::from_str::<serde_yaml::Value>(text) {
        // `serde_yaml` takes a lone `---` for the start of a document.
        Ok(serde_yaml::Value::Null) if text != "---" => Json::Null,
        Ok(serde_yaml::Value::Bool(value)) => Json::Bool(value),
        Ok(serde_yaml::Value::Number(number)) => {
            serde_json::to_value(&number).ok().filter(Json::is_number).unwrap_or_else(as_text)
        }
        // `serde_yaml` rejects integers beyond 64 bits.
        Err(_) => {
            let number = text.parse().ok().and_then(serde_json::Number::from_f64);
            number.map_or_else(as_text, Json::Number)
        }
        Ok(_) => as_text(),
    }
}

/// Parses `text` as one YAML document.
///
/// # Errors
/// The first error that makes the text unreadable.
pub(crate) fn parse_yaml(text: &str) -> Result<YamlDocument, ManifestError> {
    // Before the parser sees it: its cost grows with the text.
    if text.len() > MAX_BYTES {
        let kind = ManifestErrorKind::TooLarge { bytes: text.len(), limit: MAX_BYTES };
        return Err(ManifestError { kind, line: 1, column: 1 });
    }
    let lines: Vec<&str> = text.lines().collect();
    let mut builder = YamlBuilder { lines: &lines, ..YamlBuilder::default() };
    let mut documents = 0;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| scan_error(&lines, &error))?;
        let at = span.start;
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                reject_anchors_and_tags(anchor, tag.is_some(), &at)?;
                let plain = style == ScalarStyle::Plain;
                builder.scalar(text.into_owned(), plain, &at)?;
            }
            Event::SequenceStart(anchor, tag) => {
                reject_anchors_and_tags(anchor, tag.is_some(), &at)?;
                builder.open(OpenCollection::Sequence(Vec::new()), &at)?;
            }
            Event::MappingStart(anchor, tag) => {
                reject_anchors_and_tags(anchor, tag.is_some(), &at)?;
                builder.open(OpenCollection::mapping(), &at)?;
            }
            Event::SequenceEnd | Event::MappingEnd => builder.close(),
            Event::Alias(_) => return Err(error_at(ManifestErrorKind::Anchor, &at)),
            Event::DocumentStart(_) => {
                documents += 1;
                if documents > 1 {
                    return Err(error_at(ManifestErrorKind::SeveralDocuments, &at));
                }
            }
            Event::StreamStart | Event::StreamEnd | Event::DocumentEnd | Event::Nothing => {}
        }
    }
    match builder.root {
        Some(root) if !is_blank(&root.value) => Ok(YamlDocument { root, errors: builder.errors }),
        _ => Err(ManifestError { kind: ManifestErrorKind::Empty, line: 1, column: 1 }),
    }
}

/// Returns whether a document has no content (only comments, or `---`), in contrast to `null`.
fn is_blank(root: &YamlValue) -> bool {
    matches!(root, YamlValue::Scalar { text, plain: true } if text.is_empty())
}

fn reject_anchors_and_tags(anchor: usize, tagged: bool, at: &Marker) -> Result<(), ManifestError> {
    if anchor != 0 {
        return Err(error_at(ManifestErrorKind::Anchor, at));
    }
    if tagged {
        return Err(error_at(ManifestErrorKind::Tag, at));
    }
    Ok(())
}

fn error_at(kind: ManifestErrorKind, at: &Marker) -> ManifestError {
    let Located { line, column, .. } = locate((), at);
    ManifestError { kind, line, column }
}

fn locate<T>(value: T, at: &Marker) -> Located<T> {
    // The parser counts lines from 1 and columns from 0.
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Located { value, line: number(at.line()), column: number(at.col() + 1) }
}

/// A builder that collects events into a tree.
// The nesting is an explicit stack, so that deep text cannot overflow the call stack.
#[derive(Default)]
struct YamlBuilder<'t> {
    lines: &'t [&'t str],
    root: Option<YamlNode>,
    open: Vec<Located<OpenCollection>>,
    /// The number of keys and values so far.
    values: usize,
    /// The line of the latest key or value.
    line: usize,
    errors: Vec<ManifestError>,
}

/// A list or mapping that is not closed yet.
enum OpenCollection {
    Sequence(Vec<YamlNode>),
    Mapping {
        entries: Vec<(Located<String>, YamlNode)>,
        /// The line of every key so far.
        lines: HashMap<String, u32>,
        /// The key whose value comes next.
        key: Option<Located<String>>,
    },
}

impl OpenCollection {
    fn mapping() -> Self {
        Self::Mapping { entries: Vec::new(), lines: HashMap::new(), key: None }
    }
}

impl YamlBuilder<'_> {
    /// Counts a key or value and checks the limits.
    fn start_node(&mut self, at: &Marker) -> Result<(), ManifestError> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(error_at(ManifestErrorKind::TooManyValues { limit: MAX_VALUES }, at));
        }
        if at.line() > self.line {
            self.line = at.line();
            self.reject_tab(at)?;
        }
        Ok(())
    }

    /// Rejects a tab before the first value of a line, which the parser tolerates.
    fn reject_tab(&self, at: &Marker) -> Result<(), ManifestError> {
        let line = at.line().checked_sub(1).and_then(|index| self.lines.get(index)).unwrap_or(&"");
        let mut before = line.chars().take(at.col());
        match before.clone().position(|c| c == '\t') {
            Some(column) if before.all(char::is_whitespace) => {
                Err(error_at(ManifestErrorKind::Tab, &Marker::new(0, at.line(), column)))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether the next value is the key of a mapping.
    fn is_key_next(&self) -> bool {
        let innermost = self.open.last().map(|open| &open.value);
        matches!(innermost, Some(OpenCollection::Mapping { key: None, .. }))
    }

    fn scalar(&mut self, text: String, plain: bool, at: &Marker) -> Result<(), ManifestError> {
        self.start_node(at)?;
        match self.open.last_mut() {
            Some(Located { value: OpenCollection::Mapping { key: key @ None, .. }, .. }) => {
                *key = Some(locate(text, at));
            }
            _ => self.attach_node(locate(YamlValue::Scalar { text, plain }, at)),
        }
        Ok(())
    }

    fn open(&mut self, value: OpenCollection, at: &Marker) -> Result<(), ManifestError> {
        self.start_node(at)?;
        if self.is_key_next() {
            return Err(error_at(ManifestErrorKind::ComplexKey, at));
        }
        if self.open.len() == MAX_DEPTH {
            return Err(error_at(ManifestErrorKind::TooDeep { limit: MAX_DEPTH }, at));
        }
        self.open.push(locate(value, at));
        Ok(())
    }

    fn close(&mut self) {
        if let Some(Located { value, line, column }) = self.open.pop() {
            let value = match value {
                OpenCollection::Sequence(items) => YamlValue::Sequence(items),
                OpenCollection::Mapping { entries, .. } => YamlValue::Mapping(entries),
            };
            self.attach_node(Located { value, line, column });
        }
    }

    fn attach_node(&mut self, node: YamlNode) {
        match self.open.last_mut().map(|open| &mut open.value) {
            None => self.root = Some(node),
            Some(OpenCollection::Sequence(items)) => items.push(node),
            Some(OpenCollection::Mapping { entries, lines, key }) => {
                let Some(key) = key.take() else { return };
                // The first value wins; the manifest is rejected anyway.
                if let Some(&first_line) = lines.get(&key.value) {
                    let Located { value: field, line, column } = key;
                    let kind = ManifestErrorKind::DuplicateField { field, first_line };
                    self.errors.push(ManifestError { kind, line, column });
                } else {
                    lines.insert(key.value.clone(), key.line);
                    entries.push((key, node));
                }
            }
        }
    }
}

/// Converts a parser error into a message with a remedy, at the position of the cause.
fn scan_error(lines: &[&str], error: &ScanError) -> ManifestError {
    let at = error.marker();
    let info = error.info();
    let here = at.line().saturating_sub(1);
    if info.contains("recursion limit") {
        return error_at(ManifestErrorKind::TooDeep { limit: MAX_DEPTH }, at);
    }
    if info.contains("unknown anchor") {
        return error_at(ManifestErrorKind::Anchor, at);
    }
    if info.split_whitespace().any(|word| word == "tab" || word == "tabs") {
        // The parser reports the start of the value, which can be lines before the tab.
        let has_tab = |line: &&str| line.trim_start_matches(' ').starts_with('\t');
        if let Some(index) = lines.iter().skip(here).position(has_tab) {
            return error_at(ManifestErrorKind::Tab, &line_start(lines, here + index));
        }
    }
    if info.starts_with("simple key expect") {
        // The parser reports the line after the one without `:`.
        let content = |line: &&str| !matches!(line.trim_start().chars().next(), None | Some('#'));
        if let Some(index) = lines.iter().take(here).rposition(content) {
            let message = "this line is neither `field: value` nor part of a value".to_owned();
            return error_at(ManifestErrorKind::Syntax { message }, &line_start(lines, index));
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
    error_at(ManifestErrorKind::Syntax { message: message.to_owned() }, at)
}

/// Returns the position after the leading spaces of a line.
fn line_start(lines: &[&str], index: usize) -> Marker {
    let spaces = lines[index].chars().take_while(|&c| c == ' ').count();
    Marker::new(0, index + 1, spaces)
}
