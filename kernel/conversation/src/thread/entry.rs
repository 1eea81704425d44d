//! The entries of a thread, as stored and as seen by callers.

use serde::{Deserialize, Serialize};
use skillhost_payload::SkillRef;

use crate::model::Message;

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

/// An entry of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub(super) enum ThreadEntry {
    Message {
        message: Message,
        /// The id of a user message; `None` for messages of the kernel.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
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
