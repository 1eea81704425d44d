//! The types of the JSON that crosses the boundary.
//!
//! Both sides use these types, so there is one definition of each. Unknown fields are ignored and
//! optional ones have defaults: a payload grows without a new contract version.

use std::borrow::Cow;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

mod effect;
mod published;
mod review;

pub use effect::{ChangeKind, EffectChange, EffectRequest, ToolEffect, effect_interface};
pub use published::{
    PublishedArgument, PublishedBody, PublishedContent, PublishedDetails, PublishedDetailsRequest,
    PublishedEntry, PublishedFile, PublishedPrompt, PublishedPromptRequest, PublishedRequest,
    PublishedSkill, PublishedSkills, PublishedUriRequest,
};
pub use review::{ReviewDecision, ReviewOffer, ReviewRequest};

/// Methods of [`crate::abi::HostApi::call`].
pub mod host_method {
    /// [`super::Event`] without a source → `null`.
    pub const EMIT: &str = "emit";
    /// [`super::SubscribeRequest`] → [`super::SubscriptionId`].
    pub const SUBSCRIBE: &str = "subscribe";
    /// [`super::SubscriptionId`] → the next [`super::Event`]; waits for it.
    pub const NEXT_EVENT: &str = "next_event";
    /// [`super::SubscriptionId`] → `null`.
    pub const UNSUBSCRIBE: &str = "unsubscribe";
    /// [`super::ToolCall`] → [`super::ToolOutput`].
    pub const CALL_TOOL: &str = "call_tool";
    /// Prefix of `provider/<extension>/<interface>/<method>`: bytes → bytes.
    pub const PROVIDER: &str = "provider/";
    /// [`super::UserNotice`] → `null`.
    pub const NOTIFY: &str = "notify";
    /// [`super::SecretRequest`] → [`super::SecretValue`].
    pub const SECRET: &str = "secret";
    /// [`super::AgentTask`] → [`super::AgentAnswer`].
    pub const RUN_AGENT: &str = "run_agent";
    /// [`super::UserNotice`] with the reason → `null`.
    pub const REQUEST_RESTART: &str = "request_restart";
}

/// The interface of skill providers, called through the generic call.
pub mod skill_interface {
    /// Name of the interface.
    pub const NAME: &str = "skill";
    /// [`super::SkillRequest`] → [`super::SkillContent`].
    pub const GET_SKILL_CONTENT: &str = "get_skill_content";
    /// No payload → [`super::SkillGeneration`].
    pub const GENERATION: &str = "generation";
    /// [`super::ActivateSkillRequest`] → [`super::ActiveSkill`].
    pub const ACTIVATE: &str = "activate";
    /// [`super::SkillCreatedReport`] → `null`.
    pub const SKILL_CREATED: &str = "skill_created";
    /// [`super::PublishedRequest`] → [`super::PublishedSkills`].
    pub const LIST_PUBLISHED: &str = "list_published";
    /// [`super::PublishedDetailsRequest`] → a list of [`super::PublishedDetails`].
    pub const PUBLISHED_DETAILS: &str = "published_details";
    /// [`super::PublishedDetailsRequest`] → a number that changes with those details, or `null`.
    pub const PUBLISHED_STAMP: &str = "published_stamp";
    /// [`super::PublishedUriRequest`] → [`super::PublishedBody`].
    pub const READ_PUBLISHED: &str = "read_published";
    /// [`super::PublishedUriRequest`] → a list of [`super::PublishedEntry`].
    pub const READ_PUBLISHED_DIRECTORY: &str = "read_published_directory";
    /// [`super::PublishedPromptRequest`] → [`super::PublishedPrompt`].
    pub const PUBLISHED_PROMPT: &str = "published_prompt";
    /// [`super::ReviewRequest`] → [`super::ReviewOffer`], or `null`.
    pub const OFFER_REVIEW: &str = "offer_review";
    /// [`super::ReviewDecision`] → a text that describes the outcome to the model.
    pub const DECIDE: &str = "decide";
}

/// The interface of embedding providers, called through the generic call.
pub mod embedding_interface {
    /// Name of the interface.
    pub const NAME: &str = "embedding";
    /// No payload → [`super::EmbeddingModelInfo`].
    pub const MODEL: &str = "model";
    /// [`super::EmbedRequest`] → the vectors in the order of the texts, each component `f32` LE.
    // Binary instead of JSON: text would triple the size and cost most of the call.
    pub const EMBED: &str = "embed";
}

