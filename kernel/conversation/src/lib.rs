//! Conversations: the interface to models, the channel of a run, and what is stored of both.
//!
//! A run sends a [`ModelRequest`] to a [`ModelProvider`] and reports to a [`Channel`]. Its messages
//! are in a [`Thread`], which a later process can resume, its events in a [`Transcript`].

mod channel;
mod model;
mod outcome;
mod thread;
mod transcript;
mod usage;

pub use channel::{
    ApprovalDecision, ApprovalRequest, Channel, PersonQuestion, PersonReply, RunEvent,
    SecretPrompt, SecretReply, UncertainCall, UncertainDecision,
};
pub use model::{
    Message, ModelError, ModelErrorKind, ModelMetadata, ModelProvider, ModelReply, ModelRequest,
    ModelSource, ModelTool, ModelToolCall, NoModels, ReplyChunk, StopReason,
};
pub use outcome::RunOutcome;
pub use thread::{
    ABORTED_CALL_RESULT, CallAttempts, CallStart, ELIDED_RESULT, MessageStatus, OpenCall, Thread,
    ThreadContents, ThreadError, ThreadSkill, ThreadStore, ThreadSummary,
};
pub use transcript::{RunEntry, RunHeader, Transcript, TranscriptError};
pub use usage::TokenUsage;
