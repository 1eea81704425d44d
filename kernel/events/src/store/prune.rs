//! What is not kept any longer.

use rusqlite::{Transaction, params};

use super::{JournalResult, JournalStore, planning::SUBSCRIBER_GRACE_MS, signed};
use crate::journal::{PruneReport, RetentionLimits};

/// Nobody waits for the event: every subscriber that is there has got past it, and no delivery of it
/// is to be made.
const UNREFERENCED_EVENTS: &str = "
e.id <= coalesce((SELECT min(planned) FROM subscribers WHERE gone_ms IS NULL), e.id)
AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.event = e.id AND d.state <> 'dead')";

impl JournalStore {
    /// Gives up what is for subscribers that are gone for good, drops events that are old and wanted
    /// by nobody, and, where there are too many still, the oldest ones.
    pub(crate) fn prune(
        &mut self,
        limits: &RetentionLimits,
        now: u64,
    ) -> JournalResult<PruneReport> {
        let bytes = self.bytes()?;
        self.write_relaxed(|tx| {
            let before = signed(now.saturating_sub(SUBSCRIBER_GRACE_MS));
            let bury = "UPDATE deliveries SET state = 'dead', changed_ms = ?2, \
                        error = 'the subscriber is gone' WHERE state = 'waiting' AND subscriber IN \
                        (SELECT id FROM subscribers WHERE gone_ms < ?1)";
            let buried = tx.execute(bury, params![before, signed(now)])?;
            tx.execute("DELETE FROM subscribers WHERE gone_ms < ?1", [before])?;
            let old = signed(now.saturating_sub(limits.age_ms));
            let drop_old =
                format!("DELETE FROM events AS e WHERE e.at_ms < ?1 AND {UNREFERENCED_EVENTS}");
            let mut events = tx.execute(&drop_old, [old])?;
            let mut undelivered = 0;
            let rows: i64 = tx.query_row("SELECT count(*) FROM events", [], |row| row.get(0))?;
            let most = i64::try_from(limits.events).unwrap_or(i64::MAX);
            if rows > most || bytes > limits.bytes {
                // A tenth below the limit, so that it is not done again at once.
                let keep = if bytes > limits.bytes { rows.min(most) } else { most } / 10 * 9;
                undelivered = count_lost(tx, rows - keep)?;
                let drop_first =
                    "DELETE FROM events WHERE id IN (SELECT id FROM events ORDER BY id LIMIT ?1)";
                events += tx.execute(drop_first, [rows - keep])?;
            }
            Ok(PruneReport { events, undelivered, buried })
        })
    }

    /// Bytes of the file that are in use.
    fn bytes(&self) -> JournalResult<u64> {
        let number = |name| self.conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let pages = number("page_count")? - number("freelist_count")?;
        Ok(super::unsigned(pages * number("page_size")?))
    }
}

/// How many deliveries are lost with the first so many events.
fn count_lost(tx: &Transaction<'_>, events: i64) -> JournalResult<usize> {
    let select = "SELECT count(*) FROM deliveries WHERE state <> 'dead' \
                  AND event IN (SELECT id FROM events ORDER BY id LIMIT ?1)";
    let lost: i64 = tx.query_row(select, [events], |row| row.get(0))?;
    Ok(usize::try_from(lost).unwrap_or(0))
}
