//! The operations of a kernel that its web console requires.

use futures::future::BoxFuture;
use skillhost_control::{
    ClientMessage, QuestionClosure, QuestionDecision, ServerMessage, UserMessage,
};
use skillhost_payload::{
    CallError, SkillRequest, SkillVersionFile, SkillVersionRequest, SkillVersionSummary,
    skill_interface,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::kernel::Kernel;

/// The lines of a thread's pending message, for one client.
pub struct MessageLines {
    lines: mpsc::UnboundedReceiver<ServerMessage>,
}

impl MessageLines {
    /// Returns the next line; `None` after the one that ended the message.
    pub fn next_line(&mut self) -> BoxFuture<'_, Option<ServerMessage>> {
        Box::pin(async move { self.lines.recv().await })
    }
}

impl Kernel {
    /// Starts the web console until the shutdown. Returns its address.
    ///
    /// # Errors
    /// As for [`ConsoleServer::start`](crate::ConsoleServer::start).
    pub fn start_console(&self) -> BoxFuture<'_, Result<String, CallError>> {
        Box::pin(async move { self.console()?.start(self.clone()).await })
    }

    /// Returns the token that is cancelled when the kernel shuts down.
    #[must_use]
    pub fn shutdown_token(&self) -> CancellationToken {
        self.stop_token().clone()
    }

    /// Stores a message of the operator, which this kernel answers in its thread, or the next one.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](skillhost_payload::ErrorKind) for an unknown agent, `InvalidArgument` for an invalid
    /// message id, and the errors of the journal.
    pub fn send_message(&self, message: UserMessage) -> BoxFuture<'_, Result<(), CallError>> {
        Box::pin(async move { self.messages().accept_message(message).await.map(drop) })
    }

    /// Follows the pending message of a thread: the partial reply and the open requests first, then
    /// every further line. `None` if the thread has none.
    #[must_use]
    pub fn follow_thread(&self, thread: &str) -> Option<MessageLines> {
        let channel = self.message_channels().find_by_thread(thread)?;
        Some(MessageLines { lines: channel.attach().lines })
    }

    /// Cancels the run of a thread's pending message; returns whether there is one.
    pub fn cancel_reply<'a>(&'a self, thread: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let Some(channel) = self.message_channels().find_by_thread(thread) else {
                return false;
            };
            let client = channel.attach();
            channel.handle_client_message(client.id, ClientMessage::Cancel).await;
            true
        })
    }

    /// Makes the questions about proposals those of the ledger of skills.
    ///
    /// # Errors
    /// The errors of the ledger and the store.
    pub fn refresh_proposals(&self) -> BoxFuture<'_, Result<(), CallError>> {
        Box::pin(async move { self.questions().mirror_reviews(self.reviews()).await })
    }

    /// Lists the recorded versions of a skill, the oldest first.
    ///
    /// # Errors
    /// The errors of the provider of skills.
    pub fn list_skill_versions<'a>(
        &'a self,
        skill_id: &'a str,
    ) -> BoxFuture<'a, Result<Vec<SkillVersionSummary>, CallError>> {
        let request = SkillRequest { skill_id: skill_id.into() };
        Box::pin(async move { self.reviews().call(skill_interface::LIST_VERSIONS, &request).await })
    }

    /// Returns the files of a recorded version of a skill.
    ///
    /// # Errors
    /// The errors of the provider of skills.
    pub fn read_skill_version<'a>(
        &'a self,
        skill_id: &'a str,
        number: u64,
    ) -> BoxFuture<'a, Result<Vec<SkillVersionFile>, CallError>> {
        let request = SkillVersionRequest { skill_id: skill_id.to_owned(), number };
        Box::pin(async move { self.reviews().call(skill_interface::READ_VERSION, &request).await })
    }

    /// Decides a question on behalf of the operator, on a surface.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`](skillhost_payload::ErrorKind) for a question that is not open, or has other bytes;
    /// `NotFound`; the errors of the store.
    pub fn decide_question<'a>(
        &'a self,
        decision: QuestionDecision,
        surface: &'a str,
    ) -> BoxFuture<'a, Result<QuestionClosure, CallError>> {
        Box::pin(async move {
            self.questions().decide_for_operator(decision, surface, self.reviews()).await
        })
    }
}
