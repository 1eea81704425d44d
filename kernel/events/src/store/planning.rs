//! The assignment of events to subscribers.

use std::collections::BTreeMap;

use rusqlite::{Transaction, params};

use super::{EVENT_COLUMNS, JournalResult, JournalStore, event_from_row, to_sql};
use crate::event::{Subscriber, topic_matches};

/// The time during which a removed subscriber retains its pending events.
// Longer than the repair of an extension takes; an extension removed on purpose is gone for good.
pub(super) const SUBSCRIBER_GRACE_MS: u64 = 24 * 60 * 60 * 1000;

/// The number of events planned at once, which bounds the memory.
const PAGE_SIZE: i64 = 512;

impl JournalStore {
    /// Replaces the subscribers.
    ///
    /// A new subscriber receives the events appended after this. A returning subscriber receives
    /// the events that it missed, unless it was removed for more than a day.
    pub(crate) fn set_subscribers(&mut self, list: &[Subscriber], now: u64) -> JournalResult<()> {
        self.write_relaxed(|tx| {
            let (last, known) = (last_event_id(tx)?, load_known(tx)?);
            for id in known.keys().filter(|id| list.iter().all(|wanted| wanted.id != **id)) {
                let gone = "UPDATE subscribers SET gone_ms = ?2 WHERE id = ?1 AND gone_ms IS NULL";
                tx.execute(gone, params![id, to_sql(now)])?;
            }
            for wanted in list {
                // The last event planned for it; everything after it is new to the subscriber.
                let planned = match known.get(&wanted.id) {
                    Some(KnownSubscriber { gone_ms: Some(gone), .. })
                        if now.saturating_sub(*gone) > SUBSCRIBER_GRACE_MS =>
                    {
                        last
                    }
                    Some(KnownSubscriber { planned, .. }) => *planned,
                    None => last,
                };
                let put = "INSERT INTO subscribers (id, topic, planned, gone_ms) \
                           VALUES (?1, ?2, ?3, NULL) ON CONFLICT (id) DO UPDATE SET \
                           topic = excluded.topic, planned = excluded.planned, gone_ms = NULL";
                tx.execute(put, params![wanted.id, wanted.topic, planned])?;
            }
            Ok(())
        })
    }
}

/// Creates the deliveries of every event that is new to a subscriber.
pub(super) fn plan_deliveries(
    tx: &Transaction<'_>,
    list: &[Subscriber],
    now: u64,
) -> JournalResult<()> {
    let (last, known) = (last_event_id(tx)?, load_known(tx)?);
    let planned_of = |wanted: &Subscriber| known.get(&wanted.id).map_or(last, |k| k.planned);
    let Some(mut from) = list.iter().map(planned_of).min() else { return Ok(()) };
    let select =
        format!("SELECT {EVENT_COLUMNS} FROM events e WHERE e.id > ?1 ORDER BY e.id LIMIT ?2");
    // Ignored for subscribers that are ahead of the slowest one and have the delivery already.
    let insert = "INSERT OR IGNORE INTO deliveries \
                  (event, subscriber, lane, state, attempts, due_ms, changed_ms) \
                  VALUES (?1, ?2, ?3, 'waiting', 0, 0, ?4)";
    while from < last {
        let mut statement = tx.prepare_cached(&select)?;
        let events = statement.query_map([from, PAGE_SIZE], event_from_row)?;
        let events = events.collect::<rusqlite::Result<Vec<_>>>()?;
        let Some(end) = events.last().map(|event| event.id) else { break };
        let mut insert = tx.prepare_cached(insert)?;
        for event in &events {
            for wanted in list {
                if event.id > planned_of(wanted) && topic_matches(&wanted.topic, &event.topic) {
                    let lane = wanted.ordering_key(event);
                    insert.execute(params![event.id, wanted.id, lane, to_sql(now)])?;
                }
            }
        }
        from = end;
    }
    let done = "UPDATE subscribers SET planned = ?2 WHERE id = ?1 AND planned < ?2";
    for wanted in list {
        tx.prepare_cached(done)?.execute(params![wanted.id, last])?;
    }
    Ok(())
}

/// A subscriber in the file.
struct KnownSubscriber {
    planned: i64,
    gone_ms: Option<u64>,
}

fn load_known(tx: &Transaction<'_>) -> JournalResult<BTreeMap<String, KnownSubscriber>> {
    let mut statement = tx.prepare_cached("SELECT id, planned, gone_ms FROM subscribers")?;
    let rows = statement.query_map([], |row| {
        let gone_ms: Option<i64> = row.get(2)?;
        let known = KnownSubscriber { planned: row.get(1)?, gone_ms: gone_ms.map(super::from_sql) };
        Ok((row.get(0)?, known))
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns the id of the last event ever appended, pruned ones included.
fn last_event_id(tx: &Transaction<'_>) -> JournalResult<i64> {
    let select = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0)";
    Ok(tx.query_row(select, [], |row| row.get(0))?)
}
