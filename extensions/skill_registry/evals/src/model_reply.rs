//! Replies of models that have to be one JSON object.

use serde::de::DeserializeOwned;

/// Reads a reply that has to be one JSON object and nothing else; `None` for any other text.
pub(crate) fn read_json_reply<T: DeserializeOwned>(reply: &str) -> Option<T> {
    let text = reply.trim();
    // Models put code into fences even where they are asked not to.
    let inside = text
        .strip_prefix("```json")
        .or_else(|| text.strip_prefix("```"))
        .and_then(|rest| rest.strip_suffix("```"));
    serde_json::from_str(inside.unwrap_or(text).trim()).ok()
}
