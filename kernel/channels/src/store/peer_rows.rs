//! People and pairing codes.

use rusqlite::{Connection, OptionalExtension as _, Row, TransactionBehavior, params};
use serde::Serialize;
use skillhost_control::ChannelRole;
use skillhost_files::sha256_hex;
use skillhost_payload::{ChannelConversation, ChannelPeer};

use super::{ChannelStore, ChannelStoreError, StoreResult, conversation_from, topic_key};
use crate::random_token::new_pairing_code;

/// The time for which a pairing code is valid.
const CODE_LIFETIME_MS: u64 = 10 * 60 * 1_000;

/// A person who may write on a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PeerRecord {
    /// The channel.
    pub channel: String,
    /// The id on the platform.
    pub id: String,
    /// The role.
    pub role: ChannelRole,
    /// The agents that a guest may talk to; empty for those of the settings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// The name that the person shows, untrusted.
    pub name: String,
    /// The conversation for messages to this person alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direct: Option<ChannelConversation>,
    /// The time of the pairing, in milliseconds since 1970.
    pub paired_ms: u64,
}

/// A code that a person sends to be paired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PairingCode {
    /// The code.
    pub code: String,
    /// The end of its validity, in milliseconds since 1970.
    pub expires_ms: u64,
}

const PEER_COLUMNS: &str = "channel, id, role, agents, name, chat, topic, paired_ms";

impl ChannelStore {
    /// Makes a code that is valid once, for ten minutes. Only its hash is stored.
    ///
    /// # Errors
    /// [`ChannelStoreError`].
    pub async fn create_code(
        &self,
        channel: &str,
        role: ChannelRole,
        agents: Vec<String>,
        now_ms: u64,
    ) -> Result<PairingCode, ChannelStoreError> {
        let code = new_pairing_code();
        let expires_ms = now_ms.saturating_add(CODE_LIFETIME_MS);
        let (channel, hash) = (channel.to_owned(), code_hash(&code));
        self.run(move |conn| {
            conn.execute("DELETE FROM codes WHERE expires_ms <= ?1", [to_i64(now_ms)])?;
            conn.execute(
                "INSERT INTO codes (hash, channel, role, agents, expires_ms)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
                params![hash, channel, role.as_str(), to_json(&agents), to_i64(expires_ms)],
            )?;
            Ok(())
        })
        .await?;
        Ok(PairingCode { code, expires_ms })
    }

    /// Pairs the person who sent a code; returns the new peer, or `None` if the code is not valid.
    pub(crate) async fn redeem_code(
        &self,
        channel: &str,
        code: &str,
        peer: &ChannelPeer,
        direct: &ChannelConversation,
        now_ms: u64,
    ) -> StoreResult<Option<PeerRecord>> {
        let (channel, hash) = (channel.to_owned(), code_hash(code));
        let (peer, direct) = (peer.clone(), direct.clone());
        let redeemed = self.read(move |conn| {
            let change = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let found = change
                .query_row(
                    "DELETE FROM codes WHERE hash = ?1 AND channel = ?2 AND expires_ms > ?3
                     RETURNING role, agents",
                    params![hash, channel, to_i64(now_ms)],
                    |row| Ok((parse_role(&row.get::<_, String>(0)?), row.get::<_, String>(1)?)),
                )
                .optional()?;
            let Some((role, agents)) = found else { return Ok(None) };
            change.execute(
                "INSERT INTO peers (channel, id, role, agents, name, chat, topic, paired_ms)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
                 ON CONFLICT (channel, id) DO UPDATE SET role = excluded.role,
                     agents = excluded.agents, name = excluded.name, chat = excluded.chat,
                     topic = excluded.topic, paired_ms = excluded.paired_ms",
                params![
                    channel,
                    peer.id,
                    role.as_str(),
                    agents,
                    peer.name,
                    direct.id,
                    topic_key(&direct),
                    to_i64(now_ms)
                ],
            )?;
            let paired = find_peer(&change, &channel, &peer.id)?;
            change.commit()?;
            Ok(paired)
        });
        Ok(redeemed.await?.flatten())
    }

    /// Finds a person of a channel.
    ///
    /// # Errors
    /// [`ChannelStoreError`].
    pub async fn find_peer(
        &self,
        channel: &str,
        peer: &str,
    ) -> Result<Option<PeerRecord>, ChannelStoreError> {
        let (channel, peer) = (channel.to_owned(), peer.to_owned());
        Ok(self.read(move |conn| find_peer(conn, &channel, &peer)).await?.flatten())
    }

