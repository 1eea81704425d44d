//! Deliveries: claimed, then acknowledged, failed or released.

use rusqlite::{OptionalExtension, Row, params};

use super::{EVENT, JournalResult, JournalStore, event_of, planning, signed, unsigned};
use crate::error::{JournalError, JournalErrorKind};
use crate::event::{ClaimedDeliveries, DeadLetter, Delivery, Subscriber};

/// Bytes of an error that are kept.
const ERROR_BYTES: usize = 4096;

/// The first due delivery of every lane in which nothing is under way. Where lanes have a name, an
/// older delivery that is not done yet keeps its lane.
const DUE: &str = "
SELECT min(d.event), d.subscriber, d.id FROM deliveries d
JOIN subscribers s ON s.id = d.subscriber AND s.gone_ms IS NULL
WHERE d.state = 'waiting' AND d.due_ms <= ?1
AND NOT EXISTS (
    SELECT 1 FROM deliveries o WHERE o.subscriber = d.subscriber AND o.lane = d.lane
    AND (o.state IN ('claimed', 'released')
        OR (d.lane <> '' AND o.state = 'waiting' AND o.event < d.event))
)
GROUP BY d.subscriber, d.lane ORDER BY 1, 2";

/// When the next delivery is due that is not due yet.
const NEXT: &str = "
SELECT min(d.due_ms) FROM deliveries d
JOIN subscribers s ON s.id = d.subscriber AND s.gone_ms IS NULL
WHERE d.state = 'waiting' AND d.due_ms > ?1";

impl JournalStore {
    /// Takes what is due at a steady time, at most one delivery per lane. The attempt counts from here
    /// on.
    pub(crate) fn claim_due(
        &mut self,
        list: &[Subscriber],
        now: u64,
        steady: u64,
    ) -> JournalResult<ClaimedDeliveries> {
        self.write_relaxed(|tx| {
            planning::plan_deliveries(tx, list, now)?;
            let mut statement = tx.prepare_cached(DUE)?;
            let due = statement.query_map([signed(steady)], |row| row.get::<_, i64>(2))?;
            let due = due.collect::<rusqlite::Result<Vec<_>>>()?;
            let claim = "UPDATE deliveries SET state = 'claimed', attempts = attempts + 1, \
                         changed_ms = ?2 WHERE id = ?1";
            let select = format!(
                "SELECT {EVENT}, d.id, d.subscriber, d.attempts FROM deliveries d \
                 JOIN events e ON e.id = d.event WHERE d.id = ?1"
            );
            let take = |id: i64| {
                tx.prepare_cached(claim)?.execute(params![id, signed(now)])?;
                Ok(tx.prepare_cached(&select)?.query_row([id], delivery_of)?)
            };
            let deliveries = due.into_iter().map(take).collect::<JournalResult<_>>()?;
            let next: Option<i64> =
                tx.prepare_cached(NEXT)?.query_row([signed(steady)], |row| row.get(0))?;
            let next_ms = next.map(|next| unsigned(next).saturating_sub(steady));
            Ok(ClaimedDeliveries { deliveries, next_ms })
        })
    }

    /// Notes that a delivery was handled; false where it was not under way.
    pub(crate) fn ack(&mut self, id: i64) -> JournalResult<bool> {
        let delete = "DELETE FROM deliveries WHERE id = ?1 AND state = 'claimed'";
        self.write_relaxed(|tx| Ok(tx.prepare_cached(delete)?.execute([id])? > 0))
    }

    /// Notes that an attempt failed: there is another one at the time given, or none any more.
    pub(crate) fn fail(
        &mut self,
        id: i64,
        error: &str,
        retry_at: Option<u64>,
        now: u64,
    ) -> JournalResult<bool> {
        let error = &error[..error.floor_char_boundary(ERROR_BYTES)];
        let state = if retry_at.is_some() { "waiting" } else { "dead" };
        let due = signed(retry_at.unwrap_or(now));
        let update = "UPDATE deliveries SET state = ?2, due_ms = ?3, error = ?4, changed_ms = ?5 \
                      WHERE id = ?1 AND state = 'claimed'";
        self.write_relaxed(|tx| {
            Ok(tx.execute(update, params![id, state, due, error, signed(now)])? > 0)
        })
    }

