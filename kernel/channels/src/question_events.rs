//! Questions on channels: who is asked, who decides, and the end of each copy.

use skillhost_control::{ChannelOrigin, ChannelRole};
use skillhost_files::sha256_hex;
use skillhost_payload::{ButtonOutcome, CallError, ChannelConversation, ErrorKind, PressedButton};
use skillhost_questions::{can_owner_decide, decide_review, message_of_question};
use skillhost_tasks::{Decider, Decision, DecisionOutcome, Question, QuestionKind, QuestionState};

use crate::channel_hub::ChannelHub;
use crate::outgoing::{DeliveryBody, DeliveryInput};
use crate::peer_message::owner_name;
use crate::random_token::token_hash;
use crate::shown_text::clean_line;
use crate::store::{ConversationRecord, PeerRecord, ShownQuestion};

/// The length limit of tokens and ids of a press, in bytes.
const MAX_PRESS_BYTES: usize = 256;
/// The reply to a button that this kernel does not know.
const UNKNOWN_BUTTON: &str = "This button is no longer valid.";
/// The reply to a person who decides about a question that is reserved for the operator.
const ONLY_OPERATOR: &str = "Only the operator decides about this.";
/// The reply to everyone but the person who was asked.
const NOT_YOURS: &str = "This question is not yours.";

/// The conversation that a question belongs to.
pub(crate) struct QuestionPlace {
    pub(crate) record: ConversationRecord,
    /// The origin of the message that led to it, if it is known.
    origin: Option<Box<ChannelOrigin>>,
}

/// A person who is asked, and where.
struct QuestionTarget {
    channel: String,
    conversation: ChannelConversation,
    peer: String,
}

impl ChannelHub {
    /// Handles an event `question.opened`, which may be handled twice: shows the question to the
    /// owner who may decide about it.
    ///
    /// # Errors
    /// An error of a store; the event is handled again.
    pub async fn handle_question_opened(&self, id: &str) -> Result<(), CallError> {
        let Some(question) = self.queue.question(id).await? else { return Ok(()) };
        if question.state != QuestionState::Open || !self.store.exists() {
            return Ok(());
        }
        for target in self.list_targets(&question).await? {
            let QuestionTarget { channel, conversation, peer } = target;
            let place = place_digest(&channel, &conversation);
            let key = format!("question:{id}:{place}:{}", &sha256_hex(peer.as_bytes())[..16]);
            self.submit_question(&question, &channel, &conversation, &peer, key).await?;
        }
        Ok(())
    }

    /// Handles an event `question.closed`, which may be handled twice: every copy loses its buttons
    /// and names the decision.
    ///
    /// # Errors
    /// An error of a store; the event is handled again.
    pub async fn handle_question_closed(&self, id: &str) -> Result<(), CallError> {
        let shown = self.store.list_shown(id).await?;
        // Most questions were never on a channel.
        if shown.is_empty() {
            return Ok(());
        }
        let Some(question) = self.queue.question(id).await? else { return Ok(()) };
        for copy in shown {
            self.close_copy(&question, copy).await?;
        }
        Ok(())
    }

    /// Replaces the buttons of a copy by the end of its question.
    pub(crate) async fn close_copy(
        &self,
        question: &Question,
        copy: ShownQuestion,
    ) -> Result<(), CallError> {
        if question.state == QuestionState::Open {
            return Ok(());
        }
        let ShownQuestion { channel, conversation, message, .. } = copy;
        let place = place_digest(&channel, &conversation);
        let number = &sha256_hex(message.as_bytes())[..16];
        let key = format!("closed:{}:{place}:{number}", question.id);
        let (question, line) = (question.id.clone(), self.describe_end(question));
        let body = DeliveryBody::Closure { question, message, line };
        self.submit_delivery(&channel, &DeliveryInput { conversation, body }, key).await
    }

