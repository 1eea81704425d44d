//! The JSON Schema of `manifest.yaml`.
//!
//! The types below describe the file as authors write it, and editors display their comments. They
//! are never instantiated: [`parse_manifest`](crate::parse_manifest) parses the file itself,
//! because it reports the position of every error. Tests keep the two consistent.
#![expect(dead_code, reason = "only the schema of these types is used")]

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};
use skillhost_policy::Guarantee;

use crate::rules;

/// Returns the JSON Schema (draft 7, which has the best editor support) of `manifest.yaml`.
///
/// Every file that [`parse_manifest`](crate::parse_manifest) accepts is valid under it. The reverse
/// does not hold: a duplicate dependency, for example, is found only by the parser.
pub fn manifest_schema() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| {
        settings.inline_subschemas = true;
        settings.untagged_enum_variant_titles = false;
    });
    // Inlined, so that the Rust names of the types do not become part of the schema.
    let mut schema = settings.into_generator().into_root_schema_for::<ManifestSchema>();
    RecursiveTransform(simplify_schema).transform(&mut schema);
    schema.insert(
        "oneOf".to_owned(),
        json!([{ "required": ["entrypoint"] }, { "required": ["agent"] }]),
    );
    let mut schema = schema.to_value();
    // The order of fields depends on a feature of `serde_json`; the text must not.
    schema.sort_all_objects();
    schema
}

