//! The registry's tools: what they are called, what they take, who answers.

use skill_store::{
    Answer, Audience, ListArgs, ReadArgs, ResourceArgs, Snapshot, Store, list_skills, read_skill,
    read_skill_resource,
};
use skillhost_sdk::prelude::*;

use crate::refused;

/// Up to this many ids are enumerated in the schema of `skill_id`.
const ENUM_LIMIT: usize = 200;

/// Declares the tools for one audience.
pub(crate) fn specs(snapshot: &Snapshot, audience: Audience) -> Vec<ToolSpec> {
    let skill_id = skill_id_schema(snapshot, audience);
    let object = |properties: Value, required: &[&str]| {
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    };
    let list = object(
        json!({
            "query": {
                "type": "string",
                "description": "Only skills whose id, name, description or tags contain this text",
            },
            "limit": { "type": "integer", "minimum": 1, "description": "At most this many" },
            "tags": {
                "type": "array",
                "items": { "type": "string" },
                "description": "Only skills that have all of these tags",
            },
        }),
        &[],
    );
    let read = object(json!({ "skill_id": skill_id }), &["skill_id"]);
    let resource = object(
        json!({
            "skill_id": skill_id,
            "path": {
                "type": "string",
                "description": "The file, relative to the skill, as read_skill lists it",
            },
            "offset": {
                "type": "integer",
                "minimum": 0,
                "description": "Byte to start at: the next_offset of the page before",
            },
            "limit": { "type": "integer", "minimum": 1, "description": "At most this many bytes" },
        }),
        &["skill_id", "path"],
    );
    vec![
        ToolSpec::new(
            "list_skills",
            "Lists the available skills: id, description, tags, tokens. Use it when the catalog \
             in the prompt is cut or to look for a skill.",
            list,
        )
        .read_only(),
        ToolSpec::new(
            "read_skill",
            "Loads the full instructions of a skill. Use it before a task that a skill of the \
             catalog covers, and follow what it says.",
            read,
        )
        .read_only(),
        ToolSpec::new(
            "read_skill_resource",
            "Reads a file of a skill: a template, reference or script that its instructions name.",
            resource,
        )
        .read_only(),
    ]
}

fn skill_id_schema(snapshot: &Snapshot, audience: Audience) -> Value {
    let mut schema = json!({ "type": "string", "description": "The skill, as in the catalog" });
    let ids: Vec<_> =
        snapshot.visible(audience).take(ENUM_LIMIT + 1).map(|skill| skill.id().as_str()).collect();
    // An empty enum would allow nothing and is not valid everywhere.
    if (1..=ENUM_LIMIT).contains(&ids.len()) && audience == Audience::Model {
        schema["enum"] = json!(ids);
    }
    schema
}

/// Calls a tool; the whole call sees one snapshot.
pub(crate) fn invoke(
    store: &Store,
    audience: Audience,
    tool: &str,
    args: Args<'_>,
) -> Result<ToolOutput> {
    let snapshot = store.snapshot();
    let answer = match tool {
        "list_skills" => Ok(list_skills(&snapshot, audience, &args.parse::<ListArgs>()?)),
        "read_skill" => {
            let args: ReadArgs = args.parse()?;
            tracing::debug!(skill = args.skill_id, "read_skill");
            read_skill(store, &snapshot, audience, &args)
        }
        "read_skill_resource" => {
            let args: ResourceArgs = args.parse()?;
            tracing::debug!(skill = args.skill_id, path = args.path, "read_skill_resource");
            read_skill_resource(&snapshot, audience, &args)
        }
        other => return Err(ExtError::not_found(format!("no tool `{other}`"))),
    };
    let Answer { text, structured } = answer.map_err(refused)?;
    ToolOutput::text(text).with_structured(&structured)
}
