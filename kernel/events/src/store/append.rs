//! Queries that append, find and list events.

use rusqlite::{Connection, OptionalExtension, params};

use super::{EVENT_COLUMNS, JournalResult, JournalStore, event_from_row, to_sql};
use crate::event::{NewEvent, StoredEvent, TailQuery};

impl JournalStore {
    /// Appends an event, or returns the existing one with its topic and key and `false`.
    pub(crate) fn append(
        &mut self,
        event: &NewEvent,
        now: u64,
    ) -> JournalResult<(StoredEvent, bool)> {
        // A repeated event is common; the query alone needs no write lock.
        if let Some(key) = &event.key
            && let Some(first) = self.find(&event.topic, key)?
        {
            return Ok((first, false));
        }
        self.write(|tx| {
            // Another process may have appended it in between; within the transaction none can.
            if let Some(key) = &event.key
                && let Some(first) = find_by_key(tx, &event.topic, key)?
            {
                return Ok((first, false));
            }
            let insert = "INSERT INTO events (at_ms, topic, source, payload, correlation_id, key) \
                          VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            tx.prepare_cached(insert)?.execute(params![
                to_sql(now),
                event.topic,
                event.source,
                event.payload.get(),
                event.correlation_id,
                event.key,
            ])?;
            let id = tx.last_insert_rowid();
            let correlation_id = event.correlation_id.clone();
            let stored = StoredEvent {
                id,
                at_ms: now,
                topic: event.topic.clone(),
                source: event.source.clone(),
                payload: event.payload.clone(),
                correlation_id: correlation_id.unwrap_or_else(|| format!("event-{id}")),
                key: event.key.clone(),
            };
            Ok((stored, true))
        })
    }

    /// Finds the event of a topic with a key.
    pub(crate) fn find(&self, topic: &str, key: &str) -> JournalResult<Option<StoredEvent>> {
        find_by_key(&self.conn, topic, key)
    }

    /// Lists events in the order of their ids.
    pub(crate) fn tail(&self, tail: &TailQuery) -> JournalResult<Vec<StoredEvent>> {
        let topic = if tail.topic == "*" { "" } else { &tail.topic };
        let order = if tail.after.is_some() { "ASC" } else { "DESC" };
        // Not LIKE: `_` is a character of topics and a wildcard there.
        let select = format!(
            "SELECT {EVENT_COLUMNS} FROM events e WHERE e.id > ?1 AND (?2 = '' OR e.topic = ?2 \
             OR substr(e.topic, 1, length(?2) + 1) = ?2 || '.') ORDER BY e.id {order} LIMIT ?3"
        );
        let limit = i64::try_from(tail.limit).unwrap_or(i64::MAX);
        let mut statement = self.conn.prepare_cached(&select)?;
        let rows =
            statement.query_map(params![tail.after.unwrap_or(0), topic, limit], event_from_row)?;
        let mut events = rows.collect::<rusqlite::Result<Vec<_>>>()?;
        if tail.after.is_none() {
            events.reverse();
        }
        Ok(events)
    }
}

fn find_by_key(conn: &Connection, topic: &str, key: &str) -> JournalResult<Option<StoredEvent>> {
    let select = format!("SELECT {EVENT_COLUMNS} FROM events e WHERE e.topic = ?1 AND e.key = ?2");
    Ok(conn.prepare_cached(&select)?.query_row([topic, key], event_from_row).optional()?)
}
