//! The removal of old events and of deliveries to removed subscribers.

use rusqlite::{Transaction, params};

use super::{JournalResult, JournalStore, planning::SUBSCRIBER_GRACE_MS, to_sql};
use crate::journal::{PruneReport, RetentionLimits};

/// A condition for events that every subscriber has planned and that have no pending delivery.
const UNREFERENCED_EVENTS: &str = "
e.id <= coalesce((SELECT min(planned) FROM subscribers WHERE gone_ms IS NULL), e.id)
AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.event = e.id AND d.state <> 'dead')";

impl JournalStore {
    /// Drops old events without pending deliveries, and the oldest events above the limits.
    ///
    /// Deliveries to subscribers that were removed for good become dead letters.
    pub(crate) fn prune(
        &mut self,
        limits: &RetentionLimits,
        now: u64,
    ) -> JournalResult<PruneReport> {
        let bytes = self.bytes()?;
        self.write_relaxed(|tx| {
            let before = to_sql(now.saturating_sub(SUBSCRIBER_GRACE_MS));
            let bury = "UPDATE deliveries SET state = 'dead', changed_ms = ?2, \
                        error = 'the subscriber is gone' WHERE state = 'waiting' AND subscriber IN \
                        (SELECT id FROM subscribers WHERE gone_ms < ?1)";
            let buried = tx.execute(bury, params![before, to_sql(now)])?;
            tx.execute("DELETE FROM subscribers WHERE gone_ms < ?1", [before])?;
            let old = to_sql(now.saturating_sub(limits.age_ms));
            let drop_old =
                format!("DELETE FROM events AS e WHERE e.at_ms < ?1 AND {UNREFERENCED_EVENTS}");
            let mut events = tx.execute(&drop_old, [old])?;
            let mut undelivered = 0;
            let rows: i64 = tx.query_row("SELECT count(*) FROM events", [], |row| row.get(0))?;
            let max_rows = i64::try_from(limits.events).unwrap_or(i64::MAX);
            if rows > max_rows || bytes > limits.bytes {
                // A tenth below the limit, so that the next append does not exceed it again.
                let keep =
                    if bytes > limits.bytes { rows.min(max_rows) } else { max_rows } / 10 * 9;
                undelivered = count_lost(tx, rows - keep)?;
                let drop_first =
                    "DELETE FROM events WHERE id IN (SELECT id FROM events ORDER BY id LIMIT ?1)";
                events += tx.execute(drop_first, [rows - keep])?;
            }
            Ok(PruneReport { events, undelivered, buried })
        })
    }

    /// Returns the bytes of the file that are in use.
    fn bytes(&self) -> JournalResult<u64> {
        let number = |name| self.conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        // Free pages are reused before the file grows; SQLite does not shrink it.
        let pages = number("page_count")? - number("freelist_count")?;
        Ok(super::from_sql(pages * number("page_size")?))
    }
}

/// Counts the pending deliveries that are lost with the oldest events.
fn count_lost(tx: &Transaction<'_>, events: i64) -> JournalResult<usize> {
    let select = "SELECT count(*) FROM deliveries WHERE state <> 'dead' \
                  AND event IN (SELECT id FROM events ORDER BY id LIMIT ?1)";
    let lost: i64 = tx.query_row(select, [events], |row| row.get(0))?;
    Ok(usize::try_from(lost).unwrap_or(0))
}
