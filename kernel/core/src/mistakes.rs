//! The text of mistakes in arguments and schemas, written for models.

use jsonschema::error::ValidationErrorKind;
use serde_json::Value;
use skillhost_home::suggest_similar;

/// The number of mistakes in one message.
pub const MAX_MISTAKES: usize = 8;
/// The number of enumeration values in a message.
pub const CHOICES: usize = 20;

/// Describes one mistake: its path, the reason, and the nearest valid name.
pub fn describe_mistake(error: &jsonschema::ValidationError<'_>, schema: &Value) -> String {
    let path = error.instance_path().as_str();
    let at = if path.is_empty() { String::new() } else { format!("`{}`: ", truncate(path, 100)) };
    let mistake = match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let properties = schema["properties"].as_object();
            let known: Vec<_> = properties.into_iter().flatten().map(|(name, _)| &**name).collect();
            let unknown = |name: &String| {
                let name = truncate(name, 100);
                format!("unknown field `{name}`{}", did_you_mean(&name, known.iter().copied()))
            };
            unexpected.iter().map(unknown).collect::<Vec<_>>().join("; ")
        }
        ValidationErrorKind::Required { property } => {
            format!("field `{}` is missing", property.as_str().unwrap_or_default())
        }
        ValidationErrorKind::Enum { options } => {
            let written = error.instance().as_str().unwrap_or_default();
            let options: Vec<_> = options.as_array().into_iter().flatten().collect();
            let listed: Vec<_> = options.iter().take(CHOICES).map(ToString::to_string).collect();
            let more = match options.len().saturating_sub(CHOICES) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let meant = did_you_mean(written, options.iter().filter_map(|option| option.as_str()));
            let value = truncate(&error.instance().to_string(), 100);
            format!("{value} is not one of {}{more}{meant}", listed.join(", "))
        }
        _ => truncate(&error.to_string(), 300),
    };
    format!("{at}{mistake}")
}

/// Returns the nearest known names as a question; empty without a similar one.
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match suggest_similar(name, known).as_slice() {
        [] => String::new(),
        names => format!("; did you mean {}?", names.join(", ")),
    }
}

/// Returns at most `limit` characters, with a mark where text is cut.
pub fn truncate(text: &str, limit: usize) -> String {
    // Counts characters: a byte limit could split one.
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
