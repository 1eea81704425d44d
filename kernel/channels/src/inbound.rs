//! Messages of people: who is answered, and what reaches an agent.

use std::sync::PoisonError;

use skillhost_control::{ChannelOrigin, ChannelRole, UserMessage};
use skillhost_files::sha256_hex;
use skillhost_payload::{
    CallError, ChannelConversation, ChannelPeer, ErrorKind, InboundOutcome, IncomingMessage,
    OperatorCommand,
};

use crate::channel_hub::ChannelHub;
use crate::chat_commands::ChatCommand;
use crate::peer_message::{PeerMessage, choose_agent};
use crate::random_token::is_pairing_code;
use crate::rate_limit::RateVerdict;
use crate::secret_detector::find_secret;
use crate::shown_text::clean_line;

/// The length limit of ids of a platform, in bytes.
const MAX_ID_BYTES: usize = 256;
/// The size limit of a message, in bytes.
const MAX_TEXT_BYTES: usize = 32 * 1024;
/// The number of hexadecimal digits of a message id.
const ID_DIGITS: usize = 40;

/// The reason why a message of a person in the allow-list is not processed.
struct MessageRefusal {
    /// The reply; `None` is silence.
    reply: Option<String>,
    outcome: InboundOutcome,
}

impl MessageRefusal {
    fn with_reply(reply: String) -> Self {
        Self { reply: Some(reply), outcome: InboundOutcome::Refused }
    }
}

impl ChannelHub {
    /// Receives a message of a person. When this returns without an error, the platform may forget
    /// the message: it is a durable event, was received before, or is not processed.
    ///
    /// A person who is not paired gets no answer, and no part of the message is stored.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for an id that is empty or too long; [`ErrorKind::Io`] and
    /// [`ErrorKind::Unavailable`] if the message could not be stored.
    pub async fn receive_message(
        &self,
        channel: &str,
        mut message: IncomingMessage,
    ) -> Result<InboundOutcome, CallError> {
        check_ids(&message)?;
        message.peer.name = self.clean_name(&message.peer.name);
        let Some(peer) = self.store.find_peer(channel, &message.peer.id).await? else {
            return self.pair_person(channel, &message).await;
        };
        let account = self.environment.fetch_info(channel).await?.account;
        let id = message_id(channel, &account, &message.conversation, &message.external_id);
        let received = PeerMessage { channel, id, peer, message: &message, account };
        let _alone = self.receiving.lock().await;
        // Before the limits: a repeated message must not count twice.
        if let Some(reply) = self.store.find_handled(&received.id).await? {
            self.reply(&received, &reply).await?;
            return Ok(InboundOutcome::Duplicate);
        }
        if self.environment.find_message(&received.id).await?.is_some() {
            return Ok(InboundOutcome::Duplicate);
        }
        if let Some(MessageRefusal { reply, outcome }) = self.find_refusal(&received) {
            if let Some(reply) = reply {
                self.reply(&received, &reply).await?;
            }
            return Ok(outcome);
        }
        match ChatCommand::parse(&message.text, &received.account) {
            Some(command) => self.execute_command(&received, command).await,
            None => self.accept_message(&received).await,
        }
    }

    /// Returns the refusal of a message that is not processed.
    // First the secret: no later check may see such a text.
    fn find_refusal(&self, received: &PeerMessage<'_>) -> Option<MessageRefusal> {
        let text = &received.message.text;
        if let Some(kind) = find_secret(text, &self.environment.secrets()) {
            return Some(MessageRefusal::with_reply(format!(
                "Your message was not stored, because it seems to contain a secret ({kind}). \
                 Consider the secret exposed to this platform. Secrets are only entered at the \
                 terminal of the kernel."
            )));
        }
        let limit = self.environment.settings(received.channel).message_limit();
        let verdict = {
            let mut limiter = self.limiter.lock().unwrap_or_else(PoisonError::into_inner);
            limiter.count(received.channel, &received.peer.id, limit, self.clock.steady_ms())
        };
        match verdict {
            RateVerdict::Within => {}
            RateVerdict::Exceeded { notify, wait_ms } => {
                let reply = notify.then(|| {
                    format!(
                        "You sent more than {limit} messages per minute. Please wait a minute; \
                         the messages since then were not read."
                    )
                });
                let outcome = InboundOutcome::Throttled { retry_after_ms: wait_ms };
                return Some(MessageRefusal { reply, outcome });
            }
        }
        (text.len() > MAX_TEXT_BYTES).then(|| {
            MessageRefusal::with_reply(format!(
                "Your message was not read: it has {} bytes, and {MAX_TEXT_BYTES} are allowed. \
                 Please send a shorter one.",
                text.len()
            ))
        })
    }

