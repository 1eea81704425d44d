//! What people send, in the form of the kernel.

use serde_json::value::RawValue;
use skillhost_sdk::{ChannelConversation, ChannelPeer, IncomingMessage, PressedButton};

use crate::bot_client::describe_json;
use crate::message::{
    BotApiChat, BotApiMessage, BotApiUpdate, BotApiUser, CallbackQuery, MessageEntity, UpdateNumber,
};

/// The largest id of an update: all ids of the platform fit into 52 bits.
const MAX_UPDATE: i64 = 1 << 52;
/// The longest token of a button, in bytes.
const DATA_LIMIT: usize = 64;
/// The entities of a text that are read.
const MAX_ENTITIES: usize = 100;
/// The longest name of a person, in characters.
const NAME_LIMIT: usize = 200;

/// The bot itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BotIdentity {
    pub(crate) id: i64,
    /// The user name without `@`.
    pub(crate) username: String,
}

/// An update for the kernel.
#[derive(Debug, PartialEq)]
pub(crate) enum ParsedUpdate {
    Message(IncomingMessage),
    Press {
        /// The id under which the press is acknowledged.
        query: String,
        /// `None` if the button is not one of the kernel's.
        button: Option<PressedButton>,
    },
    /// It is not for the bot, with the reason.
    Ignored(&'static str),
}

/// Returns the id of an update, if it has a valid one.
pub(crate) fn update_number(update: &RawValue) -> Option<i64> {
    let number: UpdateNumber = serde_json::from_str(update.get()).ok()?;
    (0..=MAX_UPDATE).contains(&number.update_id).then_some(number.update_id)
}

/// Reads an update.
///
/// # Errors
/// The reason why it cannot be read, without its text.
pub(crate) fn parse_update(update: &RawValue, bot: &BotIdentity) -> Result<ParsedUpdate, String> {
    let update: BotApiUpdate =
        serde_json::from_str(update.get()).map_err(|error| describe_json(&error))?;
    Ok(match update {
        BotApiUpdate { message: Some(message), .. } => read_message(&message, bot, false),
        BotApiUpdate { edited_message: Some(message), .. } => read_message(&message, bot, true),
        BotApiUpdate { callback_query: Some(query), .. } => read_query(query),
        _ => ParsedUpdate::Ignored("its kind is not supported"),
    })
}

fn read_message(message: &BotApiMessage, bot: &BotIdentity, is_edit: bool) -> ParsedUpdate {
    let Some(is_group) = is_group(&message.chat) else {
        return ParsedUpdate::Ignored("it is not in a direct chat or a group");
    };
    // Messages in the name of a group or channel have no person: everyone who may write in its name
    // would be one peer.
    let sender = message.from.as_ref().filter(|from| !from.is_bot && message.sender_chat.is_none());
    let Some(sender) = sender else {
        return ParsedUpdate::Ignored("its sender is not a person");
    };
    if is_group && !is_addressed(message, bot) {
        return ParsedUpdate::Ignored("it does not address the bot");
    }
    let (written, entities) = match &message.text {
        Some(text) => (Some(text), &message.entities),
        None => (message.caption.as_ref(), &message.caption_entities),
    };
    let written = written.map(|text| without_address(text, entities, bot));
    let text = match (message.attachment(), written) {
        (None, Some(text)) => text,
        // The agent learns that there is more than it sees.
        (Some(kind), Some(text)) => format!("[{kind}, not shown]\n{text}"),
        (Some(kind), None) if !is_edit => format!("[{kind}, not shown]"),
        // Live locations are edited every few seconds.
        (Some(_), None) => return ParsedUpdate::Ignored("its edit has no text"),
        (None, None) => return ParsedUpdate::Ignored("it is a service message"),
    };
    let id = message.message_id;
    let (external_id, text) = match (is_edit, message.edit_date) {
        (false, _) => (id.to_string(), text),
        // An edit is a message of its own, once for each date. Its first line also keeps an edited
        // command from being one.
        (true, Some(date)) => (format!("{id}:edit:{date}"), format!("[edited message]\n{text}")),
        (true, None) => return ParsedUpdate::Ignored("its edit has no date"),
    };
    let topic = topic_of(message.is_topic_message, message.message_thread_id);
    ParsedUpdate::Message(IncomingMessage {
        external_id,
        conversation: ChannelConversation { id: message.chat.id.to_string(), topic, is_group },
        peer: to_peer(sender),
        text,
    })
}

fn read_query(query: CallbackQuery) -> ParsedUpdate {
    let is_token = |data: &String| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        (1..=DATA_LIMIT).contains(&data.len()) && data.bytes().all(is_plain)
    };
    let button = query.data.filter(is_token).zip(query.message).and_then(|(token, message)| {
        let is_group = is_group(&message.chat).filter(|_| !query.from.is_bot)?;
        let topic = topic_of(message.is_topic_message, message.message_thread_id);
        Some(PressedButton {
            token,
            conversation: ChannelConversation { id: message.chat.id.to_string(), topic, is_group },
            message_id: message.message_id.to_string(),
            peer: to_peer(&query.from),
        })
    });
    ParsedUpdate::Press { query: query.id, button }
}

