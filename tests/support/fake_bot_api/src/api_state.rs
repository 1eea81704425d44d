//! The state of the server, and its answers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Value, json};

/// The user name of the bot.
pub const USERNAME: &str = "helper_bot";

/// The limits of the real server.
const TEXT_LIMIT: usize = 4096;
const DATA_LIMIT: usize = 64;

/// A fault of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiFault {
    /// An error with a code and a description; the call has no effect.
    Status(u16, String),
    /// Too many requests, with the seconds to wait; the call has no effect.
    Throttle(u64),
    /// The connection is cut; the call has no effect.
    CutBefore,
    /// The call has its effect, and the connection is cut in the middle of the response.
    CutAfter,
    /// The call has no effect, and the response is this text with the status 200.
    Body(String),
}

/// A call of the bot.
#[derive(Debug, Clone, PartialEq)]
pub struct BotCall {
    /// The method, such as `sendMessage`.
    pub method: String,
    /// The parameters.
    pub body: Value,
    /// Whether the call had its effect.
    pub had_effect: bool,
}

/// A message that the bot sent.
struct SentMessage {
    text: String,
    markup: Value,
}

/// A decision about the next call of a method.
pub(crate) type FaultPlan = Box<dyn FnMut(&str) -> Option<ApiFault> + Send>;

/// The state of the server.
pub(crate) struct ApiState {
    pub(crate) token: Option<String>,
    /// The updates that no offset has confirmed, as JSON texts.
    pub(crate) updates: BTreeMap<i64, String>,
    pub(crate) next_update: i64,
    pub(crate) next_message: i64,
    pub(crate) calls: Vec<BotCall>,
    pub(crate) faults: BTreeMap<String, VecDeque<ApiFault>>,
    pub(crate) plan: Option<FaultPlan>,
    pub(crate) has_webhook: bool,
    pub(crate) blocked: BTreeSet<i64>,
    pub(crate) deleted: BTreeSet<i64>,
    sent: BTreeMap<(i64, i64), SentMessage>,
    /// The number of polls so far: only the last one is answered.
    pub(crate) polls: u64,
}

/// An error of the API.
pub(crate) struct ApiError {
    pub(crate) code: u16,
    pub(crate) description: String,
    pub(crate) retry_after: Option<u64>,
}

impl ApiError {
    pub(crate) fn new(code: u16, description: &str) -> Self {
        Self { code, description: description.to_owned(), retry_after: None }
    }

    fn bad_request(description: &str) -> Self {
        Self::new(400, &format!("Bad Request: {description}"))
    }
}

impl ApiState {
    pub(crate) fn new(token: &str) -> Self {
        Self {
            token: Some(token.to_owned()),
            updates: BTreeMap::new(),
            next_update: 1,
            next_message: 1,
            calls: Vec::new(),
            faults: BTreeMap::new(),
            plan: None,
            has_webhook: false,
            blocked: BTreeSet::new(),
            deleted: BTreeSet::new(),
            sent: BTreeMap::new(),
            polls: 0,
        }
    }

    /// Takes the fault of a call, if it has one.
    pub(crate) fn take_fault(&mut self, method: &str) -> Option<ApiFault> {
        let queued = self.faults.get_mut(method).and_then(VecDeque::pop_front);
        queued.or_else(|| self.plan.as_mut().and_then(|plan| plan(method)))
    }

    /// Returns the updates from an offset on, and forgets those before it.
    pub(crate) fn take_updates(&mut self, body: &Value) -> Vec<String> {
        if let Some(offset) = body["offset"].as_i64() {
            self.updates.retain(|id, _| *id >= offset);
        }
        let limit = body["limit"].as_u64().unwrap_or(100).clamp(1, 100);
        self.updates.values().take(usize::try_from(limit).unwrap_or(100)).cloned().collect()
    }

    /// Answers a call of every method but `getUpdates`.
    pub(crate) fn answer(&mut self, method: &str, body: &Value) -> Result<Value, ApiError> {
        match method {
            "getMe" => {
                let token = self.token.as_deref().unwrap_or_default();
                let id = token.split(':').next().and_then(|id| id.parse::<i64>().ok());
                Ok(json!({"id": id, "is_bot": true, "first_name": "Helper", "username": USERNAME}))
            }
            "sendMessage" => self.send(body),
            "editMessageText" => self.edit(body, true),
            "editMessageReplyMarkup" => self.edit(body, false),
            "deleteWebhook" => {
                self.has_webhook = false;
                Ok(json!(true))
            }
            "answerCallbackQuery" | "sendChatAction" => Ok(json!(true)),
            _ => Err(ApiError::new(404, "Not Found")),
        }
    }

    fn find_chat(&self, body: &Value) -> Result<i64, ApiError> {
        let chat = body["chat_id"].as_i64();
        let chat = chat.ok_or_else(|| ApiError::bad_request("chat_id is empty"))?;
        if self.deleted.contains(&chat) {
            return Err(ApiError::bad_request("chat not found"));
        }
        if self.blocked.contains(&chat) {
            return Err(ApiError::new(403, "Forbidden: bot was blocked by the user"));
        }
        Ok(chat)
    }

    fn send(&mut self, body: &Value) -> Result<Value, ApiError> {
        let chat = self.find_chat(body)?;
        let text = check_text(body)?;
        check_markup(&body["reply_markup"])?;
        let id = self.next_message;
        self.next_message += 1;
        let markup = body["reply_markup"].clone();
        self.sent.insert((chat, id), SentMessage { text: text.to_owned(), markup });
        Ok(json!({"message_id": id, "date": 1, "chat": {"id": chat}, "text": text}))
    }

    fn edit(&mut self, body: &Value, with_text: bool) -> Result<Value, ApiError> {
        let chat = self.find_chat(body)?;
        check_markup(&body["reply_markup"])?;
        let text = if with_text { Some(check_text(body)?.to_owned()) } else { None };
        let id = body["message_id"].as_i64().unwrap_or_default();
        let Some(sent) = self.sent.get_mut(&(chat, id)) else {
            return Err(ApiError::bad_request("message to edit not found"));
        };
        let is_same_text = text.as_ref().is_none_or(|text| *text == sent.text);
        if is_same_text && buttons(&body["reply_markup"]) == buttons(&sent.markup) {
            return Err(ApiError::bad_request(
                "message is not modified: specified new message content and reply markup are \
                 exactly the same",
            ));
        }
        sent.text = text.unwrap_or_else(|| sent.text.clone());
        sent.markup = body["reply_markup"].clone();
        Ok(json!({"message_id": id, "chat": {"id": chat}, "text": sent.text}))
    }
}

fn check_text(body: &Value) -> Result<&str, ApiError> {
    let text = body["text"].as_str().unwrap_or_default();
    if text.trim().is_empty() {
        return Err(ApiError::bad_request("message text is empty"));
    }
    if text.encode_utf16().count() > TEXT_LIMIT {
        return Err(ApiError::bad_request("message is too long"));
    }
    Ok(text)
}

/// Returns the rows of buttons; an empty list and none are the same.
fn buttons(markup: &Value) -> &[Value] {
    markup["inline_keyboard"].as_array().map_or(&[], Vec::as_slice)
}

fn check_markup(markup: &Value) -> Result<(), ApiError> {
    let all = buttons(markup).iter().filter_map(Value::as_array).flatten();
    for button in all {
        let data = button["callback_data"].as_str().unwrap_or_default();
        if data.is_empty() || data.len() > DATA_LIMIT {
            return Err(ApiError::bad_request("BUTTON_DATA_INVALID"));
        }
    }
    Ok(())
}
