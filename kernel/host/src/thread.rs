//! Conversations that are kept: a journal per thread, which a later process goes on with.
//!
//! A journal only grows. Every change is on the disk before anybody relies on it; a last line that
//! was being written when the process ended is dropped when the journal is opened again.

use skillhost_contract::payload::SkillRef;
use ulid::Ulid;

use crate::journal::{AppendLog, now_ms};
use crate::model::Message;

mod error;
mod state;
mod store;
#[cfg(test)]
mod tests;

pub use error::ThreadError;
use state::{ThreadEntry, ThreadState};
pub use store::{ThreadContents, ThreadStore, ThreadSummary};

/// The version of the journal's lines.
pub(crate) const VERSION: u64 = 1;

/// What stands in the place of a tool's answer that [`Thread::elide_tool_results`] took away.
pub const ELIDED_RESULT: &str = "(left out)";

/// What the model is told of a call whose answer never came.
pub const ABORTED_CALL_RESULT: &str =
    "the run was cut off before this call was answered; it may have happened";

/// A skill that is active in a thread.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ThreadSkill {
    /// The skill, with the digest of the text that was activated last.
    pub skill: SkillRef,
    /// The text with that digest is in [`Thread::messages`].
    pub in_messages: bool,
}

/// What has become of something that a person said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageStatus {
    /// It is the last thing that was said, and an agent owes the answer.
    Open,
    /// It was answered with this text.
    Answered(String),
    /// It was not answered, and the thread has gone on since.
    Superseded,
}

/// A conversation with an agent. While it is open nobody else can open it.
pub struct Thread {
    id: String,
    agent: String,
    state: ThreadState,
    /// Absent for a thread that nobody will go on with.
    journal: Option<AppendLog>,
    note: Option<String>,
}

impl Thread {
    /// A thread that ends with the process, for a task that one agent hands to another.
    #[must_use]
    pub fn in_memory(agent: &str) -> Self {
        let state = ThreadState::default();
        Self { id: new_id(), agent: agent.to_owned(), state, journal: None, note: None }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The agent it was begun with.
    #[must_use]
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// What was dropped when it was opened, for people.
    #[must_use]
    pub fn recovery_note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// What a model is to see, oldest first: after a compaction the summary comes first.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.state.messages
    }

    /// The skills that were read or invoked, in the order in which they became active.
    #[must_use]
    pub fn skills(&self) -> &[ThreadSkill] {
        &self.state.skills
    }

    /// Adds a message. What a user says comes after every answer: calls that have none are
    /// settled first, as [`Thread::close_open_calls`] does.
    ///
    /// # Errors
    /// [`ThreadError::Io`]; the thread then is what it was.
    pub fn push(&mut self, message: Message) -> Result<(), ThreadError> {
        let mut changes = match &message {
            Message::User { .. } => self.aborted_call_entries(),
            Message::Assistant { .. } | Message::Tool { .. } => Vec::new(),
        };
        changes.push(ThreadEntry::Message { message, message_id: None });
        self.commit(changes)
    }

    /// Adds what a person said, under the id of their message; calls that have no answer are settled
    /// first.
    ///
    /// # Errors
    /// [`ThreadError::Io`]; the thread then is what it was.
    pub fn push_user_message(
        &mut self,
        text: String,
        message_id: String,
    ) -> Result<(), ThreadError> {
        let mut changes = self.aborted_call_entries();
        let (message, message_id) = (Message::User { text }, Some(message_id));
        changes.push(ThreadEntry::Message { message, message_id });
        self.commit(changes)
    }

    /// What has become of a message; nothing where it was never heard in this thread.
    #[must_use]
    pub fn message_status(&self, message_id: &str) -> Option<MessageStatus> {
        self.state.message_status(message_id)
    }

    /// Notes that a skill is active, or active in another text. `in_messages` says that the text is
    /// in the message pushed last.
    ///
    /// # Errors
    /// [`ThreadError::Io`]; the thread then is what it was.
    pub fn activate(&mut self, skill: SkillRef, in_messages: bool) -> Result<(), ThreadError> {
        self.commit(vec![ThreadEntry::Skill { skill, in_messages }])
    }

    /// Replaces the messages before `keep_from` by a summary, which counts as said by the user.
    /// Skills whose text was in them stay active, without [`ThreadSkill::in_messages`].
    ///
    /// # Errors
    /// [`ThreadError::BadCut`] where an answer would lose its call, [`ThreadError::Io`]; the thread
    /// then is what it was.
    pub fn compact(&mut self, summary: String, keep_from: usize) -> Result<(), ThreadError> {
        let change = ThreadEntry::Compacted { summary, keep_from };
        if !self.state.can_apply(&change) {
            return Err(ThreadError::BadCut { keep_from, messages: self.messages().len() });
        }
        self.commit(vec![change])
    }

    /// Replaces the tools' answers before a message by [`ELIDED_RESULT`].
    ///
    /// # Errors
    /// [`ThreadError::BadCut`] when there are not so many messages, [`ThreadError::Io`]; the thread
    /// then is what it was.
    pub fn elide_tool_results(&mut self, before: usize) -> Result<(), ThreadError> {
        let change = ThreadEntry::ResultsElided { before };
        if !self.state.can_apply(&change) {
            return Err(ThreadError::BadCut { keep_from: before, messages: self.messages().len() });
        }
        self.commit(vec![change])
    }

    /// Forgets everything that was said and every skill.
    ///
    /// # Errors
    /// [`ThreadError::Io`]; the thread then is what it was.
    pub fn reset(&mut self) -> Result<(), ThreadError> {
        self.commit(vec![ThreadEntry::Reset])
    }

    /// Answers the calls of a turn that was cut off with [`ABORTED_CALL_RESULT`], so that the thread can go on,
    /// and returns how many there were.
    ///
    /// # Errors
    /// [`ThreadError::Io`]; the thread then is what it was.
    pub fn close_open_calls(&mut self) -> Result<usize, ThreadError> {
        let changes = self.aborted_call_entries();
        let settled = changes.len();
        if settled > 0 {
            self.commit(changes)?;
        }
        Ok(settled)
    }

    fn aborted_call_entries(&self) -> Vec<ThreadEntry> {
        let answer = |(call_id, name)| ThreadEntry::Message {
            message: Message::Tool {
                call_id,
                name,
                text: ABORTED_CALL_RESULT.to_owned(),
                is_error: true,
            },
            message_id: None,
        };
        self.state.open_calls().into_iter().map(answer).collect()
    }

    /// First the disk, then the memory: what a caller sees is never lost.
    fn commit(&mut self, changes: Vec<ThreadEntry>) -> Result<(), ThreadError> {
        if let Some(journal) = &mut self.journal {
            let mut lines = Vec::new();
            for change in &changes {
                store::write_line(&mut lines, now_ms(), change);
            }
            journal
                .append(&lines)
                .map_err(|source| ThreadError::Io { path: journal.path.clone(), source })?;
        }
        for change in changes {
            self.state.apply(change);
        }
        Ok(())
    }
}

impl std::fmt::Debug for Thread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { id, agent, state, .. } = self;
        f.debug_struct("Thread")
            .field("id", id)
            .field("agent", agent)
            .field("state", state)
            .finish_non_exhaustive()
    }
}

/// A new id: later ones sort behind earlier ones.
fn new_id() -> String {
    Ulid::generate().to_string().to_lowercase()
}
