//! Conversations with people on other platforms, which extensions carry.
//!
//! A [`ChannelHub`] is the kernel's side of all channels of a home. A message of a person passes the
//! allow-list, the search for secrets, the limits of rate and size, and the commands that need no
//! agent; then it is a user message in the thread of its conversation. What the kernel sends is a
//! task of the kind `deliver`, so that a kill, a slow platform or a broken connection loses no text.
//! Questions have buttons, whose tokens are bound to the question's bytes, one person and one
//! message.
//!
//! The guarantees hold whenever the process ends: a message that was accepted is a durable event,
//! once per id of the platform; a person who is not in the list gets no answer, and no byte of theirs
//! is stored; a text with a secret is stored nowhere.

mod channel_block;
mod channel_hub;
mod channel_operations;
mod chat_commands;
mod delivery;
mod environment;
mod inbound;
mod notices;
mod outgoing;
mod peer_message;
mod question_events;
mod question_text;
mod random_token;
mod rate_limit;
mod secret_detector;
mod shown_text;
mod store;
mod text_split;

pub use channel_hub::ChannelHub;
pub use channel_operations::{ChannelOperations, ChannelSummary, loaded_channels};
pub use delivery::{DeliveryEnd, DeliveryLog, DeliveryTask, parse_delivery_error};
pub use environment::{ChannelEnvironment, FoundMessage};
pub use store::{ChannelStore, ChannelStoreError, PairingCode, PeerRecord};