/// The interface of extensions that handle events, called through the generic call.
pub mod event_interface {
    /// Name of the interface.
    pub const NAME: &str = "event";
    /// [`super::HandleEventRequest`] → `null`.
    pub const HANDLE: &str = "handle";
}

/// The interface of extensions with scheduled tasks, called through the generic call.
pub mod scheduler_interface {
    /// Name of the interface.
    pub const NAME: &str = "scheduler";
    /// [`super::RunTaskRequest`] → one line that summarizes the run, or `null`.
    pub const RUN: &str = "run";
}

/// The kind of an error; the wire name is the variant in snake case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The named object does not exist.
    NotFound,
    /// The arguments are not valid.
    InvalidArgument,
    /// The caller lacks the permission.
    Denied,
    /// The input or the result exceeds a limit.
    TooLarge,
    /// The state changed since the caller read it.
    Conflict,
    /// A file or device failed.
    Io,
    /// The call was cancelled.
    Cancelled,
    /// The callee panicked; the panic was contained.
    Panicked,
    /// The callee is not loaded or temporarily unavailable.
    Unavailable,
    /// The callee violated the contract.
    Protocol,
    /// The callee exceeded its time limit.
    Timeout,
    /// Any other error, and every kind that is unknown to this build.
    #[serde(other)]
    Failed,
}

impl ErrorKind {
    /// Every kind, in wire order.
    pub const ALL: [Self; 12] = [
        Self::NotFound,
        Self::InvalidArgument,
        Self::Denied,
        Self::TooLarge,
        Self::Conflict,
        Self::Io,
        Self::Cancelled,
        Self::Panicked,
        Self::Unavailable,
        Self::Protocol,
        Self::Timeout,
        Self::Failed,
    ];

    /// Returns the wire name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::InvalidArgument => "invalid_argument",
            Self::Denied => "denied",
            Self::TooLarge => "too_large",
            Self::Conflict => "conflict",
            Self::Io => "io",
            Self::Cancelled => "cancelled",
            Self::Panicked => "panicked",
            Self::Unavailable => "unavailable",
            Self::Protocol => "protocol",
            Self::Timeout => "timeout",
            Self::Failed => "failed",
        }
    }

    /// Parses a wire name; an unknown one is [`ErrorKind::Failed`].
    #[must_use]
    pub fn from_wire(name: &str) -> Self {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name).unwrap_or(Self::Failed)
    }
}

/// The origin of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOrigin {
    /// A model running as an agent.
    #[default]
    Agent,
    /// A person at the command line.
    Operator,
    /// A client of the MCP server.
    Mcp,
}

/// The skills that an agent's catalog lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatalogScope {
    /// Every skill.
    #[default]
    All,
    /// Only the agent's `uses_skills`.
    Declared,
    /// No skill.
    None,
    /// The skills that match `include` and do not match `exclude`.
    #[serde(untagged)]
    Globs {
        /// Globs of ids to list, `*` if absent; an empty list matches no skill.
        #[serde(default = "every_id")]
        include: Vec<String>,
        /// Globs of ids to omit.
        #[serde(default)]
        exclude: Vec<String>,
    },
}

fn every_id() -> Vec<String> {
    vec!["*".to_owned()]
}

/// The caller, turn and deadline of a call; passed with every call.
///
/// Scopes, authors and sessions are taken from here, never from arguments that a model wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallContext {
    /// The agent on whose behalf the call happens; empty for an operator.
    pub agent_id: String,
    /// The session id.
    pub session_id: String,
    /// The turn within the session.
    pub turn_id: String,
    /// A number unique within the process; log events of the callee carry it.
    pub call_id: u64,
    /// The milliseconds that remain for the callee; absent means no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// The size of the model's context window in tokens, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u32>,
    /// The agent's bound skills.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses_skills: Vec<String>,
    /// The agent's catalog scope.
    #[serde(default)]
    pub catalog: CatalogScope,
    /// The origin of the call.
    #[serde(default)]
    pub origin: CallOrigin,
    /// The id of the user message or event that started the chain of calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The digest of the [`ToolEffect`] that a person approved; set by the kernel.
    // The tool makes exactly these changes or fails with `Conflict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_effect: Option<String>,
}

