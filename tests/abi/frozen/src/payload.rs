//! The shapes of the JSON that crosses the boundary.
//!
//! Both sides use these types, so there is one definition of each. Unknown fields are ignored and
//! optional ones have defaults: that is how a payload grows without a new contract version.

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
    /// [`super::Event`] without a source → nothing.
    pub const EMIT: &str = "emit";
    /// [`super::Subscribe`] → [`super::SubscriptionId`].
    pub const SUBSCRIBE: &str = "subscribe";
    /// [`super::SubscriptionId`] → the next [`super::Event`], waiting for it.
    pub const NEXT_EVENT: &str = "next_event";
    /// [`super::SubscriptionId`] → nothing.
    pub const UNSUBSCRIBE: &str = "unsubscribe";
    /// [`super::ToolCall`] → [`super::ToolOutput`].
    pub const CALL_TOOL: &str = "call_tool";
    /// Prefix of `provider/<extension>/<interface>/<method>`: bytes → bytes.
    pub const PROVIDER: &str = "provider/";
    /// [`super::Notice`] → nothing.
    pub const NOTIFY: &str = "notify";
    /// [`super::SecretRequest`] → [`super::SecretValue`].
    pub const SECRET: &str = "secret";
    /// [`super::AgentTask`] → [`super::AgentAnswer`].
    pub const RUN_AGENT: &str = "run_agent";
    /// [`super::Notice`] with the reason → nothing.
    pub const REQUEST_RESTART: &str = "request_restart";
}

/// The interface of skill providers, spoken through the generic call.
pub mod skill_interface {
    /// Name of the interface.
    pub const NAME: &str = "skill";
    /// [`super::SkillRequest`] → [`super::SkillContent`].
    pub const GET_SKILL_CONTENT: &str = "get_skill_content";
    /// Nothing → [`super::Generation`].
    pub const GENERATION: &str = "generation";
    /// [`super::ActivateSkill`] → [`super::ActiveSkill`].
    pub const ACTIVATE: &str = "activate";
    /// [`super::SkillCreated`] → nothing.
    pub const SKILL_CREATED: &str = "skill_created";
    /// [`super::PublishedRequest`] → [`super::PublishedSkills`].
    pub const LIST_PUBLISHED: &str = "list_published";
    /// [`super::PublishedDetailsRequest`] → a list of [`super::PublishedDetails`].
    pub const PUBLISHED_DETAILS: &str = "published_details";
    /// [`super::PublishedDetailsRequest`] → a number that changes with those details, or nothing.
    pub const PUBLISHED_STAMP: &str = "published_stamp";
    /// [`super::PublishedUriRequest`] → [`super::PublishedBody`].
    pub const READ_PUBLISHED: &str = "read_published";
    /// [`super::PublishedUriRequest`] → a list of [`super::PublishedEntry`].
    pub const READ_PUBLISHED_DIRECTORY: &str = "read_published_directory";
    /// [`super::PublishedPromptRequest`] → [`super::PublishedPrompt`].
    pub const PUBLISHED_PROMPT: &str = "published_prompt";
    /// [`super::ReviewRequest`] → [`super::ReviewOffer`], or nothing.
    pub const OFFER_REVIEW: &str = "offer_review";
    /// [`super::ReviewDecision`] → a text: what came of it, for the model.
    pub const DECIDE: &str = "decide";
}

/// The interface of embedding providers, spoken through the generic call.
pub mod embedding_interface {
    /// Name of the interface.
    pub const NAME: &str = "embedding";
    /// Nothing → [`super::ModelInfo`].
    pub const MODEL: &str = "model";
    /// [`super::EmbedRequest`] → no JSON but the vectors one after the other in the order of the
    /// texts, each component a little-endian `f32`.
    pub const EMBED: &str = "embed";
}

/// The interface of extensions that handle events, spoken through the generic call.
pub mod event_interface {
    /// Name of the interface.
    pub const NAME: &str = "event";
    /// [`super::HandleEvent`] → nothing.
    pub const HANDLE: &str = "handle";
}

/// The interface of extensions that have scheduled tasks, spoken through the generic call.
pub mod scheduler_interface {
    /// Name of the interface.
    pub const NAME: &str = "scheduler";
    /// [`super::RunTask`] → a line about what was done, or nothing.
    pub const RUN: &str = "run";
}

/// What kind of failure an error is; the wire name is the variant in snake case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The thing named does not exist.
    NotFound,
    /// The arguments are not what the callee takes.
    InvalidArgument,
    /// The caller may not do this.
    Denied,
    /// The input or the result is over a limit.
    TooLarge,
    /// The state moved in between.
    Conflict,
    /// A file or device failed.
    Io,
    /// The call was given up.
    Cancelled,
    /// The callee panicked; the panic was contained.
    Panicked,
    /// The callee is not there, or not now.
    Unavailable,
    /// The other side did not speak the contract.
    Protocol,
    /// The callee took longer than it may.
    Timeout,
    /// Anything else, and every kind this build does not know.
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

    /// The name on the wire.
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

    /// Reads a wire name; an unknown one is [`ErrorKind::Failed`].
    #[must_use]
    pub fn from_wire(name: &str) -> Self {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name).unwrap_or(Self::Failed)
    }
}

