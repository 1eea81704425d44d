//! The execution of deliveries: each part until the platform has it, and none again that it has.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use skillhost_payload::{
    CallError, ChannelConversation, ChannelInfo, MessageButton, OperatorCommand, OutgoingMessage,
    SendOutcome,
};
use skillhost_tasks::QuestionState;

use crate::channel_hub::ChannelHub;
use crate::outgoing::{DeliveryBody, DeliveryInput};
use crate::question_text::{PageLimits, QuestionChoice, format_question};
use crate::random_token::{new_button_token, token_hash};
use crate::secret_detector::mask_secrets;
use crate::shown_text::clean_message;
use crate::store::{ButtonRecord, ShownQuestion};
use crate::text_split::split_text;

/// The time for which a message is tried, from its first failure on.
const MAX_RETRY_MS: u64 = 24 * 60 * 60 * 1_000;
/// The pauses before retries: the first, and the longest.
const FIRST_PAUSE_MS: u64 = 5_000;
const MAX_PAUSE_MS: u64 = 60 * 60 * 1_000;
/// The factor of pauses that follow each other.
const PAUSE_FACTOR: u64 = 3;
/// The length limit of a reason, in characters.
const MAX_REASON_CHARS: usize = 300;

/// A claimed delivery.
#[derive(Debug, Clone, Copy)]
pub struct DeliveryTask<'a> {
    /// The id of the task, the key of its messages.
    pub id: &'a str,
    /// The target.
    pub target: &'a str,
    /// The input.
    pub input: &'a str,
    /// The lines of earlier attempts.
    pub lines: &'a [String],
    /// Whether an earlier attempt may have been lost.
    pub is_repeated: bool,
}

/// The journal of a delivery.
#[async_trait]
pub trait DeliveryLog: Send + Sync {
    /// Checks that this attempt may send.
    ///
    /// # Errors
    /// Another attempt has the task.
    async fn check_claim(&self) -> Result<(), CallError>;

    /// Appends a line; it is durable when this returns.
    ///
    /// # Errors
    /// The line was not stored.
    async fn append_line(&self, line: String) -> Result<(), CallError>;
}

/// The end of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryEnd {
    /// The platform has every part.
    Sent {
        /// A text for people.
        summary: String,
    },
    /// It goes on at a time, in milliseconds since 1970.
    Later {
        /// The time.
        until_ms: u64,
    },
    /// The platform never accepts it, or has not for a day.
    Failed {
        /// The reason, untrusted.
        message: String,
        /// The remedy.
        hint: String,
    },
    /// The attempt could not be recorded, or another one has the task.
    Stopped,
}

/// A line of a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
enum DeliveryLine {
    /// A later attempt began: a task without lines would fail after a few lost workers.
    AttemptStarted,
    /// The platform has a part.
    PartSent {
        part: usize,
        /// The limit at which the text was split, which later attempts keep.
        limit: usize,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// The platform did not take a part.
    AttemptFailed { error: String, at_ms: u64 },
}

/// Returns the error in a line of a delivery whose attempt has failed. Untrusted.
#[must_use]
pub fn parse_delivery_error(line: &str) -> Option<String> {
    match serde_json::from_str(line).ok()? {
        DeliveryLine::AttemptFailed { error, .. } => Some(error),
        DeliveryLine::AttemptStarted | DeliveryLine::PartSent { .. } => None,
    }
}

/// The state of a delivery after its earlier attempts.
#[derive(Default)]
struct DeliveryProgress {
    sent: usize,
    limit: Option<usize>,
    failures: u32,
    first_failure_ms: Option<u64>,
}

/// The messages of a delivery.
struct DeliveryContent {
    parts: Vec<String>,
    /// The question, with the choices of the last part.
    question: Option<AskedQuestion>,
    /// The message that is replaced.
    edits: Option<String>,
}

struct AskedQuestion {
    question: String,
    digest: String,
    peer: String,
    choices: Vec<QuestionChoice>,
}

/// The reason why an attempt ends early.
enum DeliveryStop {
    Stopped,
    /// A transient error.
    Failed(CallError),
    Throttled(u64),
    Rejected(String),
}

impl From<CallError> for DeliveryStop {
    fn from(error: CallError) -> Self {
        Self::Failed(error)
    }
}

impl From<crate::store::ChannelStoreError> for DeliveryStop {
    fn from(error: crate::store::ChannelStoreError) -> Self {
        Self::Failed(error.into())
    }
}

impl ChannelHub {
    /// Sends the parts of a delivery that the platform does not have yet.
    pub async fn deliver(&self, task: DeliveryTask<'_>, log: &dyn DeliveryLog) -> DeliveryEnd {
        let input: DeliveryInput = match serde_json::from_str(task.input) {
            Ok(input) => input,
            Err(error) => {
                let message = format!("the input of the delivery is not valid: {error}");
                return DeliveryEnd::Failed { message, hint: String::new() };
            }
        };
        let channel = task.target.split('@').next().unwrap_or_default();
        let mut progress = DeliveryProgress::load(task.lines);
        if task.is_repeated && append(log, &DeliveryLine::AttemptStarted).await.is_err() {
            return DeliveryEnd::Stopped;
        }
        let stop = match self.send_parts(&task, channel, &input, &mut progress, log).await {
            Ok(summary) => return DeliveryEnd::Sent { summary },
            Err(stop) => stop,
        };
        let now_ms = self.clock.now_ms();
        match stop {
            DeliveryStop::Stopped => DeliveryEnd::Stopped,
            DeliveryStop::Rejected(reason) => DeliveryEnd::Failed {
                message: format!("the platform rejected the message: {}", shorten(&reason)),
                hint: "check whether the conversation still exists, then retry the task".to_owned(),
            },
            DeliveryStop::Throttled(wait_ms) => {
                let wait_ms = wait_ms.min(MAX_PAUSE_MS);
                self.wait_for_retry(&progress, "the platform is busy", wait_ms, now_ms, log).await
            }
            DeliveryStop::Failed(error) => {
                let wait_ms = retry_pause_ms(progress.failures);
                self.wait_for_retry(&progress, &error.message, wait_ms, now_ms, log).await
            }
        }
    }

