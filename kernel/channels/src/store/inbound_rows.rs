//! Conversations, positions, and the messages that were handled without an agent.

use rusqlite::{OptionalExtension as _, TransactionBehavior, params};
use skillhost_payload::{ChannelConversation, ChannelCursor};

use super::peer_rows::to_i64;
use super::{ChannelStore, ChannelStoreError, StoreResult, conversation_from, topic_key};

/// The size limit of a position, in bytes.
const MAX_CURSOR_BYTES: usize = 4 * 1024;
/// The time for which a platform may repeat a message that the kernel has answered by itself.
const HANDLED_LIFETIME_MS: u64 = 14 * 24 * 60 * 60 * 1_000;

/// A conversation and its thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConversationRecord {
    pub(crate) channel: String,
    pub(crate) conversation: ChannelConversation,
    pub(crate) thread: String,
    pub(crate) agent: String,
    /// The person who wrote last.
    pub(crate) peer: String,
    /// The id of the last message.
    pub(crate) last_message: String,
}

impl ChannelStore {
    /// Finds a conversation.
    pub(crate) async fn find_conversation(
        &self,
        channel: &str,
        conversation: &ChannelConversation,
    ) -> StoreResult<Option<ConversationRecord>> {
        let (channel, chat) = (channel.to_owned(), conversation.id.clone());
        let topic = topic_key(conversation).to_owned();
        let found = self.read(move |conn| find_row(conn, &channel, &chat, &topic));
        Ok(found.await?.flatten())
    }

    /// Finds the conversation of a thread, also of an earlier one.
    pub(crate) async fn find_by_thread(
        &self,
        thread: &str,
    ) -> StoreResult<Option<ConversationRecord>> {
        let thread = thread.to_owned();
        let found = self.read(move |conn| {
            let place = conn
                .query_row(
                    "SELECT channel, chat, topic FROM threads WHERE thread = ?1",
                    [&thread],
                    |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
                )
                .optional()?;
            let Some((channel, chat, topic)): Option<(String, String, String)> = place else {
                return Ok(None);
            };
            find_row(conn, &channel, &chat, &topic)
        });
        Ok(found.await?.flatten())
    }

    /// Lists the threads of a conversation, also the earlier ones.
    pub(crate) async fn list_threads(
        &self,
        record: &ConversationRecord,
    ) -> StoreResult<Vec<String>> {
        let (channel, chat) = (record.channel.clone(), record.conversation.id.clone());
        let topic = topic_key(&record.conversation).to_owned();
        let listed = self.read(move |conn| {
            let mut statement = conn.prepare(
                "SELECT thread FROM threads WHERE channel = ?1 AND chat = ?2 AND topic = ?3
                 ORDER BY thread",
            )?;
            let rows = statement.query_map([&channel, &chat, &topic], |row| row.get(0))?;
            Ok(rows.collect::<Result<Vec<_>, _>>()?)
        });
        Ok(listed.await?.unwrap_or_default())
    }

    /// Stores a conversation with its present thread, agent, person and message.
    pub(crate) async fn store_conversation(
        &self,
        record: ConversationRecord,
        now_ms: u64,
    ) -> StoreResult<()> {
        self.run(move |conn| {
            let change = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
            store_row(&change, &record, now_ms)?;
            change.commit()?;
            Ok(())
        })
        .await
    }

    /// Returns the reply to a message that the kernel has answered by itself.
    pub(crate) async fn find_handled(&self, message: &str) -> StoreResult<Option<String>> {
        let message = message.to_owned();
        let found = self.read(move |conn| {
            let sql = "SELECT reply FROM handled WHERE message = ?1";
            Ok(conn.query_row(sql, [&message], |row| row.get(0)).optional()?)
        });
        Ok(found.await?.flatten())
    }

    /// Stores that a message was answered, with the new thread of its conversation if it asked for
    /// one, as one change.
    pub(crate) async fn store_handled(
        &self,
        message: &str,
        reply: &str,
        renewed: Option<ConversationRecord>,
        now_ms: u64,
    ) -> StoreResult<()> {
        let (message, reply) = (message.to_owned(), reply.to_owned());
        self.run(move |conn| {
            let change = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let oldest = now_ms.saturating_sub(HANDLED_LIFETIME_MS);
            change.execute("DELETE FROM handled WHERE at_ms < ?1", [to_i64(oldest)])?;
            change.execute(
                "INSERT OR IGNORE INTO handled (message, reply, at_ms) VALUES (?1, ?2, ?3)",
                params![message, reply, to_i64(now_ms)],
            )?;
            if let Some(record) = renewed {
                store_row(&change, &record, now_ms)?;
            }
            change.commit()?;
            Ok(())
        })
        .await
    }

    /// Loads the stored position of a channel.
    pub(crate) async fn load_cursor(&self, channel: &str) -> StoreResult<ChannelCursor> {
        let channel = channel.to_owned();
        let found = self.read(move |conn| {
            let sql = "SELECT value FROM cursors WHERE channel = ?1";
            Ok(conn.query_row(sql, [&channel], |row| row.get(0)).optional()?)
        });
        Ok(ChannelCursor { value: found.await?.flatten() })
    }

    /// Stores the position of a channel.
    pub(crate) async fn store_cursor(
        &self,
        channel: &str,
        cursor: ChannelCursor,
    ) -> StoreResult<()> {
        let value = cursor.value.unwrap_or_default();
        if value.len() > MAX_CURSOR_BYTES {
            let message = format!("a position has at most {MAX_CURSOR_BYTES} bytes");
            return Err(ChannelStoreError::TooLarge(message));
        }
        let channel = channel.to_owned();
        self.run(move |conn| {
            conn.execute(
                "INSERT INTO cursors (channel, value) VALUES (?1, ?2)
                 ON CONFLICT (channel) DO UPDATE SET value = excluded.value",
                [&channel, &value],
            )?;
            Ok(())
        })
        .await
    }
}

fn find_row(
    conn: &rusqlite::Connection,
    channel: &str,
    chat: &str,
    topic: &str,
) -> StoreResult<Option<ConversationRecord>> {
    let sql = "SELECT is_group, thread, agent, peer, last_message FROM conversations
               WHERE channel = ?1 AND chat = ?2 AND topic = ?3";
    let found = conn.query_row(sql, [channel, chat, topic], |row| {
        Ok(ConversationRecord {
            channel: channel.to_owned(),
            conversation: conversation_from(chat.to_owned(), topic.to_owned(), row.get(0)?),
            thread: row.get(1)?,
            agent: row.get(2)?,
            peer: row.get(3)?,
            last_message: row.get(4)?,
        })
    });
    Ok(found.optional()?)
}

fn store_row(
    change: &rusqlite::Transaction<'_>,
    record: &ConversationRecord,
    now_ms: u64,
) -> StoreResult<()> {
    let ConversationRecord { channel, conversation, thread, agent, peer, last_message } = record;
    let (chat, topic) = (&conversation.id, topic_key(conversation));
    change.execute(
        "INSERT OR REPLACE INTO conversations
             (channel, chat, topic, is_group, thread, agent, peer, last_message, changed_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            channel,
            chat,
            topic,
            conversation.is_group,
            thread,
            agent,
            peer,
            last_message,
            to_i64(now_ms)
        ],
    )?;
    change.execute(
        "INSERT OR REPLACE INTO threads (thread, channel, chat, topic) VALUES (?1, ?2, ?3, ?4)",
        [thread, channel, chat, topic],
    )?;
    Ok(())
}
