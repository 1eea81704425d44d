//! Tests of the description of parameters.

use serde_json::json;

use super::*;

#[test]
fn parameters_are_described() {
    let schema = json!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "description": "File to read" },
            "mode": { "enum": ["text", 1], "default": "text" },
            "lines": { "type": ["integer", "null"] },
            "tags": { "type": "array", "items": { "type": "string" } },
            "limit": { "anyOf": [{ "type": "integer" }, { "type": "null" }] },
            "other": {},
        },
        "required": ["path"],
    });
    let rows: Vec<String> = parameter_rows(&schema).into_iter().map(|row| row.join("|")).collect();
    let mut expected = [
        "path|string|yes|File to read",
        "mode|text or 1||[default: \"text\"]",
        "lines|integer or null||",
        "tags|array of string||",
        "limit|integer or null||",
        "other|any||",
    ]
    .map(str::to_owned);
    expected.sort();
    let mut found = rows;
    found.sort();
    assert_eq!(found, expected);
    assert!(parameter_rows(&Value::Null).is_empty());
}
