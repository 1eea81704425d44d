//! A message of a person in the allow-list, and the names and agents of such people.

use skillhost_control::{ChannelRole, DEFAULT_AGENT};
use skillhost_home::ChannelSettings;
use skillhost_payload::IncomingMessage;

use crate::shown_text::clean_line;
use crate::store::{ConversationRecord, PeerRecord};

/// A message of a person in the allow-list.
pub(crate) struct PeerMessage<'a> {
    pub(crate) channel: &'a str,
    /// The id of the user message.
    pub(crate) id: String,
    pub(crate) peer: PeerRecord,
    pub(crate) message: &'a IncomingMessage,
    /// The name of the channel's account, which group commands may carry.
    pub(crate) account: String,
}

/// Returns the agent that answers a person: of a guest only one that is listed.
pub(crate) fn choose_agent(
    peer: &PeerRecord,
    settings: &ChannelSettings,
    known: Option<&ConversationRecord>,
) -> Option<String> {
    let known = known.map(|known| known.agent.clone());
    match peer.role {
        ChannelRole::Owner => {
            Some(settings.agent.clone().unwrap_or_else(|| DEFAULT_AGENT.to_owned()))
        }
        ChannelRole::Guest => {
            let listed = if peer.agents.is_empty() { &settings.guests } else { &peer.agents };
            known.filter(|agent| listed.contains(agent)).or_else(|| listed.first().cloned())
        }
    }
}

/// Returns the name under which an owner decides.
pub(crate) fn owner_name(peer: &PeerRecord) -> String {
    let name = if peer.name.is_empty() { &peer.id } else { &peer.name };
    format!("{} {}", peer.role.as_str(), clean_line(name))
}
