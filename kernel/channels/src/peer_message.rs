//! A message of a person in the allow-list, the replies to it, and the agents of such people.

use skillhost_control::{ChannelRole, DEFAULT_AGENT};
use skillhost_home::ChannelSettings;
use skillhost_payload::{CallError, IncomingMessage};

use crate::channel_hub::ChannelHub;
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

impl ChannelHub {
    /// Stores the present name of a person and, in a direct conversation, where to reach them.
    pub(crate) async fn update_peer(&self, received: &PeerMessage<'_>) -> Result<(), CallError> {
        let PeerMessage { channel, peer, message, .. } = received;
        let direct = (!message.conversation.is_group).then_some(&message.conversation);
        let is_same = peer.name == message.peer.name
            && direct.is_none_or(|direct| peer.direct.as_ref() == Some(direct));
        // Most messages change neither: no write for them.
        if !is_same {
            self.store.update_peer(channel, &message.peer, direct).await?;
        }
        Ok(())
    }

    /// Replies to a message, once.
    pub(crate) async fn reply(
        &self,
        received: &PeerMessage<'_>,
        text: &str,
    ) -> Result<(), CallError> {
        let key = format!("answer:{}", received.id);
        self.submit_text(received.channel, &received.message.conversation, text, key).await
    }

    /// Stores that the kernel has answered a message by itself, then replies.
    pub(crate) async fn finish_handled(
        &self,
        received: &PeerMessage<'_>,
        reply: &str,
        renewed: Option<ConversationRecord>,
    ) -> Result<(), CallError> {
        // In this order: received again after a kill in between, the message is only answered.
        self.store.store_handled(&received.id, reply, renewed, self.clock.now_ms()).await?;
        self.reply(received, reply).await
    }

    /// Returns the record of a message's conversation with a thread.
    pub(crate) fn to_record(
        &self,
        received: &PeerMessage<'_>,
        thread: &str,
        agent: &str,
    ) -> ConversationRecord {
        let PeerMessage { channel, id, peer, message, .. } = received;
        ConversationRecord {
            channel: (*channel).to_owned(),
            conversation: message.conversation.clone(),
            thread: thread.to_owned(),
            agent: agent.to_owned(),
            peer: peer.id.clone(),
            last_message: id.clone(),
        }
    }
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
            // The list may have been shortened since the conversation began.
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
