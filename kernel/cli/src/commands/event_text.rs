//! Times and payloads of events on one line.

use serde_json::Value;
use skillhost_payload::format_second;

/// The number of characters printed of a field.
const MAX_FIELD_CHARS: usize = 200;

/// Formats a time in milliseconds since 1970, to the second.
pub(super) fn format_time(ms: u64) -> String {
    format_second(i64::try_from(ms).unwrap_or(i64::MAX))
}

/// Returns the beginning of a value; values can have any length.
fn truncate_value(text: &str) -> String {
    match text.char_indices().nth(MAX_FIELD_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Formats the fields of a payload on one line, the subject's id first; digests are shortened.
pub(super) fn format_payload(payload: &Value) -> String {
    let Value::Object(fields) = payload else { return payload.to_string() };
    let first = ["id", "skill_id", "schedule"].into_iter().find(|key| fields.contains_key(*key));
    let id = first.and_then(|key| fields[key].as_str()).map(str::to_owned);
    let others = fields.iter().filter(|(key, _)| Some(key.as_str()) != first).map(
        |(key, value)| match value.as_str().or_else(|| value["kind"].as_str()) {
            // ASCII makes the byte slice below valid.
            Some(digest) if digest.len() == 64 && digest.is_ascii() => {
                format!("{key}={}", &digest[..12])
            }
            Some(text) => format!("{key}={}", truncate_value(text)),
            None => format!("{key}={}", truncate_value(&value.to_string())),
        },
    );
    id.into_iter().chain(others).collect::<Vec<_>>().join(" ")
}