    /// Lists people, of one channel or of all.
    ///
    /// # Errors
    /// [`ChannelStoreError`].
    pub async fn list_peers(
        &self,
        channel: Option<&str>,
    ) -> Result<Vec<PeerRecord>, ChannelStoreError> {
        let channel = channel.map(str::to_owned);
        let listed = self.read(move |conn| {
            let sql = format!(
                "SELECT {PEER_COLUMNS} FROM peers WHERE ?1 IS NULL OR channel = ?1
                 ORDER BY channel, paired_ms, id"
            );
            let mut statement = conn.prepare(&sql)?;
            let rows = statement.query_map([channel], to_peer)?;
            Ok(rows.collect::<Result<Vec<_>, _>>()?)
        });
        Ok(listed.await?.unwrap_or_default())
    }

    /// Removes a person; returns whether there was one. Buttons and conversations of the person have
    /// no effect from then on.
    ///
    /// # Errors
    /// [`ChannelStoreError`].
    pub async fn revoke_peer(&self, channel: &str, peer: &str) -> Result<bool, ChannelStoreError> {
        let (channel, peer) = (channel.to_owned(), peer.to_owned());
        let revoked = self.read(move |conn| {
            let change = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let rows = change
                .execute("DELETE FROM peers WHERE channel = ?1 AND id = ?2", [&channel, &peer])?;
            change.execute(
                "DELETE FROM buttons WHERE channel = ?1 AND peer = ?2",
                [&channel, &peer],
            )?;
            change.commit()?;
            Ok(rows > 0)
        });
        Ok(revoked.await?.unwrap_or_default())
    }

    /// Returns whether a conversation has a person who may be written to: a person's own one, or one in
    /// which a paired person wrote last.
    pub(crate) async fn is_reachable(
        &self,
        channel: &str,
        conversation: &ChannelConversation,
    ) -> StoreResult<bool> {
        let (channel, chat) = (channel.to_owned(), conversation.id.clone());
        let (topic, is_direct) = (topic_key(conversation).to_owned(), !conversation.is_group);
        let found = self.read(move |conn| {
            let sql = "SELECT EXISTS (SELECT 1 FROM peers WHERE channel = ?1 AND chat = ?2 AND ?4)
                OR EXISTS (
                    SELECT 1 FROM conversations AS place JOIN peers ON peers.channel = place.channel
                        AND peers.id = place.peer
                    WHERE place.channel = ?1 AND place.chat = ?2 AND place.topic = ?3
                )";
            Ok(conn.query_row(sql, params![channel, chat, topic, is_direct], |row| row.get(0))?)
        });
        Ok(found.await?.unwrap_or_default())
    }

    /// Stores the present name of a person, and the conversation for messages to them alone.
    pub(crate) async fn update_peer(
        &self,
        channel: &str,
        peer: &ChannelPeer,
        direct: Option<&ChannelConversation>,
    ) -> StoreResult<()> {
        let (channel, peer) = (channel.to_owned(), peer.clone());
        let (chat, topic) = match direct {
            Some(direct) => (Some(direct.id.clone()), Some(topic_key(direct).to_owned())),
            None => (None, None),
        };
        self.run(move |conn| {
            conn.execute(
                "UPDATE peers SET name = ?3, chat = coalesce(?4, chat), topic = coalesce(?5, topic)
                 WHERE channel = ?1 AND id = ?2",
                params![channel, peer.id, peer.name, chat, topic],
            )?;
            Ok(())
        })
        .await
    }
}

fn find_peer(conn: &Connection, channel: &str, peer: &str) -> StoreResult<Option<PeerRecord>> {
    let sql = format!("SELECT {PEER_COLUMNS} FROM peers WHERE channel = ?1 AND id = ?2");
    Ok(conn.query_row(&sql, [channel, peer], to_peer).optional()?)
}

fn to_peer(row: &Row<'_>) -> rusqlite::Result<PeerRecord> {
    let (chat, topic): (Option<String>, String) = (row.get(5)?, row.get(6)?);
    let paired_ms: i64 = row.get(7)?;
    Ok(PeerRecord {
        channel: row.get(0)?,
        id: row.get(1)?,
        role: parse_role(&row.get::<_, String>(2)?),
        agents: serde_json::from_str(&row.get::<_, String>(3)?).unwrap_or_default(),
        name: row.get(4)?,
        direct: chat.map(|chat| conversation_from(chat, topic, false)),
        paired_ms: u64::try_from(paired_ms).unwrap_or_default(),
    })
}

/// Returns the role of a name; an unknown one has the fewest rights.
fn parse_role(name: &str) -> ChannelRole {
    match name {
        "owner" => ChannelRole::Owner,
        _ => ChannelRole::Guest,
    }
}

/// Returns the hash of a code, as people type it.
fn code_hash(code: &str) -> String {
    let typed: String = code.chars().filter(char::is_ascii_alphanumeric).collect();
    sha256_hex(typed.to_ascii_uppercase().as_bytes())
}

fn to_json(agents: &[String]) -> String {
    // A list of texts is always valid JSON.
    serde_json::to_string(agents).unwrap_or_default()
}

/// Converts a time for the file, whose integers are signed.
pub(super) fn to_i64(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
