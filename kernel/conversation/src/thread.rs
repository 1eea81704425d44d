//! Threads: stored conversations, one journal per thread, that a later process can resume.
//!
//! A journal only grows. Every change is on disk before a caller relies on it; a last line that was
//! incomplete when the process ended is dropped when the journal is opened again.

use std::io;
use std::sync::{Mutex, PoisonError};

use skillhost_files::{AppendLog, AppendReceipt};
use skillhost_home::now_ms;
use skillhost_payload::SkillRef;
use ulid::Ulid;

use crate::model::Message;

mod entry;
mod error;
mod line;
mod opening;
#[cfg(test)]
mod start_tests;
mod state;
mod store;
#[cfg(test)]
mod tests;

use entry::ThreadEntry;
pub use entry::{CallAttempts, CallStart, ELIDED_RESULT, MessageStatus, OpenCall, ThreadSkill};
pub use error::ThreadError;
use state::ThreadState;
pub use store::{ThreadContents, ThreadStore, ThreadSummary};

/// The tool result of a call that may have happened and ended without a result.
pub const ABORTED_CALL_RESULT: &str =
    "the run was cut off before this call was answered; it may have happened";

/// The tool result of a call that ended without a result and had no effect.
const UNMADE_CALL_RESULT: &str =
    "the run was cut off before this call was answered; it had no effect";

/// A stored conversation with an agent. An open thread is locked against every other opener.
pub struct Thread {
    id: String,
    agent: String,
    state: ThreadState,
    /// `None` for a thread that ends with the process.
    journal: Option<AppendLog>,
    pending: Option<PendingCommit>,
    /// Starts of calls that are written to the journal and not in the state yet: concurrent calls
    /// share the thread.
    starts: Mutex<Vec<CallStart>>,
    note: Option<String>,
}

/// Changes that are written to the journal and not in the state yet.
struct PendingCommit {
    changes: Vec<ThreadEntry>,
    receipt: AppendReceipt,
}

impl Thread {
    /// Creates a thread that ends with the process, for a task that one agent delegates to another.
    #[must_use]
    pub fn in_memory(agent: &str) -> Self {
        let state = ThreadState::default();
        Self {
            id: new_id(),
            agent: agent.to_owned(),
            state,
            journal: None,
            pending: None,
            starts: Mutex::default(),
            note: None,
        }
    }

    /// Closes the thread, and removes it if it never held a message or a skill; returns whether it was
    /// removed. Blocks.
    ///
    /// # Errors
    /// [`ThreadError::Io`].
    pub fn discard_if_unused(self) -> Result<bool, ThreadError> {
        let Some(journal) = &self.journal else { return Ok(true) };
        // A thread that was reset keeps the ids of its messages, and its journal keeps their texts.
        if self.pending.is_some() || self.state != ThreadState::default() {
            return Ok(false);
        }
        let path = journal.path().to_owned();
        // Still locked, so no other process can write to it in between.
        std::fs::remove_file(&path).map_err(|source| ThreadError::Io { path, source })?;
        Ok(true)
    }