    /// Records a failed attempt, and returns the time of the next one.
    async fn wait_for_retry(
        &self,
        progress: &DeliveryProgress,
        error: &str,
        wait_ms: u64,
        now_ms: u64,
        log: &dyn DeliveryLog,
    ) -> DeliveryEnd {
        let first_ms = progress.first_failure_ms.unwrap_or(now_ms);
        if now_ms.saturating_sub(first_ms) >= MAX_RETRY_MS {
            let message = format!("the message was not sent within a day: {}", shorten(error));
            let hint = format!("see: {}; then retry the task", OperatorCommand::CheckExtensions);
            return DeliveryEnd::Failed { message, hint };
        }
        let line = DeliveryLine::AttemptFailed { error: shorten(error), at_ms: now_ms };
        match append(log, &line).await {
            Ok(()) => DeliveryEnd::Later { until_ms: now_ms.saturating_add(wait_ms.max(1)) },
            Err(_) => DeliveryEnd::Stopped,
        }
    }

    async fn send_parts(
        &self,
        task: &DeliveryTask<'_>,
        channel: &str,
        input: &DeliveryInput,
        progress: &mut DeliveryProgress,
        log: &dyn DeliveryLog,
    ) -> Result<String, DeliveryStop> {
        // A person who was revoked since gets no message; buttons are taken away from everyone.
        let is_closure = matches!(input.body, DeliveryBody::Closure { .. });
        if !is_closure && !self.store.is_reachable(channel, &input.conversation).await? {
            return Ok("not sent: no paired person is in the conversation".to_owned());
        }
        let info = self.environment.fetch_info(channel).await?;
        let limit = progress.limit.unwrap_or(info.text_limit);
        let Some(content) = self.compose_content(input, &info, limit).await? else {
            return Ok("not sent: the question was closed before".to_owned());
        };
        let count = content.parts.len();
        // The earlier parts are on the platform already.
        for part in progress.sent..count {
            let (is_last, conversation) = (part + 1 == count, &input.conversation);
            let asked = content.question.as_ref().filter(|_| is_last);
            let buttons = match asked {
                Some(asked) => self.create_buttons(channel, conversation, asked).await?,
                None => Vec::new(),
            };
            let hashes: Vec<String> = buttons.iter().map(|it| token_hash(&it.token)).collect();
            let message = OutgoingMessage {
                key: format!("{}/{part}", task.id),
                conversation: conversation.clone(),
                text: content.parts[part].clone(),
                buttons,
                edits: content.edits.clone(),
            };
            log.check_claim().await.map_err(|_| DeliveryStop::Stopped)?;
            let message = match self.environment.send_message(channel, &message).await? {
                SendOutcome::Sent { message_id } => message_id,
                SendOutcome::Throttled { retry_after_ms } => {
                    return Err(DeliveryStop::Throttled(retry_after_ms));
                }
                SendOutcome::Rejected { reason } => return Err(DeliveryStop::Rejected(reason)),
            };
            if let Some(asked) = asked {
                let shown = to_shown(channel, conversation, asked, message.as_deref());
                self.store_shown_question(shown, hashes).await?;
            }
            // Behind the platform's receipt: a kill in between sends the part again, none is lost.
            let line = DeliveryLine::PartSent { part, limit, message };
            append(log, &line).await.map_err(|_| DeliveryStop::Stopped)?;
            progress.sent = part + 1;
            progress.limit = Some(limit);
        }
        Ok(match count {
            1 => "sent".to_owned(),
            count => format!("sent in {count} parts"),
        })
    }