/// Returns whether a chat is a group; `None` if it is neither a group nor a direct chat.
fn is_group(chat: &BotApiChat) -> Option<bool> {
    match chat.kind.as_str() {
        "private" => Some(false),
        "group" | "supergroup" => Some(true),
        _ => None,
    }
}

/// Returns the topic. Replies in groups without topics have a number as well, which is none.
fn topic_of(is_topic: bool, thread: Option<i64>) -> Option<String> {
    thread.filter(|_| is_topic).map(|thread| thread.to_string())
}

fn to_peer(user: &BotApiUser) -> ChannelPeer {
    let mut name = user.first_name.clone();
    if let Some(last) = &user.last_name {
        name.push(' ');
        name.push_str(last);
    }
    if let Some(username) = &user.username {
        name.push_str(&format!(" (@{username})"));
    }
    ChannelPeer { id: user.id.to_string(), name: name.chars().take(NAME_LIMIT).collect() }
}

/// Returns whether a message in a group is for the bot: a command, a mention, or a reply to it.
fn is_addressed(message: &BotApiMessage, bot: &BotIdentity) -> bool {
    let replied = message.reply_to_message.as_ref().and_then(|replied| replied.from.as_ref());
    if replied.is_some_and(|user| user.id == bot.id) {
        return true;
    }
    let parts = [
        (message.text.as_deref(), &message.entities),
        (message.caption.as_deref(), &message.caption_entities),
    ];
    parts.into_iter().any(|(text, entities)| {
        let text = text.unwrap_or_default();
        // The platform has fewer; each one costs a pass over the text.
        entities.iter().take(MAX_ENTITIES).any(|entity| match entity.kind.as_str() {
            "mention" => entity_text(text, entity).is_some_and(|name| is_name_of(&name, bot)),
            "text_mention" => entity.user.as_ref().is_some_and(|user| user.id == bot.id),
            // A command without a name is for every bot of the group.
            "bot_command" => {
                entity.offset == 0
                    && entity_text(text, entity).is_some_and(|command| {
                        command.split_once('@').is_none_or(|(_, name)| is_same_name(name, bot))
                    })
            }
            _ => false,
        })
    })
}

/// Returns the text of an entity; `None` if its place is not in the text.
fn entity_text(text: &str, entity: &MessageEntity) -> Option<String> {
    let units: Vec<u16> = text.encode_utf16().collect();
    let end = entity.offset.checked_add(entity.length)?;
    String::from_utf16(units.get(entity.offset..end)?).ok()
}

fn is_same_name(name: &str, bot: &BotIdentity) -> bool {
    // Names are compared as the platform does; an empty one never fits.
    !bot.username.is_empty() && name.eq_ignore_ascii_case(&bot.username)
}

fn is_name_of(mention: &str, bot: &BotIdentity) -> bool {
    mention.strip_prefix('@').is_some_and(|name| is_same_name(name, bot))
}

/// Returns a text without the bot's name at its start: `/help@bot` is `/help`, and `@bot hello` is
/// `hello`.
fn without_address(text: &str, entities: &[MessageEntity], bot: &BotIdentity) -> String {
    let first = entities.iter().find(|entity| entity.offset == 0);
    let Some((entity, part)) = first.and_then(|entity| Some((entity, entity_text(text, entity)?)))
    else {
        return text.to_owned();
    };
    let rest = &text[part.len()..];
    match entity.kind.as_str() {
        "bot_command" => match part.split_once('@') {
            Some((command, name)) if is_same_name(name, bot) => format!("{command}{rest}"),
            _ => text.to_owned(),
        },
        "mention" if is_name_of(&part, bot) => {
            let rest = rest.trim_start_matches([',', ':']).trim_start();
            // A name alone is a message as well.
            if rest.is_empty() { text.to_owned() } else { rest.to_owned() }
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
