//! The JSON Schema of `manifest.yaml`.
//!
//! The types below describe the file as authors write it, and their comments are what an editor
//! shows. They are never filled: [`parse()`](crate::parse()) reads the file itself, to have a position for
//! every mistake. Tests hold the two together.
#![expect(dead_code, reason = "only the schema of these types is used")]

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use crate::rules;

/// Returns the JSON Schema (draft 7, which editors understand best) of `manifest.yaml`.
///
/// Whatever [`parse()`](crate::parse()) accepts is valid under it. It finds most mistakes while one types,
/// but not all: whether a dependency is listed twice, say, is left to `parse`.
pub fn manifest_schema() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| {
        settings.inline_subschemas = true;
        settings.untagged_enum_variant_titles = false;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<ManifestSchema>();
    RecursiveTransform(simplify_schema).transform(&mut schema);
    schema.insert(
        "oneOf".to_owned(),
        json!([{ "required": ["entrypoint"] }, { "required": ["agent"] }]),
    );
    let mut schema = schema.to_value();
    // In whatever order the parser in this build keeps fields, the text is to be the same.
    schema.sort_all_objects();
    schema
}

/// Removes what schemars derives from Rust and the file format does not have: `null` for an
/// absent `Option`, the width of numbers, the line breaks of comments.
fn simplify_schema(schema: &mut Schema) {
    schema.remove("format");
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = &mut types[..] {
            let only = only.take();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        choices.retain(|choice| *choice != json!({ "type": "null" }));
        if let [Value::Object(only)] = &mut choices[..] {
            let only = std::mem::take(only);
            schema.remove("anyOf");
            for (key, value) in only {
                schema.ensure_object().entry(key).or_insert(value);
            }
        }
    }
}

