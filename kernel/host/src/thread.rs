//! Conversations that are kept: a journal per thread, which a later process goes on with.
//!
//! A journal only grows. Every change is on the disk before anybody relies on it; a last line that
//! was being written when the process ended is dropped when the journal is opened again.

use skillhost_contract::payload::SkillRef;
use ulid::Ulid;

use crate::journal::{Journal, now};
use crate::model::Message;

mod error;
mod state;
mod store;
#[cfg(test)]
mod tests;

pub use error::ThreadError;
use state::{Change, State};
pub use store::{ThreadContents, ThreadSummary, Threads};

/// The version of the journal's lines.
pub(crate) const VERSION: u64 = 1;

/// What stands in the place of a tool's answer that [`Thread::leave_out`] took away.
pub const LEFT_OUT: &str = "(left out)";

/// What the model is told of a call whose answer never came.
pub const CUT_OFF: &str = "the run was cut off before this call was answered; it may have happened";

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
pub enum Heard {
    /// It is the last thing that was said, and an agent owes the answer.
    Open,
    /// It was answered with this text.
    Answered(String),
    /// It was not answered, and the thread has gone on since.
    LeftBehind,
}

/// A conversation with an agent. While it is open nobody else can open it.
pub struct Thread {
    id: String,
    agent: String,
    state: State,
    /// Absent for a thread that nobody will go on with.
    journal: Option<Journal>,
    note: Option<String>,
}

impl Thread {
    /// A thread that ends with the process, for a task that one agent hands to another.
    #[must_use]
    pub fn in_memory(agent: &str) -> Self {
        let state = State::default();
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
    pub fn note(&self) -> Option<&str> {
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
    /// settled first, as [`Thread::settle`] does.
    ///
    /// # Errors
    /// [`ThreadError::Io`]; the thread then is what it was.
    pub fn push(&mut self, message: Message) -> Result<(), ThreadError> {
        let mut changes = match &message {
            Message::User { .. } => self.cut_off(),
            Message::Assistant { .. } | Message::Tool { .. } => Vec::new(),
        };
        changes.push(Change::Message { message, message_id: None });
        self.commit(changes)
    }

    /// Adds what a person said, under the id of their message; calls that have no answer are settled
    /// first.
    ///
    /// # Errors
    /// [`ThreadError::Io`]; the thread then is what it was.
    pub fn hear(&mut self, text: String, message_id: String) -> Result<(), ThreadError> {
        let mut changes = self.cut_off();
        let (message, message_id) = (Message::User { text }, Some(message_id));
        changes.push(Change::Message { message, message_id });
        self.commit(changes)
    }

    /// What has become of a message; nothing where it was never heard in this thread.
    #[must_use]
    pub fn heard(&self, message_id: &str) -> Option<Heard> {
        self.state.heard(message_id)
    }

    /// Notes that a skill is active, or active in another text. `in_messages` says that the text is
    /// in the message pushed last.
    ///
    /// # Errors
    /// [`ThreadError::Io`]; the thread then is what it was.
    pub fn activate(&mut self, skill: SkillRef, in_messages: bool) -> Result<(), ThreadError> {
        self.commit(vec![Change::Skill { skill, in_messages }])
    }

    /// Replaces the messages before `keep_from` by a summary, which counts as said by the user.
    /// Skills whose text was in them stay active, without [`ThreadSkill::in_messages`].
    ///
    /// # Errors
    /// [`ThreadError::BadCut`] where an answer would lose its call, [`ThreadError::Io`]; the thread
    /// then is what it was.
    pub fn compact(&mut self, summary: String, keep_from: usize) -> Result<(), ThreadError> {
        let change = Change::Compacted { summary, keep_from };
        if !self.state.takes(&change) {
            return Err(ThreadError::BadCut { keep_from, messages: self.messages().len() });
        }
        self.commit(vec![change])
    }

    /// Replaces the tools' answers before a message by [`LEFT_OUT`].
    ///
    /// # Errors
    /// [`ThreadError::BadCut`] when there are not so many messages, [`ThreadError::Io`]; the thread
    /// then is what it was.
    pub fn leave_out(&mut self, before: usize) -> Result<(), ThreadError> {
        let change = Change::LeftOut { before };
        if !self.state.takes(&change) {
            return Err(ThreadError::BadCut { keep_from: before, messages: self.messages().len() });
        }
        self.commit(vec![change])
    }

    /// Forgets everything that was said and every skill.
    ///
    /// # Errors
    /// [`ThreadError::Io`]; the thread then is what it was.
    pub fn reset(&mut self) -> Result<(), ThreadError> {
        self.commit(vec![Change::Reset])
    }

    /// Answers the calls of a turn that was cut off with [`CUT_OFF`], so that the thread can go on,
    /// and returns how many there were.
    ///
    /// # Errors
    /// [`ThreadError::Io`]; the thread then is what it was.
    pub fn settle(&mut self) -> Result<usize, ThreadError> {
        let changes = self.cut_off();
        let settled = changes.len();
        if settled > 0 {
            self.commit(changes)?;
        }
        Ok(settled)
    }

    fn cut_off(&self) -> Vec<Change> {
        let answer = |(call_id, name)| Change::Message {
            message: Message::Tool { call_id, name, text: CUT_OFF.to_owned(), is_error: true },
            message_id: None,
        };
        self.state.open_calls().into_iter().map(answer).collect()
    }

    /// First the disk, then the memory: what a caller sees is never lost.
    fn commit(&mut self, changes: Vec<Change>) -> Result<(), ThreadError> {
        if let Some(journal) = &mut self.journal {
            let mut lines = Vec::new();
            for change in &changes {
                store::write_line(&mut lines, now(), change);
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
