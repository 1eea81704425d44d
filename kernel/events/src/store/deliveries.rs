//! Queries that claim deliveries and record their outcomes.

use rusqlite::{OptionalExtension, Row, params};

use super::{
    EVENT_COLUMNS, JournalResult, JournalStore, event_from_row, from_sql, planning, to_sql,
};
use crate::error::{JournalError, JournalErrorKind};
use crate::event::{ClaimedDeliveries, DeadLetter, Delivery, Subscriber};

/// The maximum size of a stored error, in bytes.
const MAX_ERROR_BYTES: usize = 4096;

/// A query for the first due delivery of every ordering key without a delivery in progress.
// The column `lane` is the ordering key. With a key, an older delivery that is still waiting blocks
// the later ones; without one (`''`) they may overtake it.
const DUE_DELIVERIES: &str = "
SELECT min(d.event), d.subscriber, d.id FROM deliveries d
JOIN subscribers s ON s.id = d.subscriber AND s.gone_ms IS NULL
WHERE d.state = 'waiting' AND d.due_ms <= ?1
AND NOT EXISTS (
    SELECT 1 FROM deliveries o WHERE o.subscriber = d.subscriber AND o.lane = d.lane
    AND (o.state IN ('claimed', 'released')
        OR (d.lane <> '' AND o.state = 'waiting' AND o.event < d.event))
)
GROUP BY d.subscriber, d.lane ORDER BY 1, 2";

/// A query for the time of the next delivery that is not due yet.
const NEXT_DUE: &str = "
SELECT min(d.due_ms) FROM deliveries d
JOIN subscribers s ON s.id = d.subscriber AND s.gone_ms IS NULL
WHERE d.state = 'waiting' AND d.due_ms > ?1";

impl JournalStore {
    /// Claims the deliveries due at a steady time, at most one per ordering key.
    // The attempt is counted here and not at its end, which may never come.
    pub(crate) fn claim_due(
        &mut self,
        list: &[Subscriber],
        now: u64,
        steady: u64,
    ) -> JournalResult<ClaimedDeliveries> {
        self.write_relaxed(|tx| {
            planning::plan_deliveries(tx, list, now)?;
            let mut statement = tx.prepare_cached(DUE_DELIVERIES)?;
            let due = statement.query_map([to_sql(steady)], |row| row.get::<_, i64>(2))?;
            let due = due.collect::<rusqlite::Result<Vec<_>>>()?;
            let claim = "UPDATE deliveries SET state = 'claimed', attempts = attempts + 1, \
                         changed_ms = ?2 WHERE id = ?1";
            let select = format!(
                "SELECT {EVENT_COLUMNS}, d.id, d.subscriber, d.attempts FROM deliveries d \
                 JOIN events e ON e.id = d.event WHERE d.id = ?1"
            );
            let take = |id: i64| {
                tx.prepare_cached(claim)?.execute(params![id, to_sql(now)])?;
                Ok(tx.prepare_cached(&select)?.query_row([id], delivery_from_row)?)
            };
            let deliveries = due.into_iter().map(take).collect::<JournalResult<_>>()?;
            let next: Option<i64> =
                tx.prepare_cached(NEXT_DUE)?.query_row([to_sql(steady)], |row| row.get(0))?;
            let next_ms = next.map(|next| from_sql(next).saturating_sub(steady));
            Ok(ClaimedDeliveries { deliveries, next_ms })
        })
    }

    /// Acknowledges a delivery; `false` if it is not claimed.
    pub(crate) fn ack(&mut self, id: i64) -> JournalResult<bool> {
        // Relaxed: after a power failure the delivery is repeated, which at-least-once allows.
        let delete = "DELETE FROM deliveries WHERE id = ?1 AND state = 'claimed'";
        self.write_relaxed(|tx| Ok(tx.prepare_cached(delete)?.execute([id])? > 0))
    }

    /// Records a failed attempt: the next one is due at `retry_at`, without it the delivery is
    /// dead.
    pub(crate) fn fail(
        &mut self,
        id: i64,
        error: &str,
        retry_at: Option<u64>,
        now: u64,
    ) -> JournalResult<bool> {
        let error = &error[..error.floor_char_boundary(MAX_ERROR_BYTES)];
        let state = if retry_at.is_some() { "waiting" } else { "dead" };
        let due = to_sql(retry_at.unwrap_or(now));
        let update = "UPDATE deliveries SET state = ?2, due_ms = ?3, error = ?4, changed_ms = ?5 \
                      WHERE id = ?1 AND state = 'claimed'";
        self.write_relaxed(|tx| {
            Ok(tx.execute(update, params![id, state, due, error, to_sql(now)])? > 0)
        })
    }

    /// Releases a delivery until [`JournalStore::recover`]; the attempt does not count.
    pub(crate) fn release(&mut self, id: i64, now: u64) -> JournalResult<bool> {
        let update = "UPDATE deliveries SET state = 'released', attempts = attempts - 1, \
                      changed_ms = ?2 WHERE id = ?1 AND state = 'claimed'";
        self.write_relaxed(|tx| Ok(tx.execute(update, params![id, to_sql(now)])? > 0))
    }