/// Who stands behind a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A model running as an agent.
    #[default]
    Agent,
    /// A person at the command line.
    Operator,
    /// A client of the MCP server.
    Mcp,
}

/// Which skills an agent's catalog shows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatalogScope {
    /// Every skill.
    #[default]
    All,
    /// Only the agent's `uses_skills`.
    Declared,
    /// None.
    None,
    /// Those that match `include` and do not match `exclude`.
    #[serde(untagged)]
    Globs {
        /// Patterns of ids to show, all where it is absent; an empty list shows none.
        #[serde(default = "every_id")]
        include: Vec<String>,
        /// Patterns of ids to hide.
        #[serde(default)]
        exclude: Vec<String>,
    },
}

fn every_id() -> Vec<String> {
    vec!["*".to_owned()]
}

/// Who calls, for which turn, and with how much time; goes with every call.
///
/// Scopes, authors and sessions are taken from here, never from arguments that a model wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallContext {
    /// The agent on whose behalf the call happens; empty for an operator.
    pub agent_id: String,
    /// The session.
    pub session_id: String,
    /// The turn within the session.
    pub turn_id: String,
    /// Unique within the process; log events of the callee carry it.
    pub call_id: u64,
    /// Milliseconds the callee has from now on; absent means no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// Size of the model's context window in tokens, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u32>,
    /// The agent's bound skills.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses_skills: Vec<String>,
    /// The agent's catalog scope.
    #[serde(default)]
    pub catalog: CatalogScope,
    /// Who stands behind the call.
    #[serde(default)]
    pub origin: Origin,
    /// What the call belongs to: the message of a user, or the event, that everything began with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The digest of the [`ToolEffect`] that a person was shown and approved. The tool does exactly
    /// that, or fails with [`ErrorKind::Conflict`]. Set by the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_effect: Option<String>,
}

/// When a tool asks before it acts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// It never asks.
    #[default]
    Never,
    /// It asks unless an active skill's `allowed-tools` names it.
    UnlessGranted,
    /// It always asks.
    Always,
}

/// To whom a tool is offered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Audience {
    /// Models and operators.
    #[default]
    Agent,
    /// Operators only.
    Operator,
}

/// One tool as it is offered to a caller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Unique among all loaded extensions.
    pub name: String,
    /// What it does and when to use it, for the model.
    pub description: String,
    /// JSON Schema of the arguments, an object.
    pub input_schema: serde_json::Value,
    /// JSON Schema of the structured result, an object. Whoever declares it puts everything into the
    /// result that the text says: a client may show a model the one instead of the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<serde_json::Value>,
    /// It changes nothing.
    #[serde(default)]
    pub read_only: bool,
    /// It may destroy something.
    #[serde(default)]
    pub destructive: bool,
    /// When it asks before it acts.
    #[serde(default)]
    pub needs_approval: Approval,
    /// To whom it is offered.
    #[serde(default)]
    pub audience: Audience,
}

/// What a tool answers: text for the model and, beside it, a value for programs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolOutput {
    /// For the model.
    pub text: String,
    /// For programs; kept as text while it only passes through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Box<RawValue>>,
    /// The text describes a failure the model should react to.
    #[serde(default)]
    pub is_error: bool,
    /// The skill whose instructions the text carries: the agent runtime keeps them in the
    /// conversation from here on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<SkillRef>,
}

/// A skill as of one digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillRef {
    /// The skill.
    pub skill_id: String,
    /// sha256 of the SKILL.md, hexadecimal.
    pub digest: String,
}

/// A task that an extension gives to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentTask {
    /// The call on whose behalf; its session and deadline hold for the run.
    pub context: CallContext,
    /// The agent.
    pub agent_id: String,
    /// The task, with everything the agent needs to know.
    pub task: String,
}

/// What an agent answered to a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentAnswer {
    /// The last reply.
    pub text: String,
    /// Names the run's transcript.
    pub run_id: String,
}

/// What [`crate::abi::ExtensionModule::create`] is given.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ExtensionInit {
    /// Id from the manifest.
    pub id: String,
    /// The home directory.
    pub home: PathBuf,
    /// The extension's private directory; created on first use.
    pub data_dir: PathBuf,
    /// What an installed copy shares, `<prefix>/share/skillhost`.
    #[serde(default)]
    pub share_dir: Option<PathBuf>,
    /// The manifest's `config` with the settings' overrides.
    pub config: serde_json::Value,
    /// The manifest's `depends_on`.
    pub depends_on: Vec<String>,
}

/// What a library says about its build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildInfo {
    /// Cargo package name.
    pub package: String,
    /// Cargo package version.
    pub version: String,
}