/// The condition under which a tool call requires approval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalPolicy {
    /// No approval is required.
    #[default]
    Never,
    /// Approval is required unless an active skill's `allowed-tools` names the tool.
    UnlessGranted,
    /// Approval is always required.
    Always,
}

/// The callers that a tool is offered to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolAudience {
    /// Models and operators.
    #[default]
    Agent,
    /// Operators only.
    Operator,
}

/// A tool as it is offered to a caller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name, unique among all loaded extensions.
    pub name: String,
    /// The purpose and the use of the tool, for the model.
    pub description: String,
    /// The JSON Schema of the arguments, an object.
    pub input_schema: serde_json::Value,
    /// The JSON Schema of the structured result, an object; the result is as complete as the text.
    // A client may pass only one of the two to its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<serde_json::Value>,
    /// The tool has no side effects.
    #[serde(default)]
    pub read_only: bool,
    /// The tool may delete or overwrite data.
    #[serde(default)]
    pub destructive: bool,
    /// The condition under which a call requires approval.
    #[serde(default)]
    pub needs_approval: ApprovalPolicy,
    /// The callers that the tool is offered to.
    #[serde(default)]
    pub audience: ToolAudience,
}

/// A tool result: text for the model and an optional value for programs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolOutput {
    /// The text for the model.
    pub text: String,
    /// The value for programs.
    // Raw text: the kernel only passes it on, and parsing would be most of the cost of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Box<RawValue>>,
    /// The text describes a failure that the model should react to.
    #[serde(default)]
    pub is_error: bool,
    /// The skill whose instructions are in the text; the agent runtime retains them in the thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<SkillRef>,
}

/// A skill in the version of one digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillRef {
    /// The id of the skill.
    pub skill_id: String,
    /// The SHA-256 of the SKILL.md, hexadecimal.
    pub digest: String,
}

/// A task that an extension delegates to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentTask {
    /// The context of the original call; its session and deadline apply to the run.
    pub context: CallContext,
    /// The id of the agent.
    pub agent_id: String,
    /// The complete task; the agent sees no other text of the caller.
    pub task: String,
}

/// The reply of an agent to a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentAnswer {
    /// The text of the last reply.
    pub text: String,
    /// The id of the run and its transcript.
    pub run_id: String,
}

/// The argument of [`crate::abi::ExtensionModule::create`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ExtensionInit {
    /// The id in the manifest.
    pub id: String,
    /// The home directory.
    pub home: PathBuf,
    /// The extension's private directory; created on first use.
    pub data_dir: PathBuf,
    /// The shared directory of an installed copy, `<prefix>/share/skillhost`.
    #[serde(default)]
    pub share_dir: Option<PathBuf>,
    /// The manifest's `config` with the overrides of the settings.
    pub config: serde_json::Value,
    /// The manifest's `depends_on`.
    pub depends_on: Vec<String>,
}

/// The build information of a library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildInfo {
    /// The Cargo package name.
    pub package: String,
    /// The Cargo package version.
    pub version: String,
}

/// A published event.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Event {
    /// A dotted name such as `skill.added`.
    pub topic: String,
    /// The id of the extension that emitted it; set by the kernel.
    #[serde(default)]
    pub source: String,
    /// A JSON value.
    pub payload: Box<RawValue>,
    /// The sequence number in the home's journal, from 1; set by the kernel, 0 if not stored.
    #[serde(default)]
    pub id: i64,
    /// The id of the user message or event that started the chain of events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The idempotency key: of several events with one topic and key only the first is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl Event {
    /// Creates an event that is not stored yet and has no correlation id.
    #[must_use]
    pub fn new(
        topic: impl Into<String>,
        source: impl Into<String>,
        payload: Box<RawValue>,
    ) -> Self {
        let (topic, source) = (topic.into(), source.into());
        Self { topic, source, payload, id: 0, correlation_id: None, key: None }
    }
}

/// A request to handle an event; delivered at least once, with the same id at every attempt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HandleEventRequest {
    /// The context of an operator, with the event's correlation id.
    pub context: CallContext,
    /// The event.
    pub event: Event,
    /// The number of the attempt, from 1.
    pub attempt: u32,
}

/// A request to run a task of a schedule that is due.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunTaskRequest {
    /// The context of an operator.
    pub context: CallContext,
    /// The name of the task, from the manifest.
    pub task: String,
}

/// A request for the events whose topic is `topic` or begins with `topic` and a dot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SubscribeRequest {
    /// A topic or prefix; empty means every event.
    pub topic: String,
}

