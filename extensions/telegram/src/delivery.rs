//! Messages of the kernel, and their new texts.

use serde::Deserialize;
use serde_json::{Value, json};
use skillhost_sdk::prelude::*;
use skillhost_sdk::{ChannelConversation, MessageButton, OutgoingMessage, SendOutcome};

use crate::bot_client::{BotApiError, BotClient};
use crate::bot_token::BotToken;

/// The length limit of a message's text, in UTF-16 code units.
pub(crate) const TEXT_LIMIT: usize = 4096;
/// The longest token of a button, in bytes.
const DATA_LIMIT: usize = 64;
/// The longest label of a button, in characters; longer ones do not fit on a phone.
const LABEL_LIMIT: usize = 64;

/// The message that the platform returns.
#[derive(Deserialize)]
struct SentMessage {
    message_id: i64,
}

/// Returns the parameters that name a conversation; `None` if it is not one of the platform.
pub(crate) fn conversation_parameters(conversation: &ChannelConversation) -> Option<Value> {
    let mut parameters = json!({ "chat_id": conversation.id.parse::<i64>().ok()? });
    if let Some(topic) = &conversation.topic {
        parameters["message_thread_id"] = topic.parse::<i64>().ok()?.into();
    }
    Some(parameters)
}

/// Sends a message, or replaces one.
///
/// # Errors
/// [`ErrorKind::Unavailable`] if the message has to be sent again.
pub(crate) async fn deliver_message(
    client: &BotClient,
    token: &BotToken,
    message: &OutgoingMessage,
) -> Result<SendOutcome> {
    if let Some(reason) = find_defect(message) {
        return Ok(rejected(reason));
    }
    let Some(mut parameters) = conversation_parameters(&message.conversation) else {
        return Ok(rejected("the conversation is not one of Telegram"));
    };
    let Some(edited) = &message.edits else {
        add_text(&mut parameters, &message.text);
        if !message.buttons.is_empty() {
            parameters["reply_markup"] = to_keyboard(&message.buttons);
        }
        return match client.call::<SentMessage>(token, "sendMessage", &parameters).await {
            Ok(sent) => Ok(SendOutcome::Sent { message_id: Some(sent.message_id.to_string()) }),
            Err(error) => to_outcome(error),
        };
    };
    let Ok(id) = edited.parse::<i64>() else {
        return Ok(rejected("the edited message is not one of Telegram"));
    };
    // A message is edited by its number in the chat; the topic is no parameter.
    let mut parameters = json!({"chat_id": parameters["chat_id"], "message_id": id});
    let mut without_text = parameters.clone();
    add_text(&mut parameters, &message.text);
    parameters["reply_markup"] = to_keyboard(&message.buttons);
    let outcome =
        to_edit_outcome(client.call::<Value>(token, "editMessageText", &parameters).await, edited)?;
    let SendOutcome::Rejected { .. } = outcome else { return Ok(outcome) };
    if !message.buttons.is_empty() {
        return Ok(outcome);
    }
    // The text stays as it is, but buttons without an effect are removed.
    without_text["reply_markup"] = to_keyboard(&[]);
    let removed = client.call::<Value>(token, "editMessageReplyMarkup", &without_text).await;
    match to_edit_outcome(removed, edited)? {
        // The first reason is the one of the message.
        SendOutcome::Rejected { .. } => Ok(outcome),
        other => Ok(other),
    }
}

/// Returns the reason why a message can never be sent, without asking the platform.
fn find_defect(message: &OutgoingMessage) -> Option<&'static str> {
    if message.text.trim().is_empty() {
        return Some("the text is empty");
    }
    if message.text.encode_utf16().count() > TEXT_LIMIT {
        return Some("the text is too long");
    }
    let is_valid = |button: &MessageButton| {
        (1..=DATA_LIMIT).contains(&button.token.len()) && !button.label.trim().is_empty()
    };
    (!message.buttons.iter().all(is_valid)).then_some("a button is not valid")
}

fn add_text(parameters: &mut Value, text: &str) {
    // Without `parse_mode`, no character has a meaning.
    parameters["text"] = text.into();
    // A preview would make the platform load an address that an agent wrote.
    parameters["link_preview_options"] = json!({"is_disabled": true});
}

/// Returns the buttons, one below the other.
fn to_keyboard(buttons: &[MessageButton]) -> Value {
    let rows = buttons.iter().map(|button| {
        let label: String = button.label.chars().take(LABEL_LIMIT).collect();
        json!([{"text": label, "callback_data": button.token}])
    });
    json!({"inline_keyboard": rows.collect::<Vec<_>>()})
}

fn rejected(reason: &str) -> SendOutcome {
    SendOutcome::Rejected { reason: reason.to_owned() }
}

fn to_edit_outcome(result: Result<Value, BotApiError>, edited: &str) -> Result<SendOutcome> {
    let sent = || SendOutcome::Sent { message_id: Some(edited.to_owned()) };
    match result {
        Ok(_) => Ok(sent()),
        // An earlier attempt has replaced it.
        Err(BotApiError::Refused { description, .. })
            if description.contains("message is not modified") =>
        {
            Ok(sent())
        }
        Err(error) => to_outcome(error),
    }
}

fn to_outcome(error: BotApiError) -> Result<SendOutcome> {
    let unavailable = |message: String| Err(ExtensionError::new(ErrorKind::Unavailable, message));
    match error {
        BotApiError::Throttled { wait } => {
            let retry_after_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            Ok(SendOutcome::Throttled { retry_after_ms })
        }
        BotApiError::Refused { code, description } => {
            Ok(SendOutcome::Rejected { reason: format!("{description} (status {code})") })
        }
        BotApiError::Conflict { description } => unavailable(description),
        BotApiError::Transient { reason } => unavailable(reason),
        // A new token continues what the old one began.
        BotApiError::Unauthorized { code } => {
            unavailable(format!("Telegram refuses the token of the bot (status {code})"))
        }
    }
}

#[cfg(test)]
mod tests;