    /// Submits the delivery of a question to a person, once per key.
    pub(crate) async fn submit_question(
        &self,
        question: &Question,
        channel: &str,
        conversation: &ChannelConversation,
        peer: &str,
        key: String,
    ) -> Result<(), CallError> {
        let body = DeliveryBody::Question {
            question: question.id.clone(),
            digest: question.digest.clone(),
            peer: peer.to_owned(),
        };
        let input = DeliveryInput { conversation: conversation.clone(), body };
        self.submit_delivery(channel, &input, key).await
    }

    /// Decides about a question by its button. The decision counts only for the person and the
    /// message that the button is bound to, and for the bytes that were shown.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] and [`ErrorKind::Unavailable`] if the question is still open.
    pub async fn press_button(
        &self,
        channel: &str,
        press: &PressedButton,
    ) -> Result<ButtonOutcome, CallError> {
        let text = match self.decide_by_button(channel, press).await {
            Ok(text) => text,
            // The person may press again.
            Err(error) if matches!(error.kind, ErrorKind::Io | ErrorKind::Unavailable) => {
                return Err(error);
            }
            Err(error) => {
                tracing::warn!(channel, %error, "pressed button decided nothing");
                "The decision could not be made; look at the question at the terminal.".to_owned()
            }
        };
        Ok(ButtonOutcome { text })
    }

    async fn decide_by_button(
        &self,
        channel: &str,
        press: &PressedButton,
    ) -> Result<String, CallError> {
        let PressedButton { token, conversation, message_id, peer } = press;
        if [token, message_id, &peer.id].iter().any(|text| text.len() > MAX_PRESS_BYTES) {
            return Ok(UNKNOWN_BUTTON.to_owned());
        }
        let hash = token_hash(token);
        let found = self.store.find_button(hash.clone()).await?;
        let Some(button) = found.filter(|button| button.channel == channel) else {
            return Ok(UNKNOWN_BUTTON.to_owned());
        };
        // A person who was revoked, or is a guest now, may not decide.
        let person = self.store.find_peer(channel, &peer.id).await?;
        let is_owner = |person: &PeerRecord| person.role == ChannelRole::Owner;
        let Some(person) = person.filter(|it| is_owner(it) && it.id == button.peer) else {
            return Ok(NOT_YOURS.to_owned());
        };
        let is_here = button.conversation.id == conversation.id
            && button.conversation.topic == conversation.topic;
        match &button.message {
            Some(message) if is_here && message == message_id => {}
            None if is_here => self.store.bind_button(hash, message_id.clone()).await?,
            // A token that was copied into another message.
            _ => return Ok(UNKNOWN_BUTTON.to_owned()),
        }
        let decision = Decision {
            question: button.question.clone(),
            digest: button.digest,
            choice: button.choice,
            reason: None,
            decider: Decider { name: owner_name(&person), surface: channel.to_owned() },
        };
        self.decide(decision, conversation.is_group).await
    }

    /// Decides, and returns the line for the person.
    async fn decide(&self, decision: Decision, is_group: bool) -> Result<String, CallError> {
        let Some(question) = self.questions.find(&decision.question).await? else {
            return Ok("The question no longer exists.".to_owned());
        };
        let outcome = match question.kind {
            // Its buttons are only in conversations with an owner alone; this holds for all senders.
            QuestionKind::Build if is_group || !can_owner_decide(&question) => {
                return Ok(ONLY_OPERATOR.to_owned());
            }
            // Its ledger decides, and the row follows.
            QuestionKind::Proposal => {
                decide_review(&self.queue, self.environment.reviews(), decision).await?
            }
            _ => self.questions.decide(decision).await?,
        };
        Ok(match outcome {
            DecisionOutcome::Decided { question } => {
                let choice = question.choice.as_deref().unwrap_or_default();
                format!("Decided: {}.", clean_line(choice))
            }
            DecisionOutcome::Closed { question } => self.describe_closed(&question),
            DecisionOutcome::DigestMismatch { .. } => {
                "The question has changed since it was shown; nothing was decided.".to_owned()
            }
        })
    }