    /// Composes the messages; `None` for a question that is no longer open with the same bytes.
    async fn compose_content(
        &self,
        input: &DeliveryInput,
        info: &ChannelInfo,
        limit: usize,
    ) -> Result<Option<DeliveryContent>, DeliveryStop> {
        let secrets = self.environment.secrets();
        let mask = |text: &str| mask_secrets(text, &secrets).into_owned();
        let limits = PageLimits {
            text: limit,
            has_buttons: info.has_buttons,
            is_group: input.conversation.is_group,
        };
        let content = match &input.body {
            DeliveryBody::Text { text } => DeliveryContent {
                parts: split_text(&mask(&clean_message(text)), limit),
                question: None,
                edits: None,
            },
            DeliveryBody::Question { question: id, digest, peer } => {
                let question = self.questions.find(id).await?;
                let is_current = |question: &skillhost_tasks::Question| {
                    question.state == QuestionState::Open && question.digest == *digest
                };
                let Some(question) = question.filter(is_current) else { return Ok(None) };
                let page = format_question(&question, limits, &mask, &split_text);
                let asked = AskedQuestion {
                    question: id.clone(),
                    digest: digest.clone(),
                    peer: peer.clone(),
                    choices: page.choices,
                };
                DeliveryContent { parts: page.parts, question: Some(asked), edits: None }
            }
            DeliveryBody::Closure { question: id, message, line } => {
                let line = mask(line);
                let can_edit = info.can_edit && !message.is_empty();
                let text = match self.questions.find(id).await? {
                    // The end of the text stays above its outcome.
                    Some(question) if can_edit => {
                        let page = format_question(&question, limits, &mask, &split_text);
                        let last = page.parts.last().map(String::as_str).unwrap_or_default();
                        let text = format!(
                            "{}\n\n{line}",
                            last.trim_end_matches("Choose below.").trim_end()
                        );
                        if split_text(&text, limit).len() == 1 { text } else { line }
                    }
                    _ => format!("Question {id}: {line}"),
                };
                let edits = can_edit.then(|| message.clone());
                DeliveryContent { parts: vec![text], question: None, edits }
            }
        };
        Ok(Some(content))
    }

    /// Creates the buttons of a question. Only the hashes of their tokens are stored, before the
    /// message is sent.
    async fn create_buttons(
        &self,
        channel: &str,
        conversation: &ChannelConversation,
        asked: &AskedQuestion,
    ) -> Result<Vec<MessageButton>, DeliveryStop> {
        let to_button = |choice: &QuestionChoice| MessageButton {
            label: choice.label.clone(),
            token: new_button_token(),
        };
        let buttons: Vec<MessageButton> = asked.choices.iter().map(to_button).collect();
        let to_record = |(choice, button): (&QuestionChoice, &MessageButton)| ButtonRecord {
            hash: token_hash(&button.token),
            question: asked.question.clone(),
            digest: asked.digest.clone(),
            choice: choice.choice.clone(),
            channel: channel.to_owned(),
            peer: asked.peer.clone(),
            conversation: conversation.clone(),
            message: None,
        };
        let records = asked.choices.iter().zip(&buttons).map(to_record).collect();
        self.store.store_buttons(records, self.clock.now_ms()).await?;
        Ok(buttons)
    }

    async fn store_shown_question(
        &self,
        shown: ShownQuestion,
        hashes: Vec<String>,
    ) -> Result<(), DeliveryStop> {
        self.store.store_shown(shown.clone(), hashes, self.clock.now_ms()).await?;
        // Closed while it was sent: the event of its end did not find this copy.
        if let Some(question) = self.questions.find(&shown.question).await? {
            self.close_copy(&question, shown).await?;
        }
        Ok(())
    }
}

impl DeliveryProgress {
    /// Loads the progress from the lines; unknown ones are of a newer program.
    fn load(lines: &[String]) -> Self {
        let mut progress = Self::default();
        for line in lines.iter().filter_map(|line| serde_json::from_str(line).ok()) {
            match line {
                DeliveryLine::AttemptStarted => {}
                DeliveryLine::PartSent { part, limit, .. } => {
                    progress.sent = progress.sent.max(part + 1);
                    progress.limit = Some(limit);
                }
                DeliveryLine::AttemptFailed { at_ms, .. } => {
                    progress.failures += 1;
                    progress.first_failure_ms.get_or_insert(at_ms);
                }
            }
        }
        progress
    }
}

fn to_shown(
    channel: &str,
    conversation: &ChannelConversation,
    asked: &AskedQuestion,
    message: Option<&str>,
) -> ShownQuestion {
    ShownQuestion {
        question: asked.question.clone(),
        digest: asked.digest.clone(),
        channel: channel.to_owned(),
        peer: asked.peer.clone(),
        conversation: conversation.clone(),
        message: message.unwrap_or_default().to_owned(),
    }
}

async fn append(log: &dyn DeliveryLog, line: &DeliveryLine) -> Result<(), CallError> {
    let line = serde_json::to_string(line).map_err(|error| CallError::protocol_error(&error))?;
    log.append_line(line).await
}

/// Returns the pause after a number of failures: 5·3ⁿ seconds, at most an hour.
fn retry_pause_ms(failures: u32) -> u64 {
    FIRST_PAUSE_MS.saturating_mul(PAUSE_FACTOR.saturating_pow(failures)).min(MAX_PAUSE_MS)
}

fn shorten(text: &str) -> String {
    clean_message(text).chars().take(MAX_REASON_CHARS).collect()
}

#[cfg(test)]
mod tests;
