//! Channels: extensions that carry messages between people on another platform and agents.

use serde::{Deserialize, Serialize};

/// The interface of channels, called through the generic call.
pub mod channel_interface {
    /// Name of the interface.
    pub const NAME: &str = "channel";
    /// `null` → [`crate::ChannelInfo`].
    pub const INFO: &str = "info";
    /// [`crate::OutgoingMessage`] → [`crate::SendOutcome`].
    pub const SEND: &str = "send";
    /// [`crate::ChannelPeer`] → `null` or a text of at most 500 characters.
    pub const HINT: &str = "hint";
}

/// The properties of a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelInfo {
    /// The account on the platform, such as the name of a bot; a part of the identity of each
    /// message.
    pub account: String,
    /// The length limit of a message's text, in UTF-16 code units; longer texts are split.
    pub text_limit: usize,
    /// The markup of texts in words for a model, such as `plain text without markup`.
    pub format: String,
    /// Whether a message can have buttons.
    #[serde(default)]
    pub has_buttons: bool,
    /// Whether a sent message can be replaced.
    #[serde(default)]
    pub can_edit: bool,
}

/// A person on the platform.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelPeer {
    /// The id on the platform, which its owner cannot change.
    pub id: String,
    /// The name that the person shows, untrusted.
    #[serde(default)]
    pub name: String,
}

/// A conversation on the platform. Each has a thread of its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ChannelConversation {
    /// The id of the chat.
    pub id: String,
    /// The id of the topic in the chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Whether several people can write and read.
    #[serde(default)]
    pub is_group: bool,
}

/// A message of a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncomingMessage {
    /// The id of the message on the platform, the same when it is fetched again.
    pub external_id: String,
    /// The conversation.
    pub conversation: ChannelConversation,
    /// The person who wrote it.
    pub peer: ChannelPeer,
    /// The text.
    pub text: String,
}

/// The result of [`crate::host_method::RECEIVE_MESSAGE`]. In each case the platform may forget the
/// message; an error means that it may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InboundOutcome {
    /// It is durable, and is answered.
    Accepted,
    /// It was received before.
    Duplicate,
    /// It is not processed; the kernel sends a reply where the person gets one.
    Refused,
    /// It is not processed, as the person sends too many messages.
    Throttled {
        /// The time after which the person may send a message again, in milliseconds.
        retry_after_ms: u64,
    },
}

/// A pressed button.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PressedButton {
    /// The token of the button.
    pub token: String,
    /// The conversation with the message.
    pub conversation: ChannelConversation,
    /// The message that has the button, as [`SendOutcome::Sent`] named it.
    pub message_id: String,
    /// The person who pressed it.
    pub peer: ChannelPeer,
}

/// The result of a pressed button.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ButtonOutcome {
    /// A line for the person who pressed it, of at most 200 characters.
    pub text: String,
}

/// A button of a message.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageButton {
    /// The label.
    pub label: String,
    /// The token, of at most 64 characters of `A–Z a–z 0–9 _ -`, which only the platform may see.
    pub token: String,
}

/// A message to send, or the new text of a message that was sent.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutgoingMessage {
    /// The key, the same at each attempt; a platform that remembers keys shows the message once.
    pub key: String,
    /// The conversation.
    pub conversation: ChannelConversation,
    /// The text, of at most [`ChannelInfo::text_limit`] units.
    pub text: String,
    /// The buttons, in order. Without buttons, an edited message loses those that it had.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buttons: Vec<MessageButton>,
    /// The message that is replaced; `None` sends a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edits: Option<String>,
}

/// The result of [`channel_interface::SEND`]. An error is transient: the message is sent again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SendOutcome {
    /// The platform has the message.
    Sent {
        /// Its id in the conversation, where the platform names one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
    },
    /// The platform accepts it later.
    Throttled {
        /// The time to wait, in milliseconds.
        retry_after_ms: u64,
    },
    /// The platform never accepts it, as with a conversation that was deleted.
    Rejected {
        /// The reason, untrusted.
        reason: String,
    },
}

/// The position in a platform's sequence of messages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelCursor {
    /// The position, of at most 4 KiB; `None` before the first message.
    pub value: Option<String>,
}

impl std::fmt::Debug for PressedButton {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PressedButton").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for MessageButton {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MessageButton").field("label", &self.label).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for OutgoingMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut fields = f.debug_struct("OutgoingMessage");
        fields.field("key", &self.key).field("conversation", &self.conversation);
        fields.field("edits", &self.edits).finish_non_exhaustive()
    }
}
