//! Messages to people, as tasks.

use serde::{Deserialize, Serialize};
use skillhost_files::sha256_hex;
use skillhost_payload::ChannelConversation;
use skillhost_tasks::{EndNotice, NewTask, SubmitterOrigin, TaskKind, TaskSubmitter};

/// The namespace of the keys of deliveries.
const SCOPE: &str = "channel";
/// The priority of deliveries: a person waits for them.
const PRIORITY: i32 = 100;
/// The size limit of a text, in bytes; its thread has all of it.
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// The input of a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeliveryInput {
    pub(crate) conversation: ChannelConversation,
    pub(crate) body: DeliveryBody,
}

/// The content of a delivery. That of a question is made when it is sent, so that no token is
/// stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum DeliveryBody {
    /// A text.
    Text { text: String },
    /// A question, for one person.
    Question { question: String, digest: String, peer: String },
    /// The end of a question, in place of its buttons.
    Closure { question: String, message: String, line: String },
}

/// Returns the task that sends a text. A task with the same key is the same delivery; the target is
/// the channel, of which a shared store has one per home.
pub(crate) fn new_text_delivery(
    target: &str,
    conversation: &ChannelConversation,
    text: &str,
    key: Option<String>,
) -> NewTask {
    let body = DeliveryBody::Text { text: shorten(text) };
    new_delivery(target, &DeliveryInput { conversation: conversation.clone(), body }, key)
}

/// Returns the task of a delivery.
pub(crate) fn new_delivery(target: &str, input: &DeliveryInput, key: Option<String>) -> NewTask {
    let DeliveryInput { conversation, body } = input;
    let title = match body {
        DeliveryBody::Text { .. } => format!("message to {target}"),
        DeliveryBody::Question { .. } => format!("question to {target}"),
        DeliveryBody::Closure { .. } => format!("end of a question to {target}"),
    };
    // Hashed, as ids of platforms may be longer than a lane.
    let topic = conversation.topic.as_deref().unwrap_or_default();
    let place = format!("{target}\n{}\n{topic}", conversation.id);
    let lane = format!("channel:{}", &sha256_hex(place.as_bytes())[..32]);
    // A struct of texts is always valid JSON.
    let text = serde_json::to_string(input).unwrap_or_default();
    NewTask {
        title,
        lane: Some(lane),
        priority: PRIORITY,
        scope: SCOPE.to_owned(),
        key,
        on_end: EndNotice::Silent,
        submitter: TaskSubmitter { origin: SubmitterOrigin::Event, ..TaskSubmitter::default() },
        ..NewTask::new(TaskKind::Deliver, target, text)
    }
}

fn shorten(text: &str) -> String {
    if text.len() <= MAX_TEXT_BYTES {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(MAX_TEXT_BYTES);
    format!("{}…\n(shortened; the thread has all of it)", &text[..end])
}