    /// Puts a delivery back until [`Store::recover`]; the attempt does not count.
    pub(crate) fn release(&mut self, id: i64, now: u64) -> JournalResult<bool> {
        let update = "UPDATE deliveries SET state = 'released', attempts = attempts - 1, \
                      changed_ms = ?2 WHERE id = ?1 AND state = 'claimed'";
        self.write_relaxed(|tx| Ok(tx.execute(update, params![id, signed(now)])? > 0))
    }

    /// Makes due again what a process that is gone had claimed or released; what it had tried
    /// `attempts` times is dead, and returned. What waits is due at a steady time at the latest.
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
            let bury = "UPDATE deliveries SET state = 'dead', changed_ms = ?2, \
                        error = 'the process ended during the last attempt' \
                        WHERE state = 'claimed' AND attempts >= ?1";
            tx.execute(bury, params![attempts, signed(now)])?;
            let again = "UPDATE deliveries SET state = 'waiting', due_ms = 0, changed_ms = ?1 \
                         WHERE state IN ('claimed', 'released')";
            tx.execute(again, [signed(now)])?;
            // The clock may have been set back since it was written.
            let sooner =
                "UPDATE deliveries SET due_ms = ?1 WHERE state = 'waiting' AND due_ms > ?1";
            tx.execute(sooner, [signed(latest)])?;
            let select = dead_letter_query("d.id = ?1");
            let letter = |id: i64| Ok(tx.prepare_cached(&select)?.query_row([id], letter_of)?);
            lost.into_iter().map(letter).collect()
        })
    }

    /// Lists what was given up, the oldest first.
    pub(crate) fn dead_letters(&self) -> JournalResult<Vec<DeadLetter>> {
        let mut statement = self.conn.prepare_cached(&dead_letter_query("d.state = 'dead'"))?;
        let rows = statement.query_map([], letter_of)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Makes a dead delivery due again, with all its attempts.
    pub(crate) fn retry(&mut self, id: i64, now: u64) -> JournalResult<DeadLetter> {
        let select = dead_letter_query("d.state = 'dead' AND d.id = ?1");
        let alive = "SELECT EXISTS (SELECT 1 FROM subscribers WHERE id = ?1 AND gone_ms IS NULL)";
        // At once, whatever the clock of the process that delivers says.
        let update = "UPDATE deliveries SET state = 'waiting', attempts = 0, due_ms = 0, \
                      changed_ms = ?2 WHERE id = ?1";
        self.write(|tx| {
            let letter = tx.query_row(&select, [id], letter_of).optional()?;
            let letter = letter.ok_or_else(|| JournalError::unknown_dead_letter(id))?;
            if !tx.query_row(alive, [&letter.subscriber], |row| row.get::<_, bool>(0))? {
                return Err(JournalError::new(
                    JournalErrorKind::NotFound,
                    format!(
                        "nobody handles delivery {id} any more: `{}` is gone",
                        letter.subscriber
                    ),
                    "the extension has to be loaded and to subscribe again",
                ));
            }
            tx.execute(update, params![id, signed(now)])?;
            Ok(letter)
        })
    }
}

fn dead_letter_query(which: &str) -> String {
    format!(
        "SELECT {EVENT}, d.id, d.subscriber, d.attempts, d.error, d.changed_ms FROM deliveries d \
         JOIN events e ON e.id = d.event WHERE {which} ORDER BY d.id"
    )
}

fn delivery_of(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    let (id, subscriber, attempt) = (row.get(7)?, row.get(8)?, row.get(9)?);
    Ok(Delivery { id, subscriber, attempt, event: event_of(row)? })
}

fn letter_of(row: &Row<'_>) -> rusqlite::Result<DeadLetter> {
    let error: Option<String> = row.get(10)?;
    Ok(DeadLetter {
        id: row.get(7)?,
        subscriber: row.get(8)?,
        attempts: row.get(9)?,
        error: error.unwrap_or_default(),
        at_ms: unsigned(row.get(11)?),
        event: event_of(row)?,
    })
}