/// Removes properties that schemars derives from Rust and that the file format does not have.
///
/// These are `null` for an absent `Option`, the width of numbers and the line breaks of comments.
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
    /// The id of the extension, unique among all that are loaded.
    #[schemars(regex(pattern = rules::ID.pattern))]
    id: String,
    /// The display name.
    #[schemars(regex(pattern = rules::LINE.pattern))]
    name: String,
    /// The extension's own version: up to three numbers, then optionally `-pre` and `+build`. Read
    /// verbatim: `1.10` is `1.10`.
    version: Option<VersionSchema>,
    /// The purpose of the extension, in a sentence or two.
    description: Option<String>,
    /// The base name of the extension's library: `echo` means `libecho.so`. The kernel looks for it
    /// in the manifest's directory, in `target/release` there, and in the installation of
    /// skillhost. Or, as a mapping, the command of a process that speaks MCP.
    entrypoint: Option<EntrypointSchema>,
    /// The required SHA-256 of the library or of the files of a process extension, in hexadecimal.
    #[schemars(regex(pattern = rules::SHA256.pattern))]
    sha256: Option<String>,
    /// The fields of a declarative agent; a `prompt.jinja2` in the manifest's directory precedes
    /// its other instructions.
    agent: Option<AgentSchema>,
    /// The extensions that are loaded before this one.
    depends_on: Option<Vec<DependencySchema>>,
    /// The extension's configuration. Settings can override every key.
    config: Option<Map<String, Value>>,
    /// The names of the secrets that the extension may request.
    secrets: Option<Vec<Secret>>,
    /// The environment variables of a process, with their values; requires a process. List secrets
    /// in `secrets` instead.
    env: Option<BTreeMap<String, Variable>>,
    /// The timeout of a process's handshake in milliseconds, in the trial run of a build and at
    /// each start; 10000 by default. Requires a process.
    #[schemars(range(min = 1000, max = 300_000))]
    start_timeout_ms: Option<u32>,
    /// The process is a channel: it carries messages between people on another platform and agents.
    /// Requires a process.
    channel: Option<bool>,
    /// The permissions and limits of a process beyond the default: its data directory and its home
    /// are writable, the system's libraries and its interpreter readable, and there is no network.
    /// The approval of the manifest shows and grants them. Requires a process.
    sandbox: Option<SandboxSchema>,
    /// The final names and the selection of the extension's tools; not for agents.
    tools: Option<Tools>,
    /// The extension is loaded; `true` by default.
    #[schemars(extend("default" = true))]
    enabled: Option<bool>,
    /// The steps that an operator takes before the extension works.
    setup_instructions: Option<String>,
    /// The events that the extension publishes, for documentation, and those that it handles.
    events: Option<EventsSchema>,
    /// The scheduled jobs; they run under `skillhost run`.
    schedules: Option<Vec<ScheduleSchema>>,
    /// The exports to clients of the MCP server; of agents, for those with `integration_mode: tool`.
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
    /// is one in PATH, or a relative path that stays in the manifest's directory; it is started in
    /// (a copy of) that directory.
    #[schemars(length(min = 1, max = rules::MAX_COMMAND_WORDS), inner(regex(pattern = rules::ARGUMENT.pattern)))]
    command: Vec<String>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct SandboxSchema {
    /// The files that it may use besides its own; paths are absolute or begin with `~/`.
    filesystem: Option<SandboxFilesSchema>,
    /// The network that it may use.
    network: Option<SandboxNetworkSchema>,
    /// Limits that differ from the default.
    limits: Option<SandboxLimitsSchema>,
    /// The weakest isolation level at which it may run.
    #[schemars(extend("default" = "landlock"))]
    minimum: Option<SandboxLevelSchema>,
    /// The guarantees that the level must have on the machine, besides the default ones.
    require: Option<Vec<Guarantee>>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
struct SandboxFilesSchema {
    /// The paths that it may read.
    #[schemars(length(max = rules::MAX_SANDBOX_ENTRIES), inner(regex(pattern = rules::SANDBOX_PATH.pattern)))]
    allow_read: Option<Vec<String>>,
    /// Paths inside of those that it must not read.
    #[schemars(length(max = rules::MAX_SANDBOX_ENTRIES), inner(regex(pattern = rules::SANDBOX_PATH.pattern)))]
    deny_read: Option<Vec<String>>,
    /// The paths that it may write and read.
    #[schemars(length(max = rules::MAX_SANDBOX_ENTRIES), inner(regex(pattern = rules::SANDBOX_PATH.pattern)))]
    allow_write: Option<Vec<String>>,
    /// Paths inside of those that it must not write.
    #[schemars(length(max = rules::MAX_SANDBOX_ENTRIES), inner(regex(pattern = rules::SANDBOX_PATH.pattern)))]
    deny_write: Option<Vec<String>>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
struct SandboxNetworkSchema {
    /// The hosts that it may reach, such as `api.example.org` or `*.example.org`.
    #[schemars(length(max = rules::MAX_SANDBOX_ENTRIES), inner(regex(pattern = rules::DOMAIN.pattern)))]
    allowed_domains: Option<Vec<String>>,
    /// Hosts among those that it must not reach.
    #[schemars(length(max = rules::MAX_SANDBOX_ENTRIES), inner(regex(pattern = rules::DOMAIN.pattern)))]
    denied_domains: Option<Vec<String>>,
    /// The sockets of other programs that it may connect to.
    #[schemars(length(max = rules::MAX_SANDBOX_ENTRIES), inner(regex(pattern = rules::SANDBOX_PATH.pattern)))]
    allow_unix_sockets: Option<Vec<String>>,
    /// It may listen on its own loopback interface.
    #[schemars(extend("default" = true))]
    allow_local_binding: Option<bool>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
struct SandboxLimitsSchema {
    /// The memory of all its processes together, in MiB.
    #[schemars(range(min = 1))]
    memory_mib: Option<u64>,
    /// The number of its processes and threads.
    #[schemars(range(min = 1))]
    tasks: Option<u64>,
    /// The size of a file, in MiB.
    #[schemars(range(min = 1))]
    file_mib: Option<u64>,
    /// The growth of the writable directories, in MiB.
    #[schemars(range(min = 1))]
    disk_mib: Option<u64>,
    /// The number of files by which the writable directories may grow.
    #[schemars(range(min = 1))]
    files: Option<u64>,
    /// The size of the private temporary directory, in MiB.
    #[schemars(range(min = 1))]
    temporary_mib: Option<u64>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
enum SandboxLevelSchema {
    Landlock,
    Namespaces,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct McpSchema {
    /// The names of the tools that clients may call; none by default. An agent exports itself: its
    /// own id.
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
    /// The extension works without it; no warning is reported while it is missing.
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
    /// A prefix of the name of each tool that `rename` does not list, such as `weather_`.
    #[schemars(regex(pattern = rules::PREFIX.pattern))]
    prefix: Option<String>,
    /// The names of single tools: from the extension's own name to the final name.
    rename: Option<BTreeMap<String, ToolName>>,
    /// Globs over the extension's own names. Without this field every tool is offered, with `[]`
    /// none.
    #[schemars(inner(regex(pattern = rules::GLOB.pattern)))]
    include: Option<Vec<String>>,
    /// Globs over the extension's own names; a match is omitted even if it is included.
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
    /// The way in which other agents call it: by delegation under its id (`standalone`), or
    /// additionally as a tool named by its id (`tool`).
    #[schemars(extend("default" = "standalone"))]
    integration_mode: Option<IntegrationModeSchema>,
    /// The model that it runs on; the settings define the default.
    #[schemars(regex(pattern = rules::LINE.pattern))]
    model: Option<String>,
    /// Instructions that follow `prompt.jinja2` and the skills bound by `uses_skills`.
    instructions: Option<String>,
    /// The model may request several tool calls at once; the model defines the default.
    parallel_tool_calls: Option<bool>,
    /// Parameters passed to the model unchanged, such as `temperature`.
    parameters: Option<Map<String, Value>>,
    /// The tools of the agent, by their names or by the id of an extension for all of its tools:
    /// `kernel` has those that delegate tasks to other agents, build and restart, `sandbox` means
    /// every extension in `sandbox/extensions`, an agent with `integration_mode: tool` is
    /// a tool under its own id.
    #[schemars(inner(regex(pattern = rules::TOOL.pattern)))]
    uses_tools: Option<Vec<String>>,
    /// The ids of the skills whose instructions are always in its prompt, in this order.
    #[schemars(inner(regex(pattern = rules::SKILL.pattern)))]
    uses_skills: Option<Vec<String>>,
    /// The skills that its catalog lists: `all`, only those in `uses_skills` (`declared`), `none`,
    /// or those that match globs (a list of them, `[]` is none, or a mapping). The default is
    /// `declared` if it binds skills, otherwise `all`.
    catalog: Option<CatalogSchema>,
    /// The effect of a skill's `allowed-tools`: these tools require no further approval (`grant`),
    /// or only these tools may be called (`restrict`).
    #[schemars(extend("default" = "grant"))]
    allowed_tools_mode: Option<AllowedToolsModeSchema>,
    /// The effect of a skill's security manifest: none (`off`), calls that use an undeclared
    /// capability are reported (`report`) or refused (`enforce`). The settings define the default and
    /// may require more.
    capability_mode: Option<CapabilityModeSchema>,
    /// The limits of one invocation.
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
#[schemars(rename_all = "snake_case")]
enum CapabilityModeSchema {
    Off,
    Report,
    Enforce,
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
    /// Globs over skill ids; a match is omitted even if it is included.
    #[schemars(inner(regex(pattern = rules::GLOB.pattern)))]
    exclude: Option<Vec<String>>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct LimitsSchema {
    /// The maximum number of model requests.
    #[schemars(range(min = 1))]
    max_turns: Option<u32>,
    /// The maximum number of tokens, input and output together.
    #[schemars(range(min = 1))]
    max_tokens_per_invocation: Option<u64>,
    /// The maximum active time, in milliseconds: model requests and tool calls count, waits do not.
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
    /// This extension loads without it.
    #[schemars(extend("default" = false))]
    optional: Option<bool>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct EventsSchema {
    /// The published events, for documentation.
    publishes: Option<Vec<EventSchema>>,
    /// The subscriptions.
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
    /// A description of the event and its cause.
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
    /// The topic, or a prefix up to a dot: `skill` also matches `skill.added`; `*` matches all.
    #[schemars(regex(pattern = rules::TOPIC.pattern))]
    topic: String,
    /// A description of the reaction.
    description: Option<String>,
    /// The handler: a line for the operator (`notify_user`), a task for an agent (`invoke_agent`), or
    /// the library's `EventProvider` (`custom`). Without it the entry is documentation.
    handler: Option<HandlerSchema>,
    /// The line for the operator, as a Jinja template of `event` and `payload`. The default is the
    /// topic and a summary of the payload.
    text: Option<String>,
    /// The agent; in an agent's own manifest the default is that agent.
    #[schemars(regex(pattern = rules::ID.pattern))]
    agent: Option<String>,
    /// The agent's task, as a Jinja template of `event` and `payload`.
    prompt: Option<String>,
    /// The timeout of one delivery in milliseconds, 60000 by default; of an agent's task, the time
    /// in model requests and tool calls, 600000 by default.
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
    /// A cron pattern of five fields: minute, hour, day of the month, month, day of the week.
    cron: String,
    /// The time zone of the pattern, such as `Europe/Berlin`; UTC by default.
    timezone: Option<String>,
    /// The task that is passed to the library's `SchedulerProvider`; requires a library. One of
    /// `task`, `tool` and `prompt` is required.
    #[schemars(regex(pattern = rules::TOOL.pattern))]
    task: Option<String>,
    /// The tool of the extension to call; requires a library or a process.
    #[schemars(regex(pattern = rules::TOOL.pattern))]
    tool: Option<String>,
    /// The arguments of `tool`.
    arguments: Option<Map<String, Value>>,
    /// The task of the agent; requires an agent.
    prompt: Option<String>,
    /// The timeout of one run in milliseconds, 60000 by default; of an agent's task, the time in
    /// model requests and tool calls, 600000 by default.
    #[schemars(range(min = 1))]
    timeout_ms: Option<u32>,
}
