//! The errors in a manifest.

use std::fmt;

use crate::{CronError, ExtensionId};

/// An error in a manifest and its position. Displays as `line:column: message`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {kind}")]
pub struct ManifestError {
    /// The kind of the error.
    pub kind: ManifestErrorKind,
    /// The line, from 1.
    pub line: u32,
    /// The column, in characters from 1.
    pub column: u32,
}

/// All errors of one manifest, by position; never empty. Displays as one line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestErrors(Vec<ManifestError>);

impl std::error::Error for ManifestErrors {}

impl ManifestErrors {
    /// Sorts `errors` by position; they must not be empty.
    pub(crate) fn new(mut errors: Vec<ManifestError>) -> Self {
        debug_assert!(!errors.is_empty(), "a rejected manifest has at least one error");
        // Stable, so that several errors at one position keep the order of the checks.
        errors.sort_by_key(|error| (error.line, error.column));
        Self(errors)
    }

    /// Returns the errors by position.
    pub fn as_slice(&self) -> &[ManifestError] {
        &self.0
    }

    /// Iterates over the errors by position.
    pub fn iter(&self) -> std::slice::Iter<'_, ManifestError> {
        self.0.iter()
    }
}

impl fmt::Display for ManifestErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl<'a> IntoIterator for &'a ManifestErrors {
    type Item = &'a ManifestError;
    type IntoIter = std::slice::Iter<'a, ManifestError>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoIterator for ManifestErrors {
    type Item = ManifestError;
    type IntoIter = std::vec::IntoIter<ManifestError>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// The kind of an error in a manifest. Displays as a fragment without the position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestErrorKind {
    /// The file exceeds the size limit.
    #[error("the manifest has {bytes} bytes, the limit is {limit}")]
    TooLarge {
        /// The size of the file, in bytes.
        bytes: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// Lists and mappings exceed the nesting limit.
    #[error("lists and mappings are nested more than {limit} deep")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// The number of keys and values exceeds the limit.
    #[error("the manifest has more than {limit} keys and values")]
    TooManyValues {
        /// The limit.
        limit: usize,
    },
    /// The text is not valid YAML.
    #[error("not valid YAML: {message}")]
    Syntax {
        /// The message of the parser.
        message: String,
    },
    /// A line is indented with a tab.
    #[error("tab in the indentation; YAML allows only spaces there")]
    Tab,
    /// The file has no content.
    #[error("the manifest is empty; it needs at least `id`, `name` and `entrypoint` or `agent`")]
    Empty,
    /// The outermost value is not a mapping.
    #[error("a manifest must consist of lines `field: value`, found {found}")]
    NotAMapping {
        /// The type of the value.
        found: YamlType,
    },
    /// A second YAML document.
    #[error("a second document begins here; a manifest is one YAML document")]
    SeveralDocuments,
    /// An anchor or alias.
    #[error("anchors and aliases (`&` and `*`) are not supported in manifests; repeat the value")]
    Anchor,
    /// A YAML tag.
    #[error("tags (`!`) are not supported in manifests; remove the tag")]
    Tag,
    /// A key that is a list or a mapping.
    #[error("a key must be text, not a list or a mapping")]
    ComplexKey,
    /// A key that occurs twice in one mapping.
    #[error("duplicate field `{}`; first used in line {first_line}", display_safe(field))]
    DuplicateField {
        /// The key.
        field: String,
        /// The line of its first occurrence.
        first_line: u32,
    },
    /// An unknown key.
    #[error("unknown field `{}`{}", display_safe(field), format_suggestion(*nearest))]
    UnknownField {
        /// The key.
        field: String,
        /// The most similar field of this mapping.
        nearest: Option<&'static str>,
    },
    /// A field that belongs to another part of the manifest.
    #[error("`{field}` does not belong here; move it {}", format_destination(*under))]
    MisplacedField {
        /// The field.
        field: &'static str,
        /// The path of the mapping that has the field; `None` means the top level.
        under: Option<&'static str>,
    },
    /// A missing required field.
    #[error("`{field}` is missing")]
    Missing {
        /// The path of the field.
        field: String,
    },
    /// Neither `entrypoint` nor `agent` is present.
    #[error(
        "`entrypoint` (of a library or a process) or `agent` (of a declarative agent) is missing"
    )]
    NoKind,
    /// Both `entrypoint` and `agent` are present.
    #[error("`entrypoint` and `agent` exclude each other; an extension is one or the other")]
    TwoKinds,
    /// A field that requires an extension with code of its own.
    #[error("`{field}` requires a library or a process; this extension is an agent")]
    CodeOnly {
        /// The field.
        field: &'static str,
    },
    /// A field that requires another field or another kind of extension.
    #[error("`{field}` is for {owner}")]
    Belongs {
        /// The path of the field.
        field: String,
        /// The kind of extension, or the field, that the field requires.
        owner: &'static str,
    },
    /// An agent that exports a tool other than itself.
    #[error("`{field}` must be `{id}`: an agent exports itself alone")]
    OtherExport {
        /// The path of the name.
        field: String,
        /// The agent.
        id: String,
    },
    /// A cron pattern that is not valid.
    #[error("`{field}`: the pattern `{}` {problem}", display_safe(pattern))]
    Cron {
        /// The path of the field.
        field: String,
        /// The pattern.
        pattern: String,
        /// The error in the pattern.
        problem: CronError,
    },
    /// An unknown time zone.
    #[error(
        "`{field}` must be the name of a time zone such as `Europe/Berlin`, found `{}`{}",
        display_safe(value),
        format_suggestion(nearest.as_deref())
    )]
    TimeZone {
        /// The path of the field.
        field: String,
        /// The value.
        value: String,
        /// The most similar name of a time zone.
        nearest: Option<String>,
    },
    /// A text that is not a valid template.
    #[error("`{field}` is not a valid Jinja template: {}", display_safe(message))]
    Template {
        /// The path of the field.
        field: String,
        /// The message of the template parser.
        message: String,
    },
    /// A schedule without an action.
    #[error("`{field}` has no action: {expected} is missing")]
    NoAction {
        /// The path of the schedule.
        field: String,
        /// The fields that define an action; one of them is required.
        expected: &'static str,
    },
    /// A schedule with two actions.
    #[error("`{first}` and `{second}` exclude each other; write two schedules")]
    TwoActions {
        /// The first action in the file.
        first: &'static str,
        /// The second action.
        second: &'static str,
    },
    /// A name that occurs twice in one list.
    #[error("name `{}` is already used in line {first_line}", display_safe(name))]
    DuplicateName {
        /// The name.
        name: String,
        /// The line of its first occurrence.
        first_line: u32,
    },
    /// A value of the wrong type.
    #[error("`{field}` must be {expected}, found {found}{}", quoting_hint(expected, *found))]
    WrongType {
        /// The path of the field, such as `agent.uses_skills[0]`.
        field: String,
        /// The required type.
        expected: &'static str,
        /// The type of the value.
        found: YamlType,
    },
    /// A value of the right type that is not allowed.
    #[error("`{field}` must be {expected}, found `{}`", display_safe(value))]
    Invalid {
        /// The path of the field.
        field: String,
        /// The value.
        value: String,
        /// The rule that it violates, in words that read after "must be".
        expected: &'static str,
    },
    /// An extension that depends on itself.
    #[error("`{id}` cannot depend on itself")]
    SelfDependency {
        /// The extension.
        id: ExtensionId,
    },
    /// A dependency that occurs twice.
    #[error("`{id}` is already listed in line {first_line}")]
    DuplicateDependency {
        /// The dependency.
        id: ExtensionId,
        /// The line of its first occurrence.
        first_line: u32,
    },
}

