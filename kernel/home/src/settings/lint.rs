//! The schema of the lint policy. Its values are checked by the commands that use them.

use schemars::{Schema, SchemaGenerator, json_schema};

/// Returns the schema of the keys of a policy.
pub(super) fn lint_schema(_: &mut SchemaGenerator) -> Schema {
    let texts = || json_schema!({"type": ["string", "array"], "items": {"type": "string"}});
    json_schema!({
        "type": "object",
        "additionalProperties": false,
        "default": {},
        "properties": {
            "profile": {
                "description": "The profile whose rules apply.",
                "type": "string"
            },
            "allowed-fields": {
                "description": "Further fields, which the profile does not have.",
                "allOf": [texts()]
            },
            "severity": {
                "description": "By rule, or by the beginning of rules with `*`: its severity.",
                "type": "object",
                "additionalProperties": {"enum": ["off", "note", "warning", "error"]}
            },
            "paths": {
                "description": "The skills to check, relative to the home.",
                "type": "object",
                "additionalProperties": false,
                "properties": {"include": texts(), "exclude": texts()}
            },
            "ignore": {
                "description": "Findings to ignore.",
                "type": "array",
                "items": {
                    "type": "object",
                    "additionalProperties": false,
                    "required": ["rules", "reason"],
                    "properties": {
                        "rules": texts(),
                        "paths": texts(),
                        "reason": {"type": "string", "minLength": 1}
                    }
                }
            }
        }
    })
}
