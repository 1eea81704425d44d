//! The entries of a thread, as stored and as seen by callers.

use serde::{Deserialize, Serialize};
use skillhost_payload::{CallEffect, SkillRef};

use crate::model::{Message, ModelToolCall};

/// The text that [`Thread::elide_tool_results`](crate::Thread::elide_tool_results) puts in the place of a tool result.
pub const ELIDED_RESULT: &str = "(left out)";

/// A skill that is active in a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreadSkill {
    /// The skill, with the digest of the text that was activated last.
    pub skill: SkillRef,
    /// The text with that digest is in [`Thread::messages`](crate::Thread::messages).
    pub in_messages: bool,
}

/// The state of a user message in a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageStatus {
    /// The last user message of the thread; the reply is pending.
    Open,
    /// Answered with this reply.
    Answered(String),
    /// Not answered, and superseded by a later message.
    Superseded,
}

/// A call of the last reply that has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCall {
    /// The call, as the model wrote it.
    pub call: ModelToolCall,
    /// The key of the call: the same after every restart, and another one for every other call.
    pub key: String,
    /// The earlier attempts of the call.
    pub attempts: CallAttempts,
}

/// The attempts of a call that have started, as the journal has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CallAttempts {
    /// None, or only such that have no effect.
    #[default]
    None,
    /// The reply was stored by an earlier kernel, which recorded no starts.
    Unknown,
    /// At least one.
    Started {
        /// The number of attempts.
        count: u32,
        /// The effect of a repetition; [`CallEffect::Once`] if one of the attempts had it.
        effect: CallEffect,
        /// The arguments of the last attempt, if a person changed them.
        arguments: Option<String>,
    },
}

/// The start of a call, recorded before the tool is invoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallStart {
    /// The id of the call in the last reply.
    pub call_id: String,
    /// The effect of a repetition.
    pub effect: CallEffect,
    /// The arguments, if a person changed them.
    pub arguments: Option<String>,
}

/// An entry of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub(super) enum ThreadEntry {
    Message {
        message: Message,
        /// The id of a user message; `None` for messages of the kernel.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
        /// The reply's calls are recorded when they start; false in journals of earlier kernels.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        records_starts: bool,
        /// The result stands for that of a call that may have happened.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_uncertain: bool,
    },
    /// A call of the last reply that is about to be made; its result is its end.
    #[serde(rename = "call_begun")]
    CallStarted {
        call_id: String,
        effect: CallEffect,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<String>,
    },
    /// A message of the kernel that the thread has once, also after a compaction or a reset.
    Notice {
        key: String,
        text: String,
    },
    Skill {
        skill: SkillRef,
        in_messages: bool,
    },
    /// The active skills after a change, with the tool result that reports it, in one line: a crash
    /// loses both or none.
    ActiveSkills {
        skills: Vec<SkillRef>,
        result: Message,
        /// The skill whose text the result has.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        carried: Option<SkillRef>,
    },
    Compacted {
        summary: String,
        keep_from: usize,
    },
    #[serde(rename = "left_out")]
    ResultsElided {
        before: usize,
    },
    Reset,
}

impl ThreadEntry {
    /// Creates the entry of a message without an id.
    pub(super) fn from_message(message: Message) -> Self {
        // Replies of this version have their starts recorded.
        let records_starts =
            matches!(&message, Message::Assistant { calls, .. } if !calls.is_empty());
        Self::Message { message, message_id: None, records_starts, is_uncertain: false }
    }

    /// Creates the entry of a result that stands for that of a call that may have happened.
    pub(super) fn from_uncertain_result(message: Message) -> Self {
        Self::Message { message, message_id: None, records_starts: false, is_uncertain: true }
    }
}

impl From<CallStart> for ThreadEntry {
    fn from(CallStart { call_id, effect, arguments }: CallStart) -> Self {
        Self::CallStarted { call_id, effect, arguments }
    }
}