/// The id of a subscription of one extension.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct SubscriptionId {
    /// A number unique within the process.
    pub id: u64,
}

/// A call of another extension's tool.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolCall {
    /// The context of the original call, unchanged.
    pub context: CallContext,
    /// The name of the tool.
    pub name: String,
    /// The arguments.
    pub arguments: Box<RawValue>,
}

/// A notice for the operator.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UserNotice {
    /// One line of text.
    pub text: String,
}

/// A request for a secret named in the manifest's `secrets`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SecretRequest {
    /// The name in the manifest.
    pub name: String,
}

/// A secret value; no `Debug`, so that it cannot be logged by accident.
#[derive(Clone, Serialize, Deserialize)]
pub struct SecretValue {
    /// The value, or `None` if the secret is not set.
    pub value: Option<String>,
}

/// A request for the content of a skill.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SkillRequest<'a> {
    /// The id of the skill.
    #[serde(borrow)]
    pub skill_id: Cow<'a, str>,
}

/// A report that an agent created a skill, sent by tools that write files for agents.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SkillCreatedReport {
    /// The context of the call that created the skill, unchanged.
    pub context: CallContext,
    /// The id of the skill.
    pub skill_id: String,
}

/// The instructions of a skill as they are bound into an agent's prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillContent {
    /// The id of the skill.
    pub skill_id: String,
    /// The text for the prompt, in its `<skill_content>` element.
    pub text: String,
    /// The SHA-256 of the SKILL.md, hexadecimal.
    pub digest: String,
    /// The estimated tokens of `text`.
    pub tokens: u32,
    /// The origin, for people.
    pub source: String,
}

/// A request to activate a skill for an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivateSkillRequest {
    /// The caller: agents are limited to their catalog, operators to user-invocable skills.
    pub context: CallContext,
    /// The id of the skill.
    pub skill_id: String,
}

/// The instructions of an active skill and its statement about tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveSkill {
    /// The current content of the skill.
    pub content: SkillContent,
    /// The tools in its `allowed-tools`; absent without the field, empty if it cannot be parsed.
    // An unreadable field must not be taken for "no restriction".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// The tools above require no further approval: an operator owns the skill's root and approved
    /// this digest.
    #[serde(default)]
    pub grants: bool,
}

/// A number that changes whenever any skill's content may have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillGeneration {
    /// The generation.
    pub generation: u64,
}

/// The description of an embedding model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddingModelInfo {
    /// The id of the model and of everything that changes its vectors; only vectors with the same
    /// id are comparable.
    pub id: String,
    /// The number of components of every vector, at least one.
    pub dimension: u32,
}

/// A request for the vectors of texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbedRequest<'a> {
    /// The model that the caller expects; another one causes [`ErrorKind::Conflict`].
    // Vectors of two models must never be mixed, even if the provider was reloaded in between.
    #[serde(borrow)]
    pub model: Cow<'a, str>,
    /// The texts.
    #[serde(borrow)]
    pub texts: Vec<Cow<'a, str>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_kind_wire_names_round_trip() {
        for kind in ErrorKind::ALL {
            assert_eq!(ErrorKind::from_wire(kind.as_str()), kind);
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{}\"", kind.as_str()));
        }
        assert_eq!(ErrorKind::from_wire("from the future"), ErrorKind::Failed);
    }

    #[test]
    fn catalog_scope_parses_manifest_forms() {
        let parse = |text| serde_json::from_str::<CatalogScope>(text).unwrap();
        assert_eq!(parse("\"declared\""), CatalogScope::Declared);
        assert_eq!(
            parse(r#"{"include":["code-*"]}"#),
            CatalogScope::Globs { include: vec!["code-*".into()], exclude: vec![] }
        );
        assert_eq!(
            parse(r#"{"exclude":["code-*"]}"#),
            CatalogScope::Globs { include: vec!["*".into()], exclude: vec!["code-*".into()] }
        );
    }

    #[test]
    fn unknown_context_fields_are_ignored() {
        let text = r#"{"agent_id":"a","session_id":"s","turn_id":"t","call_id":7,"new_field":1}"#;
        let context: CallContext = serde_json::from_str(text).unwrap();
        assert_eq!(context.call_id, 7);
        assert_eq!(context.origin, CallOrigin::Agent);
    }
}
