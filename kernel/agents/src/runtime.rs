//! The execution of agents: model requests and tool calls, repeated until the model replies.
//!
//! [`run`] has the turns, and [`model_request`] the model requests. Each concern of a turn has a file of
//! its own: [`loop_guard`], [`compaction`], [`skills`], [`permissions`], [`arguments`],
//! [`lineage`]. Every caller's tool calls go through [`dispatch`]; [`session`]
//! holds the run that a call belongs to.

use std::sync::Arc;

use skillhost_budget::{ExhaustedLimit, RunBudget};
use skillhost_control::{MessageError, MessageFailure};
use skillhost_conversation::{ModelError, ModelErrorKind, ThreadError};
use skillhost_core::{ContextBlock, KernelError};
use skillhost_payload::{ErrorKind, Workspace};
use tokio_util::sync::CancellationToken;

pub(crate) mod agent_alias;
mod arguments;
mod build_extension;
mod call_approval;
mod call_observation;
mod calls;
mod capabilities;
mod compaction;
mod configure_extension;
mod create_agent;
mod delegation;
mod dispatch;
mod effect;
mod extensions_doctor;
pub(crate) mod kernel_tools;
mod lineage;
mod loop_guard;
mod model_request;
mod parked_calls;
mod permissions;
mod program_calls;
mod reporter;
mod request_restart;
mod request_secure_input;
mod resolved_tool;
mod run;
mod run_call;
mod run_control;
mod run_start;
mod run_state;
pub(crate) mod session;
mod session_skills;
mod skill_capabilities;
mod skill_order;
mod skills;
mod task_call;
mod tool_effect;
mod tool_spec;
mod workspace_access;

pub use run_control::{DelegationState, NoticeSource, RequestEstimate, RunControl, ThreadNotice};
pub use task_call::TaskCall;

/// The inputs of an agent run.
#[derive(Clone, Default)]
pub struct RunRequest {
    /// The agent; `None` for the thread's own.
    pub agent: Option<String>,
    /// The model, `provider/model`; overrides settings and manifest.
    pub model: Option<String>,
    /// The user's message.
    pub prompt: String,
    /// The id of the root cause of the run: a user message or an event.
    pub correlation_id: Option<String>,
    /// Ends the run when it is cancelled; the thread can continue afterwards.
    pub cancel: CancellationToken,
    /// The id of the user message, for a run that resumes in the next kernel: the run is started
    /// again with the same id, and a message that the thread already has is not added twice.
    pub message_id: Option<String>,
    /// The operator's workspaces for this run, besides those of the kernel.
    pub workspaces: Vec<Workspace>,
    /// The budget of the task that the run works on, besides the limits of the agent's manifest.
    pub budget: Option<Arc<RunBudget>>,
    /// The control of the run by that task.
    pub control: Option<Arc<dyn RunControl>>,
    /// The kernel's block about the channel that the reply goes to.
    pub channel_block: Option<ContextBlock>,
    /// Whether the run reaches no directory of the user, as for a guest of a channel.
    pub is_confined: bool,
}

