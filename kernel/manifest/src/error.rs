//! What can be wrong with a manifest.

use std::fmt;

use crate::{CronError, ExtensionId};

/// One mistake in a manifest and its place. Displays as `line:column: message`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {kind}")]
pub struct ManifestError {
    /// What is wrong.
    pub kind: ManifestErrorKind,
    /// The line, from 1.
    pub line: u32,
    /// The column, in characters from 1.
    pub column: u32,
}

/// Every mistake found in one manifest, by position; never empty. Displays as one line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestErrors(Vec<ManifestError>);

impl std::error::Error for ManifestErrors {}

impl ManifestErrors {
    /// Sorts `errors` by position; they must not be empty.
    pub(crate) fn new(mut errors: Vec<ManifestError>) -> Self {
        debug_assert!(!errors.is_empty(), "a refused manifest has at least one error");
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

/// What is wrong at one place of a manifest. Displays as a fragment without the place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestErrorKind {
    /// The file is larger than any manifest needs to be.
    #[error("the manifest has {bytes} bytes, more than the {limit} that are read")]
    TooLarge {
        /// Its size, in bytes.
        bytes: usize,
        /// The largest size, in bytes.
        limit: usize,
    },
    /// Lists and mappings are nested too deeply.
    #[error("lists and mappings are nested more than {limit} deep")]
    TooDeep {
        /// The deepest nesting that is read.
        limit: usize,
    },
    /// There are more keys and values than any manifest needs.
    #[error("the manifest has more than {limit} keys and values")]
    TooManyValues {
        /// The largest number that is read.
        limit: usize,
    },
    /// The text is not YAML.
    #[error("not valid YAML: {message}")]
    Syntax {
        /// What the parser objects to.
        message: String,
    },
    /// A line is indented with a tab.
    #[error("tab in the indentation; YAML allows only spaces there")]
    Tab,
    /// There is no content.
    #[error("the manifest is empty; it needs at least `id`, `name` and `entrypoint` or `agent`")]
    Empty,
    /// The outermost value is not a mapping.
    #[error("a manifest must consist of lines `field: value`, found {found}")]
    NotAMapping {
        /// The type it has.
        found: YamlType,
    },
    /// A second YAML document begins.
    #[error("a second document begins here; a manifest is one YAML document")]
    SeveralDocuments,
    /// An anchor or alias.
    #[error("anchors and aliases (`&` and `*`) are not read in manifests; write the value out")]
    Anchor,
    /// A YAML tag.
    #[error("tags (`!`) are not read in manifests; remove it")]
    Tag,
    /// A key that is a list or a mapping.
    #[error("a key must be text, not a list or a mapping")]
    ComplexKey,
    /// A key that stands in the same mapping before.
    #[error("duplicate field `{}`; it stands in line {first_line} already", display_safe(field))]
    DuplicateField {
        /// The key.
        field: String,
        /// The line where it stands first.
        first_line: u32,
    },
    /// A key that has no meaning.
    #[error("unknown field `{}`{}", display_safe(field), suggestion(*nearest))]
    UnknownField {
        /// The key.
        field: String,
        /// The most similar field that could stand here.
        nearest: Option<&'static str>,
    },
    /// A field that belongs to another part of the manifest.
    #[error("`{field}` does not belong here; it goes {}", destination(*under))]
    MisplacedField {
        /// The field.
        field: &'static str,
        /// The path of the mapping where it belongs; absent: the top level.
        under: Option<&'static str>,
    },
    /// A required field is not there.
    #[error("`{field}` is missing")]
    Missing {
        /// The path of the field.
        field: String,
    },
    /// Neither `entrypoint` nor `agent` is there.
    #[error(
        "`entrypoint` (of a library or a process) or `agent` (of a declarative agent) is missing"
    )]
    NoKind,
    /// Both `entrypoint` and `agent` are there.
    #[error("`entrypoint` and `agent` exclude each other; an extension is one or the other")]
    TwoKinds,
    /// A field that only an extension with code of its own can have.
    #[error("`{field}` is about a library or a process; an agent has none")]
    CodeOnly {
        /// The field.
        field: &'static str,
    },
    /// A field that says something another field does not ask for.
    #[error("`{field}` is for {owner}")]
    Belongs {
        /// The path of the field.
        field: String,
        /// What the field is for.
        owner: &'static str,
    },
    /// A cron pattern that cannot be used.
    #[error("`{field}`: the pattern `{}` {problem}", display_safe(pattern))]
    Cron {
        /// The path of the field.
        field: String,
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        problem: CronError,
    },
    /// A time zone that does not exist.
    #[error(
        "`{field}` must be the name of a time zone such as `Europe/Berlin`, found `{}`{}",
        display_safe(value),
        suggestion(nearest.as_deref())
    )]
    TimeZone {
        /// The path of the field.
        field: String,
        /// The value.
        value: String,
        /// The most similar name of a time zone.
        nearest: Option<String>,
    },
    /// A text with placeholders that cannot be read.
    #[error("`{field}` is no Jinja template: {}", display_safe(message))]
    Template {
        /// The path of the field.
        field: String,
        /// What is wrong with it.
        message: String,
    },
    /// A schedule that has nothing to do.
    #[error("`{field}` does nothing: {expected} is missing")]
    NoAction {
        /// The path of the schedule.
        field: String,
        /// The fields of which it needs one.
        expected: &'static str,
    },
    /// A schedule that has two things to do.
    #[error("`{first}` and `{second}` exclude each other; make two schedules of them")]
    TwoActions {
        /// What stands first.
        first: &'static str,
        /// And besides.
        second: &'static str,
    },
    /// A name that stands in the same list before.
    #[error("`{}` is the name of the one in line {first_line} already", display_safe(name))]
    DuplicateName {
        /// The name.
        name: String,
        /// The line where it stands first.
        first_line: u32,
    },
    /// A value of the wrong type.
    #[error("`{field}` must be {expected}, found {found}{}", quoting(expected, *found))]
    WrongType {
        /// The path of the field, such as `agent.uses_skills[0]`.
        field: String,
        /// What it must be.
        expected: &'static str,
        /// The type it has.
        found: YamlType,
    },
    /// A value of the right type that is not allowed.
    #[error("`{field}` must be {expected}, found `{}`", display_safe(value))]
    Invalid {
        /// The path of the field.
        field: String,
        /// The value.
        value: String,
        /// What it must be.
        expected: &'static str,
    },
    /// An extension that depends on itself.
    #[error("`{id}` cannot depend on itself")]
    SelfDependency {
        /// The extension.
        id: ExtensionId,
    },
    /// A dependency that is listed before.
    #[error("`{id}` is listed in line {first_line} already")]
    DuplicateDependency {
        /// The dependency.
        id: ExtensionId,
        /// The line where it stands first.
        first_line: u32,
    },
}

/// The type of a YAML value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum YamlType {
    /// No value at all, `~` or `null`.
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
            Self::Nothing => "nothing",
            Self::Boolean => "a boolean",
            Self::Number => "a number",
            Self::Text => "text",
            Self::List => "a list",
            Self::Mapping => "a mapping",
        })
    }
}

/// Makes a piece of the manifest fit to stand in a line of output.
pub(crate) fn display_safe(text: &str) -> String {
    const LONGEST: usize = 60;
    let mut shown = String::new();
    for c in text.chars().take(LONGEST) {
        if matches!(c, '"' | '\'' | '\\') {
            shown.push(c);
        } else {
            shown.extend(c.escape_debug());
        }
    }
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

fn destination(under: Option<&str>) -> String {
    under.map_or_else(|| "to the top level".to_owned(), |path| format!("under `{path}`"))
}

/// Adds the remedy where an unquoted value was taken for something else than text.
fn quoting(expected: &str, found: YamlType) -> &'static str {
    let misread = matches!(found, YamlType::Boolean | YamlType::Number);
    if misread && expected.starts_with("text") { "; put it in quotes" } else { "" }
}