    /// Pairs a person who sent a valid code in a direct conversation; ignores everyone else.
    async fn pair_person(
        &self,
        channel: &str,
        message: &IncomingMessage,
    ) -> Result<InboundOutcome, CallError> {
        let text = message.text.trim();
        let code = text.strip_prefix("/start").map_or(text, str::trim);
        if message.conversation.is_group || !is_pairing_code(code) {
            return Ok(InboundOutcome::Refused);
        }
        let (peer, direct) = (&message.peer, &message.conversation);
        let now_ms = self.clock.now_ms();
        let paired = self.store.redeem_code(channel, code, peer, direct, now_ms).await?;
        let Some(peer) = paired else { return Ok(InboundOutcome::Refused) };
        let account = self.environment.fetch_info(channel).await?.account;
        let id = message_id(channel, &account, direct, &message.external_id);
        let received = PeerMessage { channel, id, peer, message, account };
        let reply = format!(
            "You are paired as {}. {}",
            received.peer.role.as_str(),
            match received.peer.role {
                ChannelRole::Owner => "Send a message to talk to your agent, or /help.",
                ChannelRole::Guest => "Send a message to talk to the agent.",
            }
        );
        self.finish_handled(&received, &reply, None).await?;
        Ok(InboundOutcome::Accepted)
    }

    /// Makes a message a user message in the thread of its conversation.
    async fn accept_message(
        &self,
        received: &PeerMessage<'_>,
    ) -> Result<InboundOutcome, CallError> {
        if received.message.text.trim().is_empty() {
            return Ok(InboundOutcome::Refused);
        }
        let PeerMessage { channel, id, peer, message, .. } = received;
        let known = self.store.find_conversation(channel, &message.conversation).await?;
        let settings = self.environment.settings(channel);
        let Some(agent) = choose_agent(peer, &settings, known.as_ref()) else {
            let reply = "No agent is available to guests here. Ask the person who invited you.";
            self.reply(received, reply).await?;
            return Ok(InboundOutcome::Refused);
        };
        let thread = match known {
            Some(known) if self.environment.has_thread(&known.thread).await => known.thread,
            _ => self.environment.create_thread(&agent).await?,
        };
        let record = self.to_record(received, &thread, &agent);
        self.store.store_conversation(record, self.clock.now_ms()).await?;
        self.update_peer(received).await?;
        let user_message = UserMessage {
            message_id: id.clone(),
            thread,
            agent,
            text: attributed_text(peer.role, message),
            model: None,
            workspaces: Vec::new(),
            channel: Some(Box::new(ChannelOrigin {
                channel: (*channel).to_owned(),
                peer: message.peer.clone(),
                role: peer.role,
                is_group: message.conversation.is_group,
            })),
        };
        match self.environment.store_message(user_message).await {
            Ok(()) => Ok(InboundOutcome::Accepted),
            // Sent again, it could be stored.
            Err(error) if matches!(error.kind, ErrorKind::Io | ErrorKind::Unavailable) => {
                Err(error)
            }
            Err(error) => {
                tracing::warn!(channel, %error, "message of a channel cannot be answered");
                let status = OperatorCommand::ShowStatus;
                let reply = format!(
                    "The agent is not available at the moment. Its operator can see the reason: \
                     {status}"
                );
                self.reply(received, &reply).await?;
                Ok(InboundOutcome::Refused)
            }
        }
    }

    /// Returns the name of a person as it is stored; one that contains a secret is not.
    fn clean_name(&self, name: &str) -> String {
        let name = clean_line(name);
        match find_secret(&name, &self.environment.secrets()) {
            Some(_) => String::new(),
            None => name,
        }
    }
}

/// Returns the text for the agent: in a group it names its author.
fn attributed_text(role: ChannelRole, message: &IncomingMessage) -> String {
    match message.conversation.is_group {
        true => {
            let ChannelPeer { id, name } = &message.peer;
            let name = if name.is_empty() { id } else { name };
            format!("{name} ({}): {}", role.as_str(), message.text)
        }
        false => message.text.clone(),
    }
}

/// Returns the id of a user message: the same whenever the platform repeats it.
fn message_id(
    channel: &str,
    account: &str,
    conversation: &ChannelConversation,
    external_id: &str,
) -> String {
    let topic = conversation.topic.as_deref();
    // As JSON, so that no two identities have the same text.
    let identity = serde_json::json!([channel, account, conversation.id, topic, external_id]);
    format!("channel-{}", &sha256_hex(identity.to_string().as_bytes())[..ID_DIGITS])
}

fn check_ids(message: &IncomingMessage) -> Result<(), CallError> {
    let IncomingMessage { external_id, conversation, peer, .. } = message;
    let topic = conversation.topic.as_deref();
    let ids = [("message", external_id), ("conversation", &conversation.id), ("person", &peer.id)];
    for (what, id) in ids {
        if id.is_empty() || id.len() > MAX_ID_BYTES {
            let message = format!("the id of a {what} has 1 to {MAX_ID_BYTES} bytes");
            return Err(ChannelHub::invalid_error(message));
        }
    }
    if topic.is_some_and(|topic| topic.is_empty() || topic.len() > MAX_ID_BYTES) {
        let message = format!("the id of a topic has 1 to {MAX_ID_BYTES} bytes");
        return Err(ChannelHub::invalid_error(message));
    }
    Ok(())
}