/// Something that happened.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Event {
    /// Dotted name such as `skill.added`.
    pub topic: String,
    /// Id of the extension that emitted it; set by the kernel.
    #[serde(default)]
    pub source: String,
    /// A JSON value.
    pub payload: Box<RawValue>,
    /// Its place among all events of the home, from 1; set by the kernel, 0 where it is not kept.
    #[serde(default)]
    pub id: i64,
    /// What it belongs to: the message of a user, or the event, that everything began with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// Of several events with one topic and key only the first is kept and delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl Event {
    /// An event that has not been kept yet and belongs to nothing.
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

/// An event that an extension is to handle. It may come more than once, with the same id.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HandleEvent {
    /// Who calls: an operator, with the event's correlation id.
    pub context: CallContext,
    /// The event.
    pub event: Event,
    /// Which attempt this is, from 1.
    pub attempt: u32,
}

/// A task of a schedule that is due.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunTask {
    /// Who calls: an operator.
    pub context: CallContext,
    /// Name of the task, from the manifest.
    pub task: String,
}

/// Asks for the events whose topic is `topic` or begins with `topic` and a dot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Subscribe {
    /// Topic or prefix; empty means every event.
    pub topic: String,
}

/// Names a subscription of one extension.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct SubscriptionId {
    /// Unique within the process.
    pub id: u64,
}

/// A call of another extension's tool.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolCall {
    /// The caller's context, passed on.
    pub context: CallContext,
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub arguments: Box<RawValue>,
}

/// A line for the person who runs the kernel.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Notice {
    /// One line.
    pub text: String,
}

/// Asks for a secret named in the manifest's `secrets`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SecretRequest {
    /// Name from the manifest.
    pub name: String,
}

/// A secret, or nothing where it is not set.
#[derive(Clone, Serialize, Deserialize)]
pub struct SecretValue {
    /// The value.
    pub value: Option<String>,
}

/// Asks for the content of a skill.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SkillRequest<'a> {
    /// The skill.
    #[serde(borrow)]
    pub skill_id: Cow<'a, str>,
}

/// Says that an agent created a skill: what a tool reports that writes files for agents.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SkillCreated {
    /// The context of the call that created it, passed on.
    pub context: CallContext,
    /// The skill.
    pub skill_id: String,
}

/// A skill's instructions as they are bound into an agent's prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillContent {
    /// The skill.
    pub skill_id: String,
    /// Ready for the prompt, in its `<skill_content>` element.
    pub text: String,
    /// sha256 of the SKILL.md, hexadecimal.
    pub digest: String,
    /// Estimated tokens of `text`.
    pub tokens: u32,
    /// Where it comes from, for people.
    pub source: String,
}

/// A skill that an agent works by, or is to work by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivateSkill {
    /// Who: an agent sees what its catalog shows, an operator what users may invoke.
    pub context: CallContext,
    /// The skill.
    pub skill_id: String,
}

/// A skill's instructions and what it says about tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveSkill {
    /// The skill as it is now.
    pub content: SkillContent,
    /// The tools its `allowed-tools` names; absent where it says nothing, empty also where what it
    /// says cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// Its root is an operator's and an operator approved this digest: what it names needs no
    /// further consent.
    #[serde(default)]
    pub grants: bool,
}

/// A number that changes whenever any skill's content may have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generation {
    /// The generation.
    pub generation: u64,
}

/// The model that turns texts into vectors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// Names the model and everything that changes its vectors: vectors kept under one id can be
    /// compared with each other and with nothing else.
    pub id: String,
    /// Components of every vector, at least one.
    pub dimension: u32,
}

/// Asks for the vectors of some texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbedRequest<'a> {
    /// The model the caller counts on: an extension that has another by now answers with
    /// [`ErrorKind::Conflict`].
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
    fn error_kinds_have_one_wire_name() {
        for kind in ErrorKind::ALL {
            assert_eq!(ErrorKind::from_wire(kind.as_str()), kind);
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{}\"", kind.as_str()));
        }
        assert_eq!(ErrorKind::from_wire("from the future"), ErrorKind::Failed);
    }

    #[test]
    fn catalog_scopes_read_as_the_manifest_writes_them() {
        let read = |text| serde_json::from_str::<CatalogScope>(text).unwrap();
        assert_eq!(read("\"declared\""), CatalogScope::Declared);
        assert_eq!(
            read(r#"{"include":["code-*"]}"#),
            CatalogScope::Globs { include: vec!["code-*".into()], exclude: vec![] }
        );
        assert_eq!(
            read(r#"{"exclude":["code-*"]}"#),
            CatalogScope::Globs { include: vec!["*".into()], exclude: vec!["code-*".into()] }
        );
    }

    #[test]
    fn a_context_of_a_newer_kernel_is_read() {
        let text = r#"{"agent_id":"a","session_id":"s","turn_id":"t","call_id":7,"new_field":1}"#;
        let context: CallContext = serde_json::from_str(text).unwrap();
        assert_eq!(context.call_id, 7);
        assert_eq!(context.origin, Origin::Agent);
    }
}
