//! The recovering reader.

use crate::build::{self, LineRange, ParseBudget, ParsedDocument, YamlError};
use crate::field_recovery;
use crate::notice::{MISSING_BLANK, Notice, NoticeKind, excerpt};
use crate::tree::{MappingEntry, Scalar, Span, Value, YamlStyle, repeated_keys};

/// A parsed text with its notices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredTree {
    /// The parsed value: a map, empty for an empty text.
    ///
    /// If the text is not even YAML, the root is one [`YamlStyle::Raw`] scalar and one of the
    /// notices is [`NoticeKind::NotYaml`].
    pub root: Value,
    /// The notices, not sorted.
    pub notices: Vec<Notice>,
    /// The first position where the tree lacks content of the text: words that belong to no field,
    /// or YAML that is over a limit and kept as text.
    pub gap: Option<Span>,
}

/// Parses a text whose fields are `key: value` lines; its first line is line `first_line` of the
/// file.
///
/// If the text is not YAML, it is cut at the lines that start with `key:`, and every fragment that
/// is not YAML by itself is kept as text, with a notice that names it. `known_keys` are recognized
/// without a blank after the colon, because the intent is unambiguous. No field is ever dropped.
/// Duplicate keys stay in the tree and are reported.
#[must_use]
pub fn parse_recovering(text: &str, first_line: u32, known_keys: &[&str]) -> RecoveredTree {
    parse_with(text, first_line, known_keys, &mut ParseBudget::new())
}

/// Parses like [`parse_recovering`] and also returns the number of parser events of all attempts
/// together, which is at most [`EVENT_LIMIT`](crate::EVENT_LIMIT) for any text.
#[must_use]
pub fn parse_counted(text: &str, first_line: u32, known_keys: &[&str]) -> (RecoveredTree, usize) {
    let mut budget = ParseBudget::new();
    let tree = parse_with(text, first_line, known_keys, &mut budget);
    (tree, budget.events_spent())
}

fn parse_with(
    text: &str,
    first_line: u32,
    known_keys: &[&str],
    budget: &mut ParseBudget,
) -> RecoveredTree {
    let lines = LineRange { source: text, start: 0, end: text.len(), line: first_line };
    let mut tree = match build::parse_lines(lines, 0, budget) {
        Ok(document) => match &document.root {
            // `name:x` on every line is one scalar to YAML, but the author means fields.
            &Value::Scalar(Scalar { span, .. }) => {
                let reason = MISSING_BLANK.into();
                recover_tree(lines, &YamlError { span, reason }, known_keys, budget)
                    .unwrap_or_else(|| tree_from_document(document))
            }
            _ => tree_from_document(document),
        },
        Err(error) => recover_tree(lines, &error, known_keys, budget)
            .unwrap_or_else(|| yaml_error_tree(text, first_line, &error)),
    };
    if let Value::Mapping(root) = &tree.root {
        report_duplicates(&root.entries, &mut tree.notices);
    }
    tree
}

/// Recovers the fields one by one; `None` if no line starts a field.
fn recover_tree(
    lines: LineRange<'_>,
    error: &YamlError,
    known_keys: &[&str],
    budget: &mut ParseBudget,
) -> Option<RecoveredTree> {
    let (root, notices, gap) = field_recovery::recover_fields(lines, error, known_keys, budget)?;
    Some(RecoveredTree { root: Value::Mapping(root), notices, gap })
}

fn tree_from_document(document: ParsedDocument) -> RecoveredTree {
    RecoveredTree { root: document.root, notices: document.notices, gap: None }
}

fn yaml_error_tree(text: &str, first_line: u32, error: &YamlError) -> RecoveredTree {
    let span = Span { line: first_line, column: 1 };
    let root = Value::Scalar(Scalar { text: text.to_owned(), style: YamlStyle::Raw, span });
    let kind = NoticeKind::NotYaml { reason: error.reason.clone() };
    RecoveredTree { root, notices: vec![Notice::new(kind, error.span)], gap: Some(error.span) }
}

fn report_duplicates(entries: &[MappingEntry], notices: &mut Vec<Notice>) {
    // Duplicates stay in the tree, so that a formatter does not lose text.
    for index in repeated_keys(entries) {
        let key = &entries[index].key;
        let kind = NoticeKind::DuplicateKey { key: excerpt(&key.text).to_owned() };
        notices.push(Notice::new(kind, key.span));
    }
    for entry in entries {
        report_duplicates_within(&entry.value, notices);
    }
}

fn report_duplicates_within(value: &Value, notices: &mut Vec<Notice>) {
    match value {
        Value::Scalar(_) => {}
        Value::Sequence(sequence) => {
            sequence.items.iter().for_each(|item| report_duplicates_within(item, notices));
        }
        Value::Mapping(mapping) => report_duplicates(&mapping.entries, notices),
    }
}