/// The type of a YAML value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum YamlType {
    /// An empty value, `~` or `null`.
    Nothing,
    /// `true` or `false`.
    Boolean,
    /// A number.
    Number,
    /// Text.
    Text,
    /// A list.
    List,
    /// A mapping.
    Mapping,
}

impl fmt::Display for YamlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "no value",
            Self::Boolean => "a boolean",
            Self::Number => "a number",
            Self::Text => "text",
            Self::List => "a list",
            Self::Mapping => "a mapping",
        })
    }
}

/// Escapes and shortens text from the manifest for a line of output.
pub(crate) fn display_safe(text: &str) -> String {
    const MAX_CHARS: usize = 60;
    let mut safe = String::new();
    for c in text.chars().take(MAX_CHARS) {
        // Quotes and backslashes are harmless; control characters could steer a terminal.
        if matches!(c, '"' | '\'' | '\\') {
            safe.push(c);
        } else {
            safe.extend(c.escape_debug());
        }
    }
    if text.chars().nth(MAX_CHARS).is_some() {
        safe.push('…');
    }
    safe
}

fn format_suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

fn format_destination(under: Option<&str>) -> String {
    under.map_or_else(|| "to the top level".to_owned(), |path| format!("under `{path}`"))
}

/// Returns the remedy for an unquoted value that is not text to YAML.
fn quoting_hint(expected: &str, found: YamlType) -> &'static str {
    // Only where text is expected first: quoting `1` does not help where a mapping is required.
    let misread = matches!(found, YamlType::Boolean | YamlType::Number);
    if misread && expected.starts_with("text") { "; put it in quotes" } else { "" }
}
