//! What makes an agent run: its model is asked, the tools it calls are called, until it answers.
//!
//! [`run`] has the turn, step by step, and [`asking`] how its model is asked. What a step needs stands beside it, one concern per file:
//! [`budget`], [`loop_guard`], [`compaction`], [`skills`], [`permissions`], [`arguments`],
//! [`argument_check`], [`lineage`]. [`dispatch`] is the one way to a tool, whoever calls it; [`session`] is how it finds
//! the run that a call belongs to.

use skillhost_contract::payload::{ErrorKind, SkillRef};
use skillhost_manifest::ExtensionId;
use tokio_util::sync::CancellationToken;

use crate::error::KernelError;
use crate::model::{ModelError, ModelErrorKind, TokenUsage};
use crate::thread::ThreadError;

mod argument_check;
mod arguments;
mod asking;
mod begin;
mod budget;
mod build_extension;
mod calls;
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
mod permissions;
mod reporter;
mod request_restart;
mod request_secure_input;
mod run;
pub(crate) mod session;
mod skills;

pub(crate) use argument_check::{ArgumentCheck, schema_mistake};
pub use budget::ExhaustedLimit;

/// What an agent is to do.
#[derive(Debug, Clone, Default)]
pub struct RunRequest {
    /// The agent; the thread's own where absent.
    pub agent: Option<String>,
    /// The model, `provider/model`, whatever settings and manifest say.
    pub model: Option<String>,
    /// What the user says.
    pub prompt: String,
    /// What the run belongs to: the message of a user, or the event, that everything began with.
    pub correlation_id: Option<String>,
    /// Ends the run when it is cancelled; the thread can go on afterwards.
    pub cancel: CancellationToken,
    /// The id of what the user says, where the run goes on in the next kernel when this one ends:
    /// it then is begun again with the same id, and what the thread has heard is not said twice.
    pub message_id: Option<String>,
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RunOutcome {
    /// Names the transcript.
    pub run_id: String,
    /// The agent.
    pub agent: ExtensionId,
    /// The model, `provider/model`.
    pub model: String,
    /// The last reply.
    pub text: String,
    /// Requests to the model, summaries not counted.
    pub turns: u32,
    /// What the requests of this run used up, summaries included, delegated runs not.
    pub usage: TokenUsage,
    /// What they cost, where the price is known.
    pub cost: Option<f64>,
    /// The skills that are active in the thread.
    pub skills: Vec<SkillRef>,
}

/// Why a run did not come to an answer. What was said until then is in the thread.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The agent is unknown or in the error state.
    #[error(transparent)]
    Agent(#[from] KernelError),
    /// The model could not be asked.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A limit of the manifest was reached, this agent's or that of one above it.
    #[error("the budget of {which} is used up")]
    Budget {
        /// The limit.
        which: ExhaustedLimit,
    },
    /// The model makes the same call with the same answer for ever.
    #[error("the model makes the same call again and again: {call}")]
    Loop {
        /// The call.
        call: String,
    },
    /// The caller gave the run up.
    #[error("the run was cancelled")]
    Cancelled,
    /// The kernel ends; the run goes on in the one that comes next.
    #[error("the kernel ends; the run goes on when it is there again")]
    Restarting,
    /// The thread has gone on before the message was answered.
    #[error("the thread has gone on before this was answered")]
    Superseded,
    /// The model said nothing, twice.
    #[error("{model} said nothing")]
    EmptyReply {
        /// The model.
        model: String,
        /// It thought, and did not come to an answer.
        only_reasoning: bool,
    },
    /// The conversation does not fit into the model's window, and nothing can be left out.
    #[error("the conversation is too long for {model}: about {tokens} tokens")]
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
    /// The kind of failure, as for a call.
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
            Self::Budget { which: ExhaustedLimit::Time(_) } => ErrorKind::Timeout,
            Self::Budget { .. } | Self::ContextOverflow { .. } => ErrorKind::TooLarge,
            Self::Loop { .. } | Self::EmptyReply { .. } => ErrorKind::Failed,
            Self::Cancelled => ErrorKind::Cancelled,
            Self::Restarting => ErrorKind::Unavailable,
            Self::Superseded => ErrorKind::Conflict,
            Self::Thread(error) => error.kind(),
        }
    }

    /// What to do about it, one line each; may be empty.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Agent(error) => error.hint(),
            Self::Model(error) => error.hint.clone(),
            Self::Budget { which } => format!(
                "go on in the same thread, or raise agent.limits.{} in the manifest",
                which.field()
            ),
            Self::Loop { .. } => {
                "say in other words what is wanted, or choose another model".into()
            }
            Self::Cancelled | Self::Restarting => String::new(),
            Self::Superseded => "say it again".into(),
            Self::EmptyReply { only_reasoning: true, .. } => {
                "allow longer replies (max_output_tokens), or choose another model".into()
            }
            Self::EmptyReply { .. } => "ask again, or choose another model".into(),
            Self::ContextOverflow { .. } => {
                "begin a new thread, or choose a model with a larger window".into()
            }
            Self::Thread(error) => error.hint(),
        }
    }

    /// The kind in one word, for transcripts.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Agent(_) => "agent",
            Self::Model(_) => "model",
            Self::Budget { .. } => "budget",
            Self::Loop { .. } => "loop",
            Self::Cancelled => "cancelled",
            Self::Restarting => "restarting",
            Self::Superseded => "left_behind",
            Self::EmptyReply { .. } => "nothing_said",
            Self::ContextOverflow { .. } => "overflow",
            Self::Thread(_) => "thread",
        }
    }
}

impl From<ExhaustedLimit> for RunError {
    fn from(which: ExhaustedLimit) -> Self {
        Self::Budget { which }
    }
}
