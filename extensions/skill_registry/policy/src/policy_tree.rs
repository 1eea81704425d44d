//! The tree of a policy in either syntax.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use yaml_tree::{Span, StrictErrorKind, StrictLimits, Value as YamlValue, excerpt, parse_strict};

use crate::policy_error::PolicyError;

/// The key of the policy in the settings of a home.
const SETTINGS_KEY: &str = "lint";

/// The limits of a settings file: the sizes that the settings themselves may have.
const YAML_LIMITS: StrictLimits = StrictLimits { bytes: 1 << 20, depth: 64, values: 100_000 };

/// The syntax of a policy, for hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PolicySyntax {
    /// A file of its own.
    Toml,
    /// A table in the settings of a home.
    Yaml,
}

/// A value with its place.
#[derive(Clone, Debug)]
pub(crate) struct PolicyNode {
    pub(crate) content: NodeContent,
    pub(crate) place: Span,
}

/// The content of a value.
#[derive(Clone, Debug)]
pub(crate) enum NodeContent {
    Text(String),
    List(Vec<PolicyNode>),
    Table(Vec<PolicyField>),
    /// A value of another type, with its name.
    Other(&'static str),
}

/// A key of a table with its value.
#[derive(Clone, Debug)]
pub(crate) struct PolicyField {
    pub(crate) name: String,
    pub(crate) place: Span,
    pub(crate) value: PolicyNode,
}

impl PolicyNode {
    /// Returns the name of the type.
    pub(crate) fn type_name(&self, syntax: PolicySyntax) -> &'static str {
        match (&self.content, syntax) {
            (NodeContent::Other(name), _) => name,
            (NodeContent::Text(_), PolicySyntax::Toml) => "string",
            (NodeContent::List(_), PolicySyntax::Toml) => "array",
            (NodeContent::Table(_), PolicySyntax::Toml) => "table",
            (NodeContent::Text(_), PolicySyntax::Yaml) => "a text",
            (NodeContent::List(_), PolicySyntax::Yaml) => "a list",
            (NodeContent::Table(_), PolicySyntax::Yaml) => "a mapping",
        }
    }
}

/// Parses a file of its own.
pub(crate) fn parse_toml(text: &str) -> Result<PolicyNode, Vec<PolicyError>> {
    let (table, failed) = DeTable::parse_recoverable(text);
    if failed.is_empty() {
        let fields = to_fields(text, table.get_ref());
        let place = Span { line: 1, column: 1 };
        return Ok(PolicyNode { content: NodeContent::Table(fields), place });
    }
    let errors = failed.into_iter().map(|error| {
        let Span { line, column } = to_place(text, error.span().unwrap_or_default().start);
        let message = format!("invalid TOML: {}", error.message().replace('\n', ", "));
        PolicyError { line, column, message, help: None }
    });
    Err(errors.collect())
}

fn to_fields(text: &str, table: &DeTable<'_>) -> Vec<PolicyField> {
    let fields = table.iter().map(|(key, value)| PolicyField {
        name: key.get_ref().to_string(),
        place: to_place(text, key.span().start),
        value: to_node(text, value),
    });
    fields.collect()
}

fn to_node(text: &str, value: &Spanned<DeValue<'_>>) -> PolicyNode {
    let Range { start, .. } = value.span();
    let content = match value.get_ref() {
        DeValue::String(text) => NodeContent::Text(text.to_string()),
        DeValue::Array(items) => {
            NodeContent::List(items.iter().map(|item| to_node(text, item)).collect())
        }
        DeValue::Table(table) => NodeContent::Table(to_fields(text, table)),
        other => NodeContent::Other(other.type_str()),
    };
    PolicyNode { content, place: to_place(text, start) }
}

/// Returns the line and column of an offset.
fn to_place(text: &str, offset: usize) -> Span {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    Span { line: number(line), column: number(before[start..].chars().count() + 1) }
}

/// Parses the table in the settings of a home; `None` if they have none.
pub(crate) fn parse_settings(text: &str) -> Result<Option<PolicyNode>, Vec<PolicyError>> {
    // Most settings have none, and other mistakes in them are the business of other commands.
    if !text.contains(SETTINGS_KEY) {
        return Ok(None);
    }
    let error = |place: Span, message: String| PolicyError {
        line: place.line,
        column: place.column,
        message,
        help: None,
    };
    let tree = match parse_strict(text, YAML_LIMITS) {
        Ok(tree) => tree,
        Err(_) if !has_line_of_key(text) => return Ok(None),
        Err(failed) => {
            let message = describe_yaml_error(&failed.kind);
            return Err(vec![error(failed.span, format!("invalid YAML: {message}"))]);
        }
    };
    let YamlValue::Mapping(root) = &tree.root else { return Ok(None) };
    let Some(value) = root.get(SETTINGS_KEY) else { return Ok(None) };
    let duplicates = tree.duplicates.iter().map(|duplicate| {
        let name = excerpt(&duplicate.key.text);
        error(duplicate.key.span, format!("`{name}` is there twice"))
    });
    let duplicates: Vec<_> = duplicates.collect();
    match duplicates.is_empty() {
        true => Ok(Some(from_yaml(value))),
        false => Err(duplicates),
    }
}

fn has_line_of_key(text: &str) -> bool {
    let is_key = |line: &str| {
        let line = line.trim_start_matches(['"', '\'', '{', ' ']);
        let rest = line.strip_prefix(SETTINGS_KEY).map(|rest| rest.trim_start_matches(['"', '\'']));
        rest.is_some_and(|rest| rest.trim_start().starts_with(':'))
    };
    text.lines().any(is_key)
}

fn describe_yaml_error(kind: &StrictErrorKind) -> &str {
    match kind {
        StrictErrorKind::TooLarge => "the file is too large",
        StrictErrorKind::Empty => "there is no content",
        StrictErrorKind::Anchor => "anchors and aliases are not supported here",
        StrictErrorKind::Tag => "tags are not supported here",
        StrictErrorKind::Tab => "a tab indents the line",
        StrictErrorKind::ComplexKey => "a key is a list or a mapping",
        StrictErrorKind::TooDeep => "lists and mappings are nested too deep",
        StrictErrorKind::TooManyValues => "there are too many values",
        StrictErrorKind::SeveralDocuments => "there is a second document",
        StrictErrorKind::Syntax { message } => message,
    }
}

fn from_yaml(value: &YamlValue) -> PolicyNode {
    let content = match value {
        value if value.is_empty() => NodeContent::Other("empty"),
        YamlValue::Scalar(scalar) => NodeContent::Text(scalar.text.clone()),
        YamlValue::Sequence(sequence) => {
            NodeContent::List(sequence.items.iter().map(from_yaml).collect())
        }
        YamlValue::Mapping(mapping) => {
            let fields = mapping.entries.iter().map(|entry| PolicyField {
                name: entry.key.text.clone(),
                place: entry.key.span,
                value: from_yaml(&entry.value),
            });
            NodeContent::Table(fields.collect())
        }
    };
    PolicyNode { content, place: value.span() }
}
