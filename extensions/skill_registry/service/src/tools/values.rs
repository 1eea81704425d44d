//! JSON Schemas of the results' values, for programs that validate them.
//!
//! Only tools whose value has all information of the text have a schema: a client may pass either of
//! them to a model.

use serde_json::{Value, json};
use skillhost_payload::object_schema;

fn text_schema(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn texts_schema(description: &str) -> Value {
    json!({ "type": "array", "items": { "type": "string" }, "description": description })
}

fn count_schema(description: &str) -> Value {
    json!({ "type": "integer", "minimum": 0, "description": description })
}

fn digest_schema(description: &str) -> Value {
    either_type("string", "null", description)
}

/// Returns the schema of a value of one of two types; some programs do not know lists of types.
fn either_type(one: &str, other: &str, description: &str) -> Value {
    json!({ "anyOf": [{ "type": one }, { "type": other }], "description": description })
}

/// Returns the schema of an object with these fields and no others, all required except for `but`.
fn closed_object(properties: &Value, but: &[&str]) -> Value {
    let names = properties.as_object().into_iter().flatten().map(|(name, _)| name);
    let required: Vec<_> = names.map(String::as_str).filter(|name| !but.contains(name)).collect();
    object_schema(properties, &required)
}

/// Returns the schema of the value of `list_skills`.
pub(super) fn list_output_schema() -> Value {
    let properties = json!({
        "generation": count_schema("Changes whenever a skill changes"),
        "total": count_schema("The number of skills"),
        "matched": count_schema("The number of skills that fit"),
        "omitted": count_schema("How many of them are left out: describe the task in more detail, or raise the limit"),
        "skills": { "type": "array", "items": skill_schema() },
        "ranked_by": { "type": "string", "enum": ["index", "catalog", "names"] },
        "unmet": texts_schema("Phrases of the query that no skill has: the search ignored them"),
        "caution": text_schema("A limitation of the ranking or the selection"),
        "partial": {
            "type": "object",
            "description": "Skills may be missing: not every directory was searched",
            "properties": { "reasons": { "type": "array", "items": { "type": "object" } } },
            "required": ["reasons"],
            "additionalProperties": false,
        },
    });
    closed_object(&properties, &["ranked_by", "unmet", "caution", "partial"])
}

fn skill_schema() -> Value {
    let created = json!({
        "author": { "type": "object", "description": "The agent that created it" },
        "approved": digest_schema("The digest of the files that a person approved"),
        "tree": digest_schema("The digest of the files as they are, if it is known"),
    });
    let mut unapproved = closed_object(&created, &[]);
    unapproved["description"] = json!("An agent created it and no person has approved it");
    let properties = json!({
        "skill_id": text_schema("The id for read_skill"),
        "description": text_schema("Its purpose and when to use it"),
        "tags": texts_schema("Its tags"),
        "tokens": count_schema("The number of tokens of its instructions"),
        "source": text_schema("The label of its root"),
        "trust": {
            "type": "string",
            "enum": ["operator", "untrusted"],
            "description": "Whether the operator trusts its root",
        },
        "model_invocable": { "type": "boolean", "description": "Whether models may load it" },
        "unapproved": unapproved,
        "skill_state": { "type": "string", "enum": ["name-only", "user-only", "off"] },
        "score": { "type": "number", "description": "The score of the match" },
        "matched": texts_schema("The fields in which words of the query occur"),
    });
    closed_object(&properties, &["unapproved", "skill_state", "score", "matched"])
}

/// Returns the schema of the value of `propose_skill_update`.
pub(super) fn propose_output_schema() -> Value {
    let finding = json!({
        "rule": text_schema("The rule"),
        "severity": { "type": "string", "enum": ["error", "warning", "note"] },
        "line": count_schema("The line; 0 is the whole file"),
        "message": text_schema("The message"),
    });
    let findings = |description: &str| {
        let items = closed_object(&finding, &[]);
        json!({ "type": "array", "items": items, "description": description })
    };
    let lint = json!({
        "new": findings("Findings that the change adds"),
        "gone": findings("Findings that the change resolves"),
    });
    let flag = json!({
        "type": "object",
        "properties": { "flag": { "type": "string" } },
        "required": ["flag"],
    });
    let fuzz = json!({
        "hunk": count_schema("The hunk; 0 is the whole diff"),
        "line": count_schema("The line it was applied at"),
        "kind": either_type("string", "object", "The tolerated deviation"),
    });
    let properties = json!({
        "proposal": text_schema("The proposal's id"),
        "number": count_schema("The proposal's number, for people"),
        "state": {
            "type": "string",
            "enum": skill_ledger::ProposalState::ALL,
            "description": "The state at the time of the call",
        },
        "merged": { "type": "boolean", "description": "The same proposal was already open" },
        "count": count_schema("How many times it was made"),
        "skill_id": text_schema("The skill"),
        "path": text_schema("The file"),
        "base_digest": digest_schema("The digest of the file as it is; null for a new one"),
        "new_digest": text_schema("The digest of the proposed text"),
        "added": count_schema("Lines it adds"),
        "removed": count_schema("Lines it removes"),
        "flags": {
            "type": "array",
            "items": flag,
            "description": "Warnings for the reviewer",
        },
        "fuzz": {
            "type": "array",
            "items": closed_object(&fuzz, &[]),
            "description": "Deviations that were tolerated when the diff was applied",
        },
        "lint": closed_object(&lint, &[]),
        "next": text_schema("The next step for the current task"),
        "review": text_schema("The decision of a person, if one was made during the call"),
    });
    closed_object(&properties, &["review"])
}