/// An extension of skillhost: a library or a process (`entrypoint`), or a declarative agent
/// (`agent`).
#[derive(JsonSchema)]
#[schemars(title = "skillhost manifest", deny_unknown_fields)]
struct ManifestSchema {
    /// Identifies the extension among all that are loaded.
    #[schemars(regex(pattern = rules::ID.pattern))]
    id: String,
    /// The name shown to people.
    #[schemars(regex(pattern = rules::LINE.pattern))]
    name: String,
    /// The extension's own version: up to three numbers, then optionally `-pre` and `+build`. Taken
    /// as written: `1.10` is `1.10`.
    version: Option<VersionSchema>,
    /// What the extension is for, in a sentence or two.
    description: Option<String>,
    /// The base name of the extension's library: `echo` stands for `libecho.so`. It is searched
    /// beside the manifest, in `target/release` there, and where skillhost is installed.
    /// Or, as a mapping, the command of a process that speaks MCP.
    entrypoint: Option<EntrypointSchema>,
    /// The SHA-256 the library must have, or the files of a process extension, in hexadecimal.
    #[schemars(regex(pattern = rules::SHA256.pattern))]
    sha256: Option<String>,
    /// Makes the extension a declarative agent; a `prompt.jinja2` beside the manifest is the
    /// beginning of its instructions.
    agent: Option<AgentSchema>,
    /// The extensions that are loaded before this one.
    depends_on: Option<Vec<DependencySchema>>,
    /// The extension's configuration. Settings can override every key.
    config: Option<Map<String, Value>>,
    /// The names of the secrets the extension may ask for.
    secrets: Option<Vec<Secret>>,
    /// Variables of the environment of a process extension, with their values; a process only. No
    /// secrets: they are named in `secrets`.
    env: Option<BTreeMap<String, Variable>>,
    /// The milliseconds until a process has answered the handshake, when it is tried and at each
    /// start; 10000 without it. A process only.
    #[schemars(range(min = 1000, max = 300_000))]
    start_timeout_ms: Option<u32>,
    /// How the extension's tools are named for everybody else, and which are offered; not of an agent.
    tools: Option<Tools>,
    /// Whether the extension is loaded at all; it is unless this says `false`.
    #[schemars(extend("default" = true))]
    enabled: Option<bool>,
    /// What an operator has to do before the extension works.
    setup_instructions: Option<String>,
    /// The events the extension publishes, for documentation, and those it handles.
    events: Option<EventsSchema>,
    /// What happens at certain times while the kernel runs (`skillhost run`).
    schedules: Option<Vec<ScheduleSchema>>,
    /// What clients of the MCP server are offered of the extension; not of an agent.
    mcp: Option<McpSchema>,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
enum EntrypointSchema {
    Library(#[schemars(regex(pattern = rules::ENTRYPOINT.pattern))] String),
    Process(ProcessSchema),
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ProcessSchema {
    /// The program and its arguments: an MCP server on its standard input and output. The program
    /// is one in PATH, or a relative path that stays in the manifest's folder; it is started in
    /// (a copy of) that folder.
    #[schemars(length(min = 1, max = rules::MOST_WORDS), inner(regex(pattern = rules::ARGUMENT.pattern)))]
    command: Vec<String>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct McpSchema {
    /// The names of the tools they may call. Without a statement none.
    #[schemars(inner(regex(pattern = rules::TOOL.pattern)))]
    tools: Option<Vec<String>>,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
enum Secret {
    Name(#[schemars(regex(pattern = rules::SECRET.pattern))] String),
    Entry(SecretEntry),
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct SecretEntry {
    /// The name of the secret.
    #[schemars(regex(pattern = rules::SECRET.pattern))]
    name: String,
    /// Whether the extension can do without it: then nothing is said while it is missing.
    #[schemars(extend("default" = false))]
    optional: Option<bool>,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
enum Variable {
    Text(#[schemars(regex(pattern = rules::ARGUMENT.pattern))] String),
    Number(f64),
    Boolean(bool),
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Tools {
    /// Stands before the name of each tool that `rename` does not name: `weather_`.
    #[schemars(regex(pattern = rules::PREFIX.pattern))]
    prefix: Option<String>,
    /// Names for single tools: the extension's own name, then the one that is offered.
    rename: Option<BTreeMap<String, ToolName>>,
    /// Globs over the extension's own names. Without this field every tool is offered, with `[]` none.
    #[schemars(inner(regex(pattern = rules::GLOB.pattern)))]
    include: Option<Vec<String>>,
    /// Globs over the extension's own names; what matches is left out even if it is included.
    #[schemars(inner(regex(pattern = rules::GLOB.pattern)))]
    exclude: Option<Vec<String>>,
}

#[derive(JsonSchema)]
struct ToolName(#[schemars(regex(pattern = rules::TOOL.pattern))] String);

#[derive(JsonSchema)]
#[schemars(untagged)]
enum VersionSchema {
    Text(#[schemars(regex(pattern = rules::VERSION.pattern))] String),
    Number(f64),
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct AgentSchema {
    /// How other agents reach it: by delegation under its id (`standalone`), or besides as a tool
    /// with its id (`tool`).
    #[schemars(extend("default" = "standalone"))]
    integration_mode: Option<IntegrationModeSchema>,
    /// The model it runs on; the settings name the default.
    #[schemars(regex(pattern = rules::LINE.pattern))]
    model: Option<String>,
    /// Instructions that follow `prompt.jinja2` and the skills bound by `uses_skills`.
    instructions: Option<String>,
    /// Whether the model may ask for several tools at once; the model's own default without.
    parallel_tool_calls: Option<bool>,
    /// Parameters handed to the model as they are, such as `temperature`.
    parameters: Option<Map<String, Value>>,
    /// The tools it is offered, by their names or by the id of an extension with all of its tools:
    /// `kernel` has those that hand tasks to other agents, build and restart, `sandbox` stands for
    /// every extension in `sandbox/extensions`, an agent with `integration_mode: tool` is
    /// a tool under its own id.
    #[schemars(inner(regex(pattern = rules::TOOL.pattern)))]
    uses_tools: Option<Vec<String>>,
    /// The ids of the skills whose instructions it always carries, in this order.
    #[schemars(inner(regex(pattern = rules::SKILL.pattern)))]
    uses_skills: Option<Vec<String>>,
    /// Which skills its catalog lists: `all`, only those in `uses_skills` (`declared`), `none`,
    /// or those that match globs (a list of them, `[]` is none, or a mapping). Without a statement `declared` if it binds skills, else `all`.
    catalog: Option<CatalogSchema>,
    /// What a skill's `allowed-tools` means: these tools need no further approval (`grant`), or
    /// only these tools may be called (`restrict`).
    #[schemars(extend("default" = "grant"))]
    allowed_tools_mode: Option<AllowedToolsModeSchema>,
    /// What one invocation may use up.
    limits: Option<LimitsSchema>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
enum IntegrationModeSchema {
    Standalone,
    Tool,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
enum AllowedToolsModeSchema {
    Grant,
    Restrict,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
enum CatalogSchema {
    Scope(CatalogScopeSchema),
    Include(#[schemars(inner(regex(pattern = rules::GLOB.pattern)))] Vec<String>),
    Globs(CatalogGlobsSchema),
}

#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
enum CatalogScopeSchema {
    All,
    Declared,
    None,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct CatalogGlobsSchema {
    /// Globs over skill ids. Without this field every skill is included, with `[]` none.
    #[schemars(inner(regex(pattern = rules::GLOB.pattern)))]
    include: Option<Vec<String>>,
    /// Globs over skill ids; what matches is left out even if it is included.
    #[schemars(inner(regex(pattern = rules::GLOB.pattern)))]
    exclude: Option<Vec<String>>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct LimitsSchema {
    /// The number of model calls.
    #[schemars(range(min = 1))]
    max_turns: Option<u32>,
    /// The number of tokens, input and output together.
    #[schemars(range(min = 1))]
    max_tokens_per_invocation: Option<u64>,
    /// The wall-clock time, in milliseconds.
    #[schemars(range(min = 1))]
    time_budget_ms: Option<u64>,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
enum DependencySchema {
    Id(#[schemars(regex(pattern = rules::ID.pattern))] String),
    Entry(DependencyEntrySchema),
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct DependencyEntrySchema {
    /// The id of the extension.
    #[schemars(regex(pattern = rules::ID.pattern))]
    id: String,
    /// Whether this extension can do without it.
    #[schemars(extend("default" = false))]
    optional: Option<bool>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct EventsSchema {
    /// What it sends.
    publishes: Option<Vec<EventSchema>>,
    /// What it reacts to.
    subscribes: Option<Vec<SubscriptionSchema>>,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
enum EventSchema {
    Topic(#[schemars(regex(pattern = rules::TOPIC.pattern))] String),
    Entry(EventEntrySchema),
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct EventEntrySchema {
    /// The topic, such as `skill.changed`.
    #[schemars(regex(pattern = rules::TOPIC.pattern))]
    topic: String,
    /// When it is sent.
    description: Option<String>,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
enum SubscriptionSchema {
    Topic(#[schemars(regex(pattern = rules::TOPIC.pattern))] String),
    Entry(SubscriptionEntrySchema),
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct SubscriptionEntrySchema {
    /// The topic, or its beginning up to a dot: `skill` stands for `skill.added` too; `*` for all.
    #[schemars(regex(pattern = rules::TOPIC.pattern))]
    topic: String,
    /// What the extension does with it.
    description: Option<String>,
    /// Who handles it: whoever runs the kernel is told (`notify_user`), an agent is given a task
    /// (`invoke_agent`), or the library's `EventProvider` is called (`custom`). Without it the entry
    /// is documentation.
    handler: Option<HandlerSchema>,
    /// What they are told, as a Jinja template of `event` and `payload`. Without it the topic and what
    /// the event is about.
    text: Option<String>,
    /// The agent; in an agent's own manifest that agent if absent.
    #[schemars(regex(pattern = rules::ID.pattern))]
    agent: Option<String>,
    /// The agent's task, as a Jinja template of `event` and `payload`.
    prompt: Option<String>,
    /// The milliseconds that handling one event may take; 600000 for an agent, else 60000.
    #[schemars(range(min = 1))]
    timeout_ms: Option<u32>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
enum HandlerSchema {
    NotifyUser,
    InvokeAgent,
    Custom,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ScheduleSchema {
    /// The name, unique in the manifest.
    #[schemars(regex(pattern = rules::SCHEDULE.pattern))]
    name: String,
    /// When, as a cron pattern of five fields: minute, hour, day of the month, month, day of the week.
    cron: String,
    /// The time zone of the pattern, such as `Europe/Berlin`; UTC without it.
    timezone: Option<String>,
    /// The task that the library's `SchedulerProvider` is called with; a library only. One of `task`,
    /// `tool` and `prompt` is needed.
    #[schemars(regex(pattern = rules::TOOL.pattern))]
    task: Option<String>,
    /// The tool of the extension that is called; a library or a process only.
    #[schemars(regex(pattern = rules::TOOL.pattern))]
    tool: Option<String>,
    /// The arguments of `tool`.
    arguments: Option<Map<String, Value>>,
    /// The task that the agent is given; an agent only.
    prompt: Option<String>,
    /// The milliseconds that one run may take; 600000 for an agent, else 60000.
    #[schemars(range(min = 1))]
    timeout_ms: Option<u32>,
}
