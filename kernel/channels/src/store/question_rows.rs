//! Shown questions and their buttons.

use rusqlite::{OptionalExtension as _, Row, TransactionBehavior, params};
use skillhost_payload::ChannelConversation;

use super::peer_rows::to_i64;
use super::{ChannelStore, StoreResult, conversation_from, topic_key};

/// The age from which on buttons and shown questions are removed: questions expire earlier.
const LIFETIME_MS: u64 = 30 * 24 * 60 * 60 * 1_000;

/// A button: one choice of a question, for one person and one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ButtonRecord {
    /// sha256 of the token, hexadecimal.
    pub(crate) hash: String,
    pub(crate) question: String,
    pub(crate) digest: String,
    pub(crate) choice: String,
    pub(crate) channel: String,
    pub(crate) peer: String,
    pub(crate) conversation: ChannelConversation,
    /// The message; `None` until the platform has named it.
    pub(crate) message: Option<String>,
}

/// A question in a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShownQuestion {
    pub(crate) question: String,
    pub(crate) digest: String,
    pub(crate) channel: String,
    pub(crate) peer: String,
    pub(crate) conversation: ChannelConversation,
    /// The message with the buttons; empty where the platform names none.
    pub(crate) message: String,
}

impl ChannelStore {
    /// Stores the buttons of a message that is about to be sent.
    pub(crate) async fn store_buttons(
        &self,
        buttons: Vec<ButtonRecord>,
        now_ms: u64,
    ) -> StoreResult<()> {
        self.run(move |conn| {
            let change = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let oldest = to_i64(now_ms.saturating_sub(LIFETIME_MS));
            change.execute("DELETE FROM buttons WHERE made_ms < ?1", [oldest])?;
            change.execute("DELETE FROM shown_questions WHERE shown_ms < ?1", [oldest])?;
            for button in &buttons {
                change.execute(
                    "INSERT INTO buttons (hash, question, digest, choice, channel, peer, chat,
                         topic, message, made_ms)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                    params![
                        button.hash,
                        button.question,
                        button.digest,
                        button.choice,
                        button.channel,
                        button.peer,
                        button.conversation.id,
                        topic_key(&button.conversation),
                        button.message,
                        to_i64(now_ms)
                    ],
                )?;
            }
            change.commit()?;
            Ok(())
        })
        .await
    }

    /// Stores that a question was sent, and binds its buttons to the message.
    pub(crate) async fn store_shown(
        &self,
        shown: ShownQuestion,
        hashes: Vec<String>,
        now_ms: u64,
    ) -> StoreResult<()> {
        self.run(move |conn| {
            let change = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let ShownQuestion { question, digest, channel, peer, conversation, message } = &shown;
            change.execute(
                "INSERT OR REPLACE INTO shown_questions
                     (question, digest, channel, peer, chat, topic, is_group, message, shown_ms)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                params![
                    question,
                    digest,
                    channel,
                    peer,
                    conversation.id,
                    topic_key(conversation),
                    conversation.is_group,
                    message,
                    to_i64(now_ms)
                ],
            )?;
            for hash in hashes.iter().filter(|_| !message.is_empty()) {
                // A press that was faster has bound it to the same message.
                change.execute(
                    "UPDATE buttons SET message = ?2 WHERE hash = ?1 AND message IS NULL",
                    [hash, message],
                )?;
            }
            change.commit()?;
            Ok(())
        })
        .await
    }

    /// Finds a button by the hash of its token.
    pub(crate) async fn find_button(&self, hash: String) -> StoreResult<Option<ButtonRecord>> {
        let found = self.read(move |conn| {
            let sql = "SELECT hash, question, digest, choice, channel, peer, chat, topic, message
                       FROM buttons WHERE hash = ?1";
            Ok(conn.query_row(sql, [&hash], to_button).optional()?)
        });
        Ok(found.await?.flatten())
    }

    /// Binds a button to the message in which it was pressed first: the kernel was killed before it
    /// stored the message.
    pub(crate) async fn bind_button(&self, hash: String, message: String) -> StoreResult<()> {
        self.run(move |conn| {
            let sql = "UPDATE buttons SET message = ?2 WHERE hash = ?1 AND message IS NULL";
            conn.execute(sql, [&hash, &message])?;
            Ok(())
        })
        .await
    }

    /// Lists the messages that show a question.
    pub(crate) async fn list_shown(&self, question: &str) -> StoreResult<Vec<ShownQuestion>> {
        let question = question.to_owned();
        let listed = self.read(move |conn| {
            let sql = "SELECT question, digest, channel, peer, chat, topic, is_group, message
                       FROM shown_questions WHERE question = ?1 ORDER BY channel, chat, message";
            let mut statement = conn.prepare(sql)?;
            let rows = statement.query_map([&question], to_shown)?;
            Ok(rows.collect::<Result<Vec<_>, _>>()?)
        });
        Ok(listed.await?.unwrap_or_default())
    }
}

fn to_button(row: &Row<'_>) -> rusqlite::Result<ButtonRecord> {
    Ok(ButtonRecord {
        hash: row.get(0)?,
        question: row.get(1)?,
        digest: row.get(2)?,
        choice: row.get(3)?,
        channel: row.get(4)?,
        peer: row.get(5)?,
        conversation: conversation_from(row.get(6)?, row.get(7)?, false),
        message: row.get(8)?,
    })
}

fn to_shown(row: &Row<'_>) -> rusqlite::Result<ShownQuestion> {
    Ok(ShownQuestion {
        question: row.get(0)?,
        digest: row.get(1)?,
        channel: row.get(2)?,
        peer: row.get(3)?,
        conversation: conversation_from(row.get(4)?, row.get(5)?, row.get(6)?),
        message: row.get(7)?,
    })
}