    /// Returns the thread's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the id of the agent that the thread was created with.
    #[must_use]
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// Returns the note about an entry dropped on opening, for the operator.
    #[must_use]
    pub fn recovery_note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Returns the messages of the next model request, oldest first; after a compaction the summary
    /// comes first.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.state.messages
    }

    /// Returns the active skills, in the order of their activation.
    #[must_use]
    pub fn skills(&self) -> &[ThreadSkill] {
        &self.state.skills
    }

    /// Returns the active skills without their places, in the same order.
    #[must_use]
    pub fn active_skills(&self) -> Vec<SkillRef> {
        self.state.skills.iter().map(|active| active.skill.clone()).collect()
    }

    /// Returns the active skill whose text is in the message with this index.
    #[must_use]
    pub fn skill_in_message(&self, index: usize) -> Option<&SkillRef> {
        self.state.skill_in_message(index)
    }

    /// Adds a message. A user message comes after every tool result: calls without one are closed
    /// first, as [`Thread::close_open_calls`] does.
    ///
    /// # Errors
    /// [`ThreadError::Io`]; the thread is then unchanged.
    pub async fn push(&mut self, message: Message) -> Result<(), ThreadError> {
        let _ = self.finish_commit().await;
        let mut changes = match &message {
            // Providers reject a request in which a user message separates a call from its result.
            Message::User { .. } => self.aborted_call_entries(),
            Message::Assistant { .. } | Message::Tool { .. } => Vec::new(),
        };
        changes.push(ThreadEntry::from_message(message));
        self.commit(changes).await
    }

    /// Adds the result of a call that may have happened. A later identical call is then
    /// [uncertain](Thread::is_uncertain).
    ///
    /// # Errors
    /// [`ThreadError::Io`]; the thread is then unchanged.
    pub async fn push_uncertain_result(&mut self, result: Message) -> Result<(), ThreadError> {
        self.commit(vec![ThreadEntry::from_uncertain_result(result)]).await
    }

    /// Returns the calls of the last reply that have no result, in their order.
    pub fn open_calls(&mut self) -> Vec<OpenCall> {
        self.apply_starts();
        self.state.open_calls(&self.id)
    }

    /// Records that a call of the last reply is about to be made; on return the record is on disk.
    /// Its result is its end. Concurrent calls may be recorded at the same time.
    ///
    /// # Errors
    /// [`ThreadError::Io`]; the call must then not be made.
    pub async fn start_call(&self, start: CallStart) -> Result<(), ThreadError> {
        let written = match &self.journal {
            Some(journal) => {
                let mut line = Vec::new();
                line::write_line(&mut line, now_ms(), &ThreadEntry::from(start.clone()));
                let receipt = journal.append(line);
                // Before the wait: a caller that stops waiting here leaves a start on disk.
                self.lock_starts().push(start.clone());
                let path = journal.path().to_owned();
                receipt.await.map_err(|source| ThreadError::Io { path, source })
            }
            None => {
                self.lock_starts().push(start.clone());
                Ok(())
            }
        };
        if written.is_err() {
            self.lock_starts().retain(|known| *known != start);
        }
        written
    }

    /// Returns whether an identical call may have happened: it was started, and has no result of
    /// its tool.
    #[must_use]
    pub fn is_uncertain(&self, tool: &str, arguments: &str) -> bool {
        self.state.is_uncertain(tool, arguments)
    }

    /// Adds a user message under its id; calls without a result are closed first.
    ///
    /// # Errors
    /// [`ThreadError::Io`]; the thread is then unchanged.
    pub async fn push_user_message(
        &mut self,
        text: String,
        message_id: String,
    ) -> Result<(), ThreadError> {
        let _ = self.finish_commit().await;
        let mut changes = self.aborted_call_entries();
        changes.push(ThreadEntry::Message {
            message: Message::User { text },
            message_id: Some(message_id),
            records_starts: false,
            is_uncertain: false,
        });
        self.commit(changes).await
    }

    /// Adds a notice of the kernel, unless the thread has had one with the key. Calls without a
    /// result are closed first; [`Thread::has_open_calls`] finds them.
    ///
    /// # Errors
    /// [`ThreadError::Io`]; the thread is then unchanged.
    pub async fn push_notice(&mut self, key: String, text: String) -> Result<(), ThreadError> {
        let _ = self.finish_commit().await;
        if self.state.has_notice(&key) {
            return Ok(());
        }
        let mut changes = self.aborted_call_entries();
        changes.push(ThreadEntry::Notice { key, text });
        self.commit(changes).await
    }

    /// Returns whether the thread has had a notice with the key.
    #[must_use]
    pub fn has_notice(&self, key: &str) -> bool {
        self.state.has_notice(key)
    }

    /// Returns whether a call of the last reply has no result yet.
    #[must_use]
    pub fn has_open_calls(&self) -> bool {
        !self.state.open_calls(&self.id).is_empty()
    }

    /// Returns the state of a user message, or `None` if this thread never received it.
    #[must_use]
    pub fn message_status(&self, message_id: &str) -> Option<MessageStatus> {
        self.state.message_status(message_id)
    }

    /// Records that a skill is active, possibly in a new text. `in_messages` states that the text
    /// is in the message pushed last.
    ///
    /// # Errors
    /// [`ThreadError::Io`]; the thread is then unchanged.
    pub async fn activate(
        &mut self,
        skill: SkillRef,
        in_messages: bool,
    ) -> Result<(), ThreadError> {
        self.commit(vec![ThreadEntry::Skill { skill, in_messages }]).await
    }

    /// Adds the tool result that reports a change of the active skills, and makes these skills the
    /// active ones: both or, after a crash, none. `carried` is the skill whose text the result has.
    ///
    /// # Errors
    /// [`ThreadError::Io`]; the thread is then unchanged.
    pub async fn change_skills(
        &mut self,
        skills: Vec<SkillRef>,
        result: Message,
        carried: Option<SkillRef>,
    ) -> Result<(), ThreadError> {
        self.commit(vec![ThreadEntry::ActiveSkills { skills, result, carried }]).await
    }

    /// Replaces the messages before `keep_from` by a summary, which counts as a user message.
    /// Skills whose text was in them stay active, without [`ThreadSkill::in_messages`].
    ///
    /// # Errors
    /// [`ThreadError::BadCut`] where a tool result would lose its call, [`ThreadError::Io`]; the
    /// thread is then unchanged.
    pub async fn compact(&mut self, summary: String, keep_from: usize) -> Result<(), ThreadError> {
        let _ = self.finish_commit().await;
        let change = ThreadEntry::Compacted { summary, keep_from };
        if !self.state.can_apply(&change) {
            return Err(ThreadError::BadCut { keep_from, messages: self.messages().len() });
        }
        self.commit(vec![change]).await
    }

    /// Replaces the tool results before a message by [`ELIDED_RESULT`].
    ///
    /// # Errors
    /// [`ThreadError::BadCut`] if there are fewer messages, [`ThreadError::Io`]; the thread is then
    /// unchanged.
    pub async fn elide_tool_results(&mut self, before: usize) -> Result<(), ThreadError> {
        let _ = self.finish_commit().await;
        let change = ThreadEntry::ResultsElided { before };
        if !self.state.can_apply(&change) {
            return Err(ThreadError::BadCut { keep_from: before, messages: self.messages().len() });
        }
        self.commit(vec![change]).await
    }

    /// Removes every message and every skill.
    ///
    /// # Errors
    /// [`ThreadError::Io`]; the thread is then unchanged.
    pub async fn reset(&mut self) -> Result<(), ThreadError> {
        self.commit(vec![ThreadEntry::Reset]).await
    }

    /// Adds an error result for every call of an aborted turn, so that the thread can continue, and
    /// returns their number.
    ///
    /// # Errors
    /// [`ThreadError::Io`]; the thread is then unchanged.
    pub async fn close_open_calls(&mut self) -> Result<usize, ThreadError> {
        let _ = self.finish_commit().await;
        let changes = self.aborted_call_entries();
        let closed = changes.len();
        if closed > 0 {
            self.commit(changes).await?;
        }
        Ok(closed)
    }

    fn aborted_call_entries(&mut self) -> Vec<ThreadEntry> {
        let result = |OpenCall { call, attempts, .. }| {
            let result = |text: &str| Message::Tool {
                call_id: call.id.clone(),
                name: call.name.clone(),
                text: text.to_owned(),
                is_error: true,
            };
            match attempts {
                // A new call of the model has another key, so a `keyed` call counts as well.
                CallAttempts::Started { .. } | CallAttempts::Unknown => {
                    ThreadEntry::from_uncertain_result(result(ABORTED_CALL_RESULT))
                }
                CallAttempts::None => ThreadEntry::from_message(result(UNMADE_CALL_RESULT)),
            }
        };
        self.open_calls().into_iter().map(result).collect()
    }

    /// Applies changes: first to the disk, then to memory, so that no visible change can be lost.
    /// Cancel-safe: the next change completes one whose caller stopped waiting for the disk.
    async fn commit(&mut self, changes: Vec<ThreadEntry>) -> Result<(), ThreadError> {
        let _ = self.finish_commit().await;
        self.apply_starts();
        let Some(journal) = &self.journal else {
            self.apply(changes);
            return Ok(());
        };
        let mut lines = Vec::new();
        for change in &changes {
            line::write_line(&mut lines, now_ms(), change);
        }
        let path = journal.path().to_owned();
        self.pending = Some(PendingCommit { receipt: journal.append(lines), changes });
        let written = self.finish_commit().await;
        written.map_err(|source| ThreadError::Io { path, source })
    }

    /// Waits until pending changes are on disk and applies them. The error of changes whose caller
    /// stopped waiting is of no interest: they were not made.
    async fn finish_commit(&mut self) -> io::Result<()> {
        // Taken after the wait: a caller may stop waiting here as well.
        let Some(pending) = &mut self.pending else { return Ok(()) };
        let written = (&mut pending.receipt).await;
        if let (Ok(()), Some(pending)) = (&written, self.pending.take()) {
            self.apply(pending.changes);
        }
        written
    }

    /// Applies the recorded starts, which are in the journal before all later changes.
    fn apply_starts(&mut self) {
        let starts = std::mem::take(&mut *self.lock_starts());
        self.apply(starts.into_iter().map(ThreadEntry::from).collect());
    }

    fn lock_starts(&self) -> std::sync::MutexGuard<'_, Vec<CallStart>> {
        self.starts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Infallible, as every change was checked before it was written.
    fn apply(&mut self, changes: Vec<ThreadEntry>) {
        for change in changes {
            self.state.apply(change);
        }
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

/// Returns a new id; later ids sort after earlier ones.
fn new_id() -> String {
    Ulid::generate().to_string().to_lowercase()
}