/// An error that ended a run. All messages until then are in the thread.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The agent is unknown or in the error state.
    #[error(transparent)]
    Agent(#[from] KernelError),
    /// The model request failed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A limit of the manifest was reached, this agent's or that of a parent run.
    #[error("budget of {which} is exhausted")]
    Budget {
        /// The limit.
        which: ExhaustedLimit,
    },
    /// The model repeats one call with the same result.
    #[error("model repeats the same call: {call}")]
    Loop {
        /// The call.
        call: String,
    },
    /// The caller cancelled the run.
    #[error("run was cancelled")]
    Cancelled,
    /// The kernel shuts down; the run resumes in the next one.
    #[error("kernel is shutting down; the run resumes after the next start")]
    Restarting,
    /// A call waits for a decision of a person. It is open in the thread, and the run continues with
    /// it when it is started again with the same message id.
    #[error("run waits for a decision")]
    Parked,
    /// A later message was added before this one was answered.
    #[error("message was superseded by a later message")]
    Superseded,
    /// The model returned an empty reply, twice.
    #[error("model `{model}` returned an empty reply")]
    EmptyReply {
        /// The model.
        model: String,
        /// True if the reply had reasoning, but no text.
        only_reasoning: bool,
    },
    /// The messages do not fit into the model's window, even after compaction.
    #[error("thread is too long for model `{model}`: about {tokens} tokens")]
    ContextOverflow {
        /// The model.
        model: String,
        /// Estimated tokens of the request.
        tokens: u64,
    },
    /// The thread could not be written.
    #[error(transparent)]
    Thread(#[from] ThreadError),
}

impl RunError {
    /// Returns the kind of error, as for a tool call.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Agent(error) => error.kind(),
            Self::Model(error) => match error.kind {
                ModelErrorKind::Unknown => ErrorKind::NotFound,
                ModelErrorKind::Key => ErrorKind::Denied,
                ModelErrorKind::TooLong => ErrorKind::TooLarge,
                ModelErrorKind::Busy | ModelErrorKind::Network => ErrorKind::Unavailable,
                ModelErrorKind::Timeout => ErrorKind::Timeout,
                ModelErrorKind::Refused => ErrorKind::Failed,
                ModelErrorKind::Protocol => ErrorKind::Protocol,
            },
            // Time is the only budget whose error callers treat as a timeout.
            Self::Budget { which: ExhaustedLimit::Time(_) } => ErrorKind::Timeout,
            Self::Budget { .. } | Self::ContextOverflow { .. } => ErrorKind::TooLarge,
            Self::Loop { .. } | Self::EmptyReply { .. } => ErrorKind::Failed,
            Self::Cancelled => ErrorKind::Cancelled,
            Self::Restarting | Self::Parked => ErrorKind::Unavailable,
            Self::Superseded => ErrorKind::Conflict,
            Self::Thread(error) => error.kind(),
        }
    }

    /// Returns hints for the operator, one per line; may be empty.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Agent(error) => error.hint(),
            Self::Model(error) => error.hint.clone(),
            Self::Budget { which: ExhaustedLimit::Cost(_) } => {
                "raise `cost` in the budget of the task".into()
            }
            Self::Budget { which } => format!(
                "continue in the same thread, or raise agent.limits.{} in the manifest",
                which.field()
            ),
            Self::Loop { .. } => "rephrase the request, or choose another model".into(),
            Self::Cancelled | Self::Restarting | Self::Parked => String::new(),
            Self::Superseded => "send it again".into(),
            Self::EmptyReply { only_reasoning: true, .. } => {
                "allow longer replies (max_output_tokens), or choose another model".into()
            }
            Self::EmptyReply { .. } => "send it again, or choose another model".into(),
            Self::ContextOverflow { .. } => {
                "start a new thread, or choose a model with a larger window".into()
            }
            Self::Thread(error) => error.hint(),
        }
    }

    /// Returns whether the run continues later, with the open calls of its thread.
    pub(crate) fn is_continued(&self) -> bool {
        matches!(self, Self::Restarting | Self::Parked)
    }

    /// Returns the kind in one word, for transcripts.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Agent(_) => "agent",
            Self::Model(_) => "model",
            Self::Budget { .. } => "budget",
            Self::Loop { .. } => "loop",
            Self::Cancelled => "cancelled",
            Self::Restarting => "restarting",
            Self::Parked => "parked",
            // Transcripts on disk have this code, so it keeps its old name.
            Self::Superseded => "left_behind",
            Self::EmptyReply { .. } => "nothing_said",
            Self::ContextOverflow { .. } => "overflow",
            Self::Thread(_) => "thread",
        }
    }

    /// Returns the cause for the client that sent the message.
    fn to_failure(&self) -> MessageFailure {
        match self {
            Self::Agent(_) => MessageFailure::Agent,
            Self::Model(_) => MessageFailure::Model,
            Self::Budget { .. } => MessageFailure::Budget,
            Self::Loop { .. } => MessageFailure::Loop,
            Self::Cancelled => MessageFailure::Cancelled,
            Self::Restarting => MessageFailure::Restarting,
            Self::Parked => MessageFailure::Parked,
            Self::Superseded => MessageFailure::Superseded,
            Self::EmptyReply { .. } => MessageFailure::EmptyReply,
            Self::ContextOverflow { .. } => MessageFailure::ContextOverflow,
            Self::Thread(_) => MessageFailure::Thread,
        }
    }
}

impl From<RunError> for MessageError {
    fn from(error: RunError) -> Self {
        Self { what: error.to_failure(), error: error.into() }
    }
}

impl From<ExhaustedLimit> for RunError {
    fn from(which: ExhaustedLimit) -> Self {
        Self::Budget { which }
    }
}