    /// Releases the deliveries of a subscriber that are claimed; their attempts do not count.
    pub(crate) fn release_claimed(&mut self, subscriber: &str, now: u64) -> JournalResult<usize> {
        let update = "UPDATE deliveries SET state = 'released', attempts = attempts - 1, \
                      changed_ms = ?2 WHERE subscriber = ?1 AND state = 'claimed'";
        self.write_relaxed(|tx| Ok(tx.execute(update, params![subscriber, to_sql(now)])?))
    }

    /// Reschedules the deliveries that a terminated process had claimed or released.
    ///
    /// Claimed deliveries with `attempts` attempts become dead letters and are returned. All others
    /// are due at the steady time `latest` at the latest.
    pub(crate) fn recover(
        &mut self,
        attempts: u32,
        latest: u64,
        now: u64,
    ) -> JournalResult<Vec<DeadLetter>> {
        self.write_relaxed(|tx| {
            let lost = "SELECT id FROM deliveries WHERE state = 'claimed' AND attempts >= ?1";
            let lost = tx
                .prepare(lost)?
                .query_map([attempts], |row| row.get(0))?
                .collect::<rusqlite::Result<Vec<i64>>>()?;
            // Read before the update, because dead letters of earlier runs are not reported again.
            let bury = "UPDATE deliveries SET state = 'dead', changed_ms = ?2, \
                        error = 'the process ended during the last attempt' \
                        WHERE state = 'claimed' AND attempts >= ?1";
            tx.execute(bury, params![attempts, to_sql(now)])?;
            let again = "UPDATE deliveries SET state = 'waiting', due_ms = 0, changed_ms = ?1 \
                         WHERE state IN ('claimed', 'released')";
            tx.execute(again, [to_sql(now)])?;
            // The clock may have been set back since the retry was scheduled.
            let sooner =
                "UPDATE deliveries SET due_ms = ?1 WHERE state = 'waiting' AND due_ms > ?1";
            tx.execute(sooner, [to_sql(latest)])?;
            let select = dead_letter_query("d.id = ?1");
            let letter =
                |id: i64| Ok(tx.prepare_cached(&select)?.query_row([id], dead_letter_from_row)?);
            lost.into_iter().map(letter).collect()
        })
    }

    /// Lists the dead letters, the oldest first.
    pub(crate) fn dead_letters(&self) -> JournalResult<Vec<DeadLetter>> {
        let mut statement = self.conn.prepare_cached(&dead_letter_query("d.state = 'dead'"))?;
        let rows = statement.query_map([], dead_letter_from_row)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Reschedules a dead letter, with all its attempts.
    pub(crate) fn retry(&mut self, id: i64, now: u64) -> JournalResult<DeadLetter> {
        let select = dead_letter_query("d.state = 'dead' AND d.id = ?1");
        let alive = "SELECT EXISTS (SELECT 1 FROM subscribers WHERE id = ?1 AND gone_ms IS NULL)";
        // Due at 0, so that it is due by the clock of any delivering process.
        let update = "UPDATE deliveries SET state = 'waiting', attempts = 0, due_ms = 0, \
                      changed_ms = ?2 WHERE id = ?1";
        self.write(|tx| {
            let letter = tx.query_row(&select, [id], dead_letter_from_row).optional()?;
            let letter = letter.ok_or_else(|| JournalError::unknown_dead_letter(id))?;
            if !tx.query_row(alive, [&letter.subscriber], |row| row.get::<_, bool>(0))? {
                return Err(JournalError::new(
                    JournalErrorKind::NotFound,
                    format!(
                        "dead letter {id} has no handler: subscriber `{}` does not exist",
                        letter.subscriber
                    ),
                    "load the extension that subscribes under this name",
                ));
            }
            tx.execute(update, params![id, to_sql(now)])?;
            Ok(letter)
        })
    }
}

fn dead_letter_query(condition: &str) -> String {
    format!(
        "SELECT {EVENT_COLUMNS}, d.id, d.subscriber, d.attempts, d.error, d.changed_ms \
         FROM deliveries d JOIN events e ON e.id = d.event WHERE {condition} ORDER BY d.id"
    )
}

fn delivery_from_row(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    let (id, subscriber, attempt) = (row.get(7)?, row.get(8)?, row.get(9)?);
    Ok(Delivery { id, subscriber, attempt, event: event_from_row(row)? })
}

fn dead_letter_from_row(row: &Row<'_>) -> rusqlite::Result<DeadLetter> {
    let error: Option<String> = row.get(10)?;
    Ok(DeadLetter {
        id: row.get(7)?,
        subscriber: row.get(8)?,
        attempts: row.get(9)?,
        error: error.unwrap_or_default(),
        at_ms: from_sql(row.get(11)?),
        event: event_from_row(row)?,
    })
}
