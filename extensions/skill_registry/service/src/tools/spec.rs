//! Names, descriptions and argument schemas of the tools.

use serde_json::{Value, json};
use skill_catalog::{Audience, Snapshot};
use skillhost_payload::{
    ApprovalPolicy, SkillUse, SkillUseKind, TaskSupport, ToolAudience, ToolSpec, object_schema,
};

use super::session::{LOAD_SKILLS, MAX_LOADED, READ_LOADED, UNLOAD_SKILLS};
use super::values;

/// The maximum number of ids that the schema of `skill_id` enumerates.
const ENUM_LIMIT: usize = 200;

/// Declares the registry's tools for an audience. Only a tool whose structured result has all
/// information of the text has a schema of it.
#[must_use]
pub fn tool_specs(snapshot: &Snapshot, audience: Audience<'_>) -> Vec<ToolSpec> {
    let skill_id = skill_id_schema(snapshot, audience);
    let prompt = json!({ "type": "string", "description": "The user's message" });
    let reads = |name: &str, description: &str, input_schema| ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema,
        output_schema: None,
        read_only: true,
        destructive: false,
        needs_approval: ApprovalPolicy::Never,
        audience: ToolAudience::Agent,
        changes_skills: false,
        effect: None,
        task: TaskSupport::Never,
        needs: Vec::new(),
        skill_use: None,
    };
    vec![
        ToolSpec {
            output_schema: Some(values::list_output_schema()),
            ..reads("list_skills", LIST, list_schema())
        },
        ToolSpec {
            changes_skills: true,
            skill_use: skill_use(SkillUseKind::Instructions, "skill_id", None),
            ..reads(
                "read_skill",
                READ,
                object_schema(&json!({ "skill_id": skill_id }), &["skill_id"]),
            )
        },
        ToolSpec {
            skill_use: skill_use(SkillUseKind::Resource, "skill_id", Some("path")),
            ..reads("read_skill_resource", RESOURCE, resource_schema(&skill_id))
        },
        ToolSpec {
            changes_skills: true,
            skill_use: skill_use(SkillUseKind::Instructions, "names", None),
            ..reads(LOAD_SKILLS, LOAD, load_schema())
        },
        ToolSpec { changes_skills: true, ..reads(UNLOAD_SKILLS, UNLOAD, unload_schema()) },
        ToolSpec {
            skill_use: skill_use(SkillUseKind::Resource, "skill", Some("path")),
            ..reads(READ_LOADED, READ_FILE, read_loaded_schema())
        },
        ToolSpec {
            output_schema: Some(values::propose_output_schema()),
            read_only: false,
            ..reads("propose_skill_update", PROPOSE, propose_schema())
        },
        ToolSpec {
            audience: ToolAudience::Operator,
            ..reads(
                "explain_catalog",
                EXPLAIN,
                object_schema(&json!({ "prompt": prompt }), &["prompt"]),
            )
        },
    ]
}

/// Returns the use of a skill that the arguments of a tool name.
fn skill_use(kind: SkillUseKind, skill: &str, path: Option<&str>) -> Option<SkillUse> {
    Some(SkillUse {
        kind,
        skill_argument: skill.to_owned(),
        path_argument: path.map(str::to_owned),
    })
}

const LIST: &str = "Lists the available skills: id, description, tags, tokens. With a query, \
    finds the skills that fit a task, the best first. Use it when the catalog in the prompt is cut \
    or none of its skills seems to fit.";

fn list_schema() -> Value {
    let properties = json!({
        "query": {
            "type": "string",
            "description": "The task in a few plain words, e.g. `fill in a PDF form`; all texts of \
                the skills are searched. \"exact phrase\" and prefix* narrow the result",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "description": "At most this many; 10 with a query, else 100",
        },
        "tags": {
            "type": "array",
            "items": { "type": "string" },
            "description": "Only skills that have all of these tags",
        },
    });
    object_schema(&properties, &[])
}

const READ: &str = "Loads the full instructions of a skill. Use it before a task that a skill of \
    the catalog covers, and follow them.";

const RESOURCE: &str =
    "Reads a file of a skill: a template, reference or script that its instructions name.";

fn resource_schema(skill_id: &Value) -> Value {
    let properties = json!({
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
    });
    object_schema(&properties, &["skill_id", "path"])
}

const LOAD: &str = "Loads skills by their names in the catalog. You must load a skill before you use \
    its instructions, files or scripts. From your next message on, the instructions of the loaded \
    skills are in <active_skills>; if they conflict, the later one applies. The mode replace (the \
    default) unloads the others, add keeps them.";

const UNLOAD: &str = "Unloads skills that are no longer needed: those of `names`, or `all`. Their \
    instructions no longer apply.";

const READ_FILE: &str = "Reads a file of a loaded skill (a reference, a template, an asset) by its \
    path in the skill; of the skill loaded last if `skill` is not given. Binary files are base64. \
    Continue a long file at next_offset.";

fn load_schema() -> Value {
    let properties = json!({
        "names": {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_LOADED,
            "items": { "type": "string" },
        },
        "mode": { "type": "string", "enum": ["replace", "add"], "default": "replace" },
    });
    object_schema(&properties, &["names"])
}

fn unload_schema() -> Value {
    let properties = json!({
        "names": { "type": "array", "items": { "type": "string" } },
        "all": { "type": "boolean" },
    });
    object_schema(&properties, &[])
}

fn read_loaded_schema() -> Value {
    let properties = json!({
        "path": { "type": "string" },
        "skill": { "type": "string" },
        "offset": { "type": "integer", "minimum": 0 },
        "limit": { "type": "integer", "minimum": 1, "maximum": 65_536 },
    });
    object_schema(&properties, &["path"])
}

const PROPOSE: &str = "Proposes a better text for a file of a skill, or a new skill, to the person \
    who maintains them. Use it when following a skill showed that it is wrong, outdated or lacks \
    something. It never changes the skill: a person reviews the proposal later, so go on with the \
    skill as it is. Read the file first, then give either `diff` (a unified diff against exactly \
    its current text; for small edits) or `new_content` (the whole new text). For a new skill give \
    a new `skill_id` and a whole SKILL.md with its frontmatter.";

fn propose_schema() -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let properties = json!({
        "skill_id": text(
            "The skill, as in the catalog; or the id of a new one: lower-case letters, digits and \
             single hyphens",
        ),
        "path": text("The file, relative to the skill; SKILL.md if it is not given"),
        "diff": text(
            "A unified diff of this one file: @@ hunks with lines of context that are exactly in \
             the file",
        ),
        "new_content": text("The whole new text, instead of a diff; SKILL.md with its frontmatter"),
        "justification": text("The reason for the change: the decision is based on it"),
        "evidence": {
            "type": "array",
            "items": { "type": "string" },
            "maxItems": 20,
            "description": "Evidence, one piece per item: errors, transcripts, results",
        },
    });
    object_schema(&properties, &["skill_id", "justification"])
}

const EXPLAIN: &str = "Explains which skills an agent sees for a prompt, why others are missing, \
    and which parts of the catalog in its prompt are cut.";

fn skill_id_schema(snapshot: &Snapshot, audience: Audience<'_>) -> Value {
    let mut schema = json!({ "type": "string", "description": "The skill, as in the catalog" });
    let ids: Vec<_> =
        snapshot.visible(audience).take(ENUM_LIMIT + 1).map(|skill| skill.id().as_str()).collect();
    // An empty enum would allow no id and is not valid in every client.
    if (1..=ENUM_LIMIT).contains(&ids.len()) && audience != Audience::Operator {
        schema["enum"] = json!(ids);
    }
    schema
}
