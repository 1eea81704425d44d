//! The reader of a manifest's YAML: limits, errors, and the types of values.
//!
//! The tree stores the text of scalars as written; the reader determines the type of a scalar.
//! Hostile text costs a bounded amount of work: size, depth and number of values are limited, and
//! aliases, which multiply values, are rejected.

use yaml_tree::{
    DuplicateKey, Scalar, StrictError, StrictErrorKind, StrictLimits, Value, YamlStyle,
    parse_strict,
};

use crate::{ManifestError, ManifestErrorKind, YamlType};

/// The limits of a manifest: 256 KiB, lists and mappings nested 32 deep, 5,000 keys and values.
const LIMITS: StrictLimits = StrictLimits { bytes: 256 * 1024, depth: 32, values: 5_000 };

/// A YAML document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct YamlDocument {
    /// The outermost value.
    pub(crate) root: Value,
    /// Errors that do not stop the parser: duplicate keys.
    pub(crate) errors: Vec<ManifestError>,
}

/// Parses `text` as one YAML document.
///
/// # Errors
/// The first error that makes the text unreadable.
pub(crate) fn parse_yaml(text: &str) -> Result<YamlDocument, ManifestError> {
    let tree = parse_strict(text, LIMITS).map_err(|error| to_manifest_error(error, text))?;
    // The first value wins; the manifest is rejected anyway.
    let errors = tree.duplicates.into_iter().map(|DuplicateKey { key, first_line }| {
        let kind = ManifestErrorKind::DuplicateField { field: key.text, first_line };
        ManifestError { kind, line: key.span.line, column: key.span.column }
    });
    Ok(YamlDocument { root: tree.root, errors: errors.collect() })
}

fn to_manifest_error(error: StrictError, text: &str) -> ManifestError {
    let kind = match error.kind {
        StrictErrorKind::TooLarge => {
            ManifestErrorKind::TooLarge { bytes: text.len(), limit: LIMITS.bytes }
        }
        StrictErrorKind::Empty => ManifestErrorKind::Empty,
        StrictErrorKind::Anchor => ManifestErrorKind::Anchor,
        StrictErrorKind::Tag => ManifestErrorKind::Tag,
        StrictErrorKind::Tab => ManifestErrorKind::Tab,
        StrictErrorKind::ComplexKey => ManifestErrorKind::ComplexKey,
        StrictErrorKind::TooDeep => ManifestErrorKind::TooDeep { limit: LIMITS.depth },
        StrictErrorKind::TooManyValues => ManifestErrorKind::TooManyValues { limit: LIMITS.values },
        StrictErrorKind::SeveralDocuments => ManifestErrorKind::SeveralDocuments,
        StrictErrorKind::Syntax { message } => ManifestErrorKind::Syntax { message },
    };
    ManifestError { kind, line: error.span.line, column: error.span.column }
}

/// Returns the type of a value.
pub(crate) fn yaml_type(value: &Value) -> YamlType {
    match value {
        Value::Scalar(scalar) => match scalar_to_json(scalar) {
            serde_json::Value::Null => YamlType::Nothing,
            serde_json::Value::Bool(_) => YamlType::Boolean,
            serde_json::Value::Number(_) => YamlType::Number,
            _ => YamlType::Text,
        },
        Value::Sequence(_) => YamlType::List,
        Value::Mapping(_) => YamlType::Mapping,
    }
}

/// Converts a value to JSON.
pub(crate) fn to_json(value: &Value) -> serde_json::Value {
    match value {
        Value::Scalar(scalar) => scalar_to_json(scalar),
        Value::Sequence(sequence) => sequence.items.iter().map(to_json).collect(),
        Value::Mapping(mapping) => {
            let entries = mapping.entries.iter();
            entries.map(|entry| (entry.key.text.clone(), to_json(&entry.value))).collect()
        }
    }
}

/// Converts a scalar as `serde_yaml` does. Infinite and undefined numbers remain text.
///
/// A value thus has the same type in a manifest and in the settings that override it.
fn scalar_to_json(scalar: &Scalar) -> serde_json::Value {
    use serde_json::Value as Json;

    // Only a plain scalar, without quotes, can have a type other than text.
    let (text, plain) = (scalar.text.as_str(), scalar.style == YamlStyle::Plain);
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