    /// Finds the conversation whose thread or task asks a question.
    pub(crate) async fn find_place(
        &self,
        question: &Question,
    ) -> Result<Option<QuestionPlace>, CallError> {
        let (thread, message) = match &question.task {
            Some(task) => {
                let Some(task) = self.queue.find(task).await? else { return Ok(None) };
                // A subtask has the thread of the task above it.
                let outermost = self.queue.find(&task.root).await?.unwrap_or(task);
                (outermost.submitter.thread, outermost.submitter.correlation_id)
            }
            None => (question.thread.clone(), message_of_question(question)),
        };
        let Some(thread) = thread else { return Ok(None) };
        let Some(record) = self.store.find_by_thread(&thread).await? else { return Ok(None) };
        let message = message.unwrap_or_else(|| record.last_message.clone());
        let found = self.environment.find_message(&message).await?;
        let origin = found.and_then(|found| found.message.channel);
        Ok(Some(QuestionPlace { record, origin }))
    }

    /// Returns who is asked: the owner whose message led to the question, where it was sent; for
    /// everyone else, and for proposals, the owners in their own conversations. A build or a restart
    /// is never decided in a group: its author is asked alone.
    async fn list_targets(&self, question: &Question) -> Result<Vec<QuestionTarget>, CallError> {
        if question.kind == QuestionKind::Proposal {
            return self.list_owners(None).await;
        }
        let Some(QuestionPlace { record, origin }) = self.find_place(question).await? else {
            return Ok(Vec::new());
        };
        let peer = origin.map_or_else(|| record.peer.clone(), |origin| origin.peer.id);
        let person = self.store.find_peer(&record.channel, &peer).await?;
        match person {
            Some(person) if person.role == ChannelRole::Owner => {
                let ConversationRecord { channel, mut conversation, .. } = record;
                if question.kind == QuestionKind::Build && conversation.is_group {
                    let Some(direct) = person.direct else { return Ok(Vec::new()) };
                    conversation = direct;
                }
                Ok(vec![QuestionTarget { channel, conversation, peer }])
            }
            _ => self.list_owners(Some(&record.channel)).await,
        }
    }

    async fn list_owners(&self, channel: Option<&str>) -> Result<Vec<QuestionTarget>, CallError> {
        let peers = self.store.list_peers(channel).await?;
        let owners = peers.into_iter().filter(|peer| peer.role == ChannelRole::Owner);
        let reachable = owners.filter_map(|PeerRecord { channel, id, direct, .. }| {
            Some(QuestionTarget { channel, conversation: direct?, peer: id })
        });
        Ok(reachable.collect())
    }

    /// Describes the end of a question for a person who was later.
    pub(crate) fn describe_closed(&self, question: &Question) -> String {
        match (question.state, &question.choice, &question.decider) {
            (QuestionState::Decided, Some(choice), Some(decider)) => format!(
                "Decided before: {} by {} ({}).",
                clean_line(choice),
                clean_line(&decider.name),
                clean_line(&decider.surface)
            ),
            (QuestionState::Expired, ..) => "The question has expired.".to_owned(),
            _ => "The question was withdrawn.".to_owned(),
        }
    }

    /// Describes the end of a question, for its copies.
    fn describe_end(&self, question: &Question) -> String {
        let decider = question.decider.clone().unwrap_or_default();
        let (name, surface) = (clean_line(&decider.name), clean_line(&decider.surface));
        match (question.state, &question.choice) {
            (QuestionState::Decided, Some(choice)) => {
                format!("Decided: {} — {name} ({surface})", clean_line(choice))
            }
            (QuestionState::Expired, _) => "Expired: the question was open for 7 days.".to_owned(),
            _ => {
                let reason = question.reason.as_deref().map(clean_line).unwrap_or_default();
                format!("Withdrawn: {reason}")
            }
        }
    }
}

/// Returns a short digest of a conversation, for keys.
fn place_digest(channel: &str, conversation: &ChannelConversation) -> String {
    let place = serde_json::json!([channel, conversation.id, conversation.topic]);
    sha256_hex(place.to_string().as_bytes())[..16].to_owned()
}
