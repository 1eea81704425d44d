//! What the values of answers look like, for programs that check them.
//!
//! Only tools whose value says everything that their text says have a schema: a client may show a
//! model the one instead of the other.

use serde_json::{Value, json};

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn texts(description: &str) -> Value {
    json!({ "type": "array", "items": { "type": "string" }, "description": description })
}

fn count(description: &str) -> Value {
    json!({ "type": "integer", "minimum": 0, "description": description })
}

fn digest(description: &str) -> Value {
    either_type("string", "null", description)
}

/// One of two types; some programs know no lists of types.
fn either_type(one: &str, other: &str, description: &str) -> Value {
    json!({ "anyOf": [{ "type": one }, { "type": other }], "description": description })
}

/// An object with these fields and no others, all of them required but for some.
fn closed_object(properties: &Value, but: &[&str]) -> Value {
    let names = properties.as_object().into_iter().flatten().map(|(name, _)| name);
    let required: Vec<_> = names.filter(|name| !but.contains(&name.as_str())).cloned().collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// The value of `list_skills`.
pub(super) fn list_output_schema() -> Value {
    let properties = json!({
        "generation": count("Another one when any skill has changed"),
        "total": count("How many skills there are"),
        "matched": count("How many of them fit"),
        "omitted": count("How many fit and are not here: say more, or raise the limit"),
        "skills": { "type": "array", "items": skill() },
        "ranked_by": { "type": "string", "enum": ["index", "catalog", "names"] },
        "unmet": texts("Phrases of the query that no skill has: it was searched without them"),
        "caution": text("What the order or the choice lacks"),
        "partial": {
            "type": "object",
            "description": "Skills may be missing: why not every directory was searched",
            "properties": { "reasons": { "type": "array", "items": { "type": "object" } } },
            "required": ["reasons"],
            "additionalProperties": false,
        },
    });
    closed_object(&properties, &["ranked_by", "unmet", "caution", "partial"])
}

fn skill() -> Value {
    let created = json!({
        "author": { "type": "object", "description": "The agent that created it" },
        "approved": digest("The digest of the files that a person approved"),
        "tree": digest("The digest of the files as they are, where it is known"),
    });
    let mut unapproved = closed_object(&created, &[]);
    unapproved["description"] = json!("An agent created it and no person has approved it");
    let properties = json!({
        "skill_id": text("What read_skill takes"),
        "description": text("What it does and when to use it"),
        "tags": texts("Its tags"),
        "tokens": count("What its instructions cost"),
        "source": text("The label of the folder it is from"),
        "trust": {
            "type": "string",
            "enum": ["operator", "untrusted"],
            "description": "Whether somebody answers for it",
        },
        "model_invocable": { "type": "boolean", "description": "Whether models may load it" },
        "unapproved": unapproved,
        "skill_state": { "type": "string", "enum": ["name-only", "user-only", "off"] },
        "score": { "type": "number", "description": "How well it fits" },
        "matched": texts("Where words of the query occur"),
    });
    closed_object(&properties, &["unapproved", "skill_state", "score", "matched"])
}

/// The value of `propose_skill_update`.
pub(super) fn propose_output_schema() -> Value {
    let finding = json!({
        "rule": text("The rule"),
        "severity": { "type": "string", "enum": ["error", "warning", "note"] },
        "line": count("The line; 0 is the whole file"),
        "message": text("What was found"),
    });
    let findings = |description: &str| {
        let items = closed_object(&finding, &[]);
        json!({ "type": "array", "items": items, "description": description })
    };
    let lint = json!({
        "new": findings("What it adds"),
        "gone": findings("What it settles"),
    });
    let flag = json!({
        "type": "object",
        "properties": { "flag": { "type": "string" } },
        "required": ["flag"],
    });
    let fuzz = json!({
        "hunk": count("The hunk; 0 is the whole diff"),
        "line": count("The line it was applied at"),
        "kind": either_type("string", "object", "What was overlooked"),
    });
    let properties = json!({
        "proposal": text("The proposal's id"),
        "number": count("Its number, for people"),
        "state": {
            "type": "string",
            "enum": crate::ledger::ProposalState::ALL,
            "description": "Where it was in its life when it was recorded",
        },
        "merged": { "type": "boolean", "description": "The same one was open already" },
        "count": count("How often it was made"),
        "skill_id": text("The skill"),
        "path": text("The file"),
        "base_digest": digest("The digest of the file as it is; null for a new one"),
        "new_digest": text("The digest of the proposed text"),
        "added": count("Lines it adds"),
        "removed": count("Lines it removes"),
        "flags": {
            "type": "array",
            "items": flag,
            "description": "What a reviewer is shown first",
        },
        "fuzz": {
            "type": "array",
            "items": closed_object(&fuzz, &[]),
            "description": "Where the diff was not taken literally",
        },
        "lint": closed_object(&lint, &[]),
        "next": text("What this means for the task at hand"),
        "review": text("What a person decided at once, where one was asked"),
    });
    closed_object(&properties, &["review"])
}
