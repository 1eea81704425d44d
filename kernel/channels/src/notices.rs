//! Replies of agents and ends of tasks, sent to the conversations that they belong to.

use serde::Deserialize;
use skillhost_payload::CallError;
use skillhost_tasks::{EndNotice, Task, TaskId, TaskKind, TaskOutcome};

use crate::channel_hub::ChannelHub;
use crate::environment::FoundMessage;
use crate::shown_text::{clean_line, clean_message};

/// The length limit of a result in a notice, in characters.
const MAX_RESULT_CHARS: usize = 2_000;

/// The fields of `agent.replied` that a reply needs.
#[derive(Deserialize)]
struct AgentReplied {
    message_id: String,
    thread: String,
    outcome: Option<ReplyText>,
    error: Option<ReplyError>,
}

#[derive(Deserialize)]
struct ReplyText {
    text: String,
}

#[derive(Deserialize)]
struct ReplyError {
    message: String,
}

impl ChannelHub {
    /// Handles an event `agent.replied` of the kernel, which may be handled twice: sends the reply to
    /// the conversation of its thread, if a person wrote the message there or the end of a task led
    /// to it.
    ///
    /// # Errors
    /// An error of a store; the event is handled again.
    pub async fn handle_reply(&self, payload: &str) -> Result<(), CallError> {
        let replied: AgentReplied =
            serde_json::from_str(payload).map_err(|error| CallError::protocol_error(&error))?;
        let AgentReplied { message_id, thread, outcome, error } = replied;
        let Some(record) = self.store.find_by_thread(&thread).await? else { return Ok(()) };
        let found = self.environment.find_message(&message_id).await?;
        if !found.as_ref().is_some_and(is_from_channel) {
            return Ok(());
        }
        let text = match (outcome, error) {
            (Some(ReplyText { text }), _) => text,
            (None, Some(ReplyError { message })) => {
                format!("The agent could not answer: {message}")
            }
            (None, None) => return Ok(()),
        };
        let key = format!("reply:{message_id}");
        self.submit_text(&record.channel, &record.conversation, &clean_message(&text), key).await
    }

    /// Handles the end of all attempts to answer a message, which may be handled twice: sends a text
    /// to the conversation, where a person waits for the reply.
    ///
    /// # Errors
    /// An error of a store; the event is handled again.
    pub async fn handle_dead_message(
        &self,
        message_id: &str,
        delivery: i64,
    ) -> Result<(), CallError> {
        let found = self.environment.find_message(message_id).await?;
        let Some(FoundMessage { message, is_wake }) = found.filter(is_from_channel) else {
            return Ok(());
        };
        let Some(record) = self.store.find_by_thread(&message.thread).await? else {
            return Ok(());
        };
        let text = match is_wake {
            true => {
                "A task has ended, but the agent could not report it: all attempts failed. Ask it \
                 for the result."
            }
            false => "The agent could not answer: all attempts failed. Send the message again.",
        };
        // The id is new for each message; a message that an operator retries gets its reply, too.
        let key = format!("dead:{message_id}:{delivery}");
        self.submit_text(&record.channel, &record.conversation, text, key).await
    }

    /// Handles an event `task.ended`, which may be handled twice: sends a notice to the conversation
    /// of the thread that submitted the task. Returns the delivery that has failed, if it is one.
    ///
    /// # Errors
    /// An error of a store; the event is handled again.
    pub async fn handle_task_end(&self, task: &TaskId) -> Result<Option<Task>, CallError> {
        // Only the row is trusted: an extension may publish such an event, too.
        let found = self.queue.find(task).await?;
        let Some(task) = found.filter(|task| task.state.is_terminal()) else { return Ok(None) };
        if task.kind == TaskKind::Deliver {
            let has_failed = matches!(task.outcome, Some(TaskOutcome::Failed { .. }));
            return Ok(has_failed.then_some(task));
        }
        // After a wake the agent itself reports; its reply is sent.
        let thread = task.submitter.thread.as_ref().filter(|_| task.on_end == EndNotice::Note);
        let Some(thread) = thread else { return Ok(None) };
        let Some(record) = self.store.find_by_thread(thread).await? else { return Ok(None) };
        let key = format!("ended:{}", task.id);
        let text = describe_end(&task);
        self.submit_text(&record.channel, &record.conversation, &text, key).await?;
        Ok(None)
    }
}

/// Returns whether the reply to a message belongs to a channel: what the operator writes at a terminal
/// is answered there.
fn is_from_channel(found: &FoundMessage) -> bool {
    found.is_wake || found.message.channel.is_some()
}

fn describe_end(task: &Task) -> String {
    let title = clean_line(&task.title);
    let head = format!(
        "Task {} has {}: {title}",
        task.id,
        match &task.outcome {
            Some(TaskOutcome::Completed { .. }) => "completed",
            Some(TaskOutcome::Failed { .. }) => "failed",
            _ => "been cancelled",
        }
    );
    match &task.outcome {
        Some(TaskOutcome::Completed { text, .. }) => format!("{head}\n{}", shorten(text)),
        Some(TaskOutcome::Failed { message, .. }) => format!("{head}\n{}", shorten(message)),
        _ => head,
    }
}

fn shorten(text: &str) -> String {
    let text = clean_message(text);
    // The task has all of it.
    match text.char_indices().nth(MAX_RESULT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
