//! The JSON of messages that people send, as far as the channel reads it.

use serde::Deserialize;
use serde::de::IgnoredAny;

/// A user or a bot.
#[derive(Deserialize)]
pub(crate) struct BotApiUser {
    pub(crate) id: i64,
    #[serde(default)]
    pub(crate) is_bot: bool,
    #[serde(default)]
    pub(crate) first_name: String,
    pub(crate) last_name: Option<String>,
    pub(crate) username: Option<String>,
}

/// A chat.
#[derive(Deserialize)]
pub(crate) struct BotApiChat {
    pub(crate) id: i64,
    #[serde(rename = "type", default)]
    pub(crate) kind: String,
}

/// A part of a text that has a meaning of its own.
#[derive(Deserialize)]
pub(crate) struct MessageEntity {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// The start in UTF-16 code units.
    pub(crate) offset: usize,
    /// The length in UTF-16 code units.
    pub(crate) length: usize,
    /// The user of a mention without a name.
    pub(crate) user: Option<BotApiUser>,
}

/// The message to which another one replies.
#[derive(Deserialize)]
pub(crate) struct RepliedMessage {
    pub(crate) from: Option<BotApiUser>,
}

/// A message.
#[derive(Deserialize)]
pub(crate) struct BotApiMessage {
    pub(crate) message_id: i64,
    pub(crate) chat: BotApiChat,
    pub(crate) from: Option<BotApiUser>,
    /// Set where a group or a channel writes instead of a person.
    pub(crate) sender_chat: Option<IgnoredAny>,
    pub(crate) edit_date: Option<i64>,
    pub(crate) message_thread_id: Option<i64>,
    #[serde(default)]
    pub(crate) is_topic_message: bool,
    pub(crate) reply_to_message: Option<RepliedMessage>,
    pub(crate) text: Option<String>,
    #[serde(default)]
    pub(crate) entities: Vec<MessageEntity>,
    pub(crate) caption: Option<String>,
    #[serde(default)]
    pub(crate) caption_entities: Vec<MessageEntity>,
    photo: Option<IgnoredAny>,
    animation: Option<IgnoredAny>,
    video: Option<IgnoredAny>,
    video_note: Option<IgnoredAny>,
    voice: Option<IgnoredAny>,
    audio: Option<IgnoredAny>,
    document: Option<IgnoredAny>,
    sticker: Option<IgnoredAny>,
    story: Option<IgnoredAny>,
    paid_media: Option<IgnoredAny>,
    contact: Option<IgnoredAny>,
    dice: Option<IgnoredAny>,
    poll: Option<IgnoredAny>,
    checklist: Option<IgnoredAny>,
    venue: Option<IgnoredAny>,
    location: Option<IgnoredAny>,
}

impl BotApiMessage {
    /// Returns the kind of content that is not text; `None` for service messages and unknown kinds.
    pub(crate) fn attachment(&self) -> Option<&'static str> {
        // Animations are documents, and venues are locations, as well: the first one counts.
        let kinds = [
            (&self.photo, "photo"),
            (&self.animation, "animation"),
            (&self.video, "video"),
            (&self.video_note, "video message"),
            (&self.voice, "voice message"),
            (&self.audio, "audio file"),
            (&self.document, "file"),
            (&self.sticker, "sticker"),
            (&self.story, "story"),
            (&self.paid_media, "paid media"),
            (&self.contact, "contact"),
            (&self.dice, "dice"),
            (&self.poll, "poll"),
            (&self.checklist, "checklist"),
            (&self.venue, "venue"),
            (&self.location, "location"),
        ];
        kinds.into_iter().find(|(content, _)| content.is_some()).map(|(_, name)| name)
    }
}

/// The message with a pressed button, which may be too old to be complete.
#[derive(Deserialize)]
pub(crate) struct PressedMessage {
    pub(crate) message_id: i64,
    pub(crate) chat: BotApiChat,
    pub(crate) message_thread_id: Option<i64>,
    #[serde(default)]
    pub(crate) is_topic_message: bool,
}

/// A pressed button.
#[derive(Deserialize)]
pub(crate) struct CallbackQuery {
    pub(crate) id: String,
    pub(crate) from: BotApiUser,
    pub(crate) message: Option<PressedMessage>,
    pub(crate) data: Option<String>,
}

/// An update; other kinds are not requested.
#[derive(Deserialize)]
pub(crate) struct BotApiUpdate {
    pub(crate) message: Option<BotApiMessage>,
    pub(crate) edited_message: Option<BotApiMessage>,
    pub(crate) callback_query: Option<CallbackQuery>,
}

/// The number of an update alone, which is read even where the rest has an unexpected form.
#[derive(Deserialize)]
pub(crate) struct UpdateNumber {
    pub(crate) update_id: i64,
}
