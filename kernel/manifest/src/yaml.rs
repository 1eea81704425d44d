//! From YAML text to a tree in which every key and value knows its place.
//!
//! The tree keeps the text of scalars as written; what type a scalar has is decided when it is
//! read. Hostile text costs a bounded amount of work: size, depth and number of values are
//! limited, and aliases, which multiply values, are refused.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError};

use crate::{Located, ManifestError, ManifestErrorKind, YamlType};

/// The largest manifest, in bytes.
pub(crate) const MAX_BYTES: usize = 256 * 1024;
/// How deep lists and mappings may be nested.
pub(crate) const MAX_DEPTH: usize = 32;
/// How many keys and values a manifest may have.
pub(crate) const MAX_VALUES: usize = 5_000;

/// A value with the place where it starts.
pub(crate) type YamlNode = Located<YamlValue>;

/// A YAML value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum YamlValue {
    /// A single value. Only a plain one, without quotes, can be anything but text.
    Scalar { text: String, plain: bool },
    /// A list.
    Sequence(Vec<YamlNode>),
    /// A mapping whose keys are all different.
    Mapping(Vec<(Located<String>, YamlNode)>),
}

/// A whole document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct YamlDocument {
    /// The outermost value.
    pub(crate) root: YamlNode,
    /// Mistakes that do not hinder reading on: keys given twice.
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

/// Types a scalar as `serde_yaml` does, so that a value means the same in a manifest and in the
/// settings that override it. Infinite and undefined numbers, which JSON lacks, stay text.
fn scalar_to_json(text: &str, plain: bool) -> serde_json::Value {
    use serde_json::Value as Json;

    let as_text = || Json::String(text.to_owned());
    // Everything that is not text is spelled with these few characters; asking only about such
    // words also means that nothing hostile reaches a second parser.
    let is_word = text.len() <= 40
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-._~".contains(&b));
    if !plain || !is_word {
        return as_text();
    }
    match serde_yaml::from_str::<serde_yaml::Value>(text) {
        // Alone in a text, `---` would begin a document.
        Ok(serde_yaml::Value::Null) if text != "---" => Json::Null,
        Ok(serde_yaml::Value::Bool(value)) => Json::Bool(value),
        Ok(serde_yaml::Value::Number(number)) => {
            serde_json::to_value(&number).ok().filter(Json::is_number).unwrap_or_else(as_text)
        }
        // Whole numbers beyond 64 bits are errors to it.
        Err(_) => {
            let number = text.parse().ok().and_then(serde_json::Number::from_f64);
            number.map_or_else(as_text, Json::Number)
        }
        Ok(_) => as_text(),
    }
}

/// Reads `text` as one YAML document.
///
/// # Errors
/// The one mistake that makes the text unreadable.
pub(crate) fn parse_yaml(text: &str) -> Result<YamlDocument, ManifestError> {
    if text.len() > MAX_BYTES {
        let kind = ManifestErrorKind::TooLarge { bytes: text.len(), limit: MAX_BYTES };
        return Err(ManifestError { kind, line: 1, column: 1 });
    }
    let lines: Vec<&str> = text.lines().collect();
    let mut builder = YamlBuilder { lines: &lines, ..YamlBuilder::default() };
    let mut documents = 0;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| explain(&lines, &error))?;
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

/// Tells a document without any content (only comments, or `---`) from one that says `null`.
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
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Located { value, line: number(at.line()), column: number(at.col() + 1) }
}

/// Collects events into a tree. The nesting is a stack of its own, so its depth costs no call
/// stack.
#[derive(Default)]
struct YamlBuilder<'t> {
    lines: &'t [&'t str],
    root: Option<YamlNode>,
    open: Vec<Located<OpenCollection>>,
    /// The number of keys and values so far.
    values: usize,
    /// The line of the latest one.
    line: usize,
    errors: Vec<ManifestError>,
}

/// A list or mapping whose end has not come yet.
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
    /// Notes that a key or value begins.
    fn start_node(&mut self, at: &Marker) -> Result<(), ManifestError> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(error_at(ManifestErrorKind::TooManyValues { limit: MAX_VALUES }, at));
        }
        if at.line() > self.line {
            self.line = at.line();
            self.refuse_tab(at)?;
        }
        Ok(())
    }

    /// Refuses what the parser tolerates: a tab before the first value of a line.
    fn refuse_tab(&self, at: &Marker) -> Result<(), ManifestError> {
        let line = at.line().checked_sub(1).and_then(|index| self.lines.get(index)).unwrap_or(&"");
        let mut before = line.chars().take(at.col());
        match before.clone().position(|c| c == '\t') {
            Some(column) if before.all(char::is_whitespace) => {
                Err(error_at(ManifestErrorKind::Tab, &Marker::new(0, at.line(), column)))
            }
            _ => Ok(()),
        }
    }

    /// Says whether the next value is the key of a mapping.
    fn expects_key(&self) -> bool {
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
        if self.expects_key() {
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

/// Puts the parser's complaint into words that say what to do, at the place to do it.
fn explain(lines: &[&str], error: &ScanError) -> ManifestError {
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
        // The complaint stands where the value began, which can be lines before the tab.
        let tabbed = |line: &&str| line.trim_start_matches(' ').starts_with('\t');
        if let Some(index) = lines.iter().skip(here).position(tabbed) {
            return error_at(ManifestErrorKind::Tab, &start_of(lines, here + index));
        }
    }
    if info.starts_with("simple key expect") {
        // Noticed only on the line after the one that has no `:`.
        let content = |line: &&str| !matches!(line.trim_start().chars().next(), None | Some('#'));
        if let Some(index) = lines.iter().take(here).rposition(content) {
            let message = "this line is neither `field: value` nor part of a value".to_owned();
            return error_at(ManifestErrorKind::Syntax { message }, &start_of(lines, index));
        }
    }
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

/// Returns the place after the leading spaces of a line.
fn start_of(lines: &[&str], index: usize) -> Marker {
    let spaces = lines[index].chars().take_while(|&c| c == ' ').count();
    Marker::new(0, index + 1, spaces)
}
