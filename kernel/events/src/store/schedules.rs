//! Queries for the last run of each schedule.

use rusqlite::{OptionalExtension, Row, params};

use super::{JournalResult, JournalStore, from_sql, to_sql};
use crate::event::ScheduleRun;

impl JournalStore {
    /// Returns the last run of a schedule.
    pub(crate) fn last_run(&self, schedule: &str) -> JournalResult<Option<ScheduleRun>> {
        let select = "SELECT due_ms, started_ms, ended_ms, error FROM schedules WHERE id = ?1";
        Ok(self.conn.prepare_cached(select)?.query_row([schedule], run_from_row).optional()?)
    }

    /// Replaces the last run of a schedule.
    pub(crate) fn record_run(&mut self, schedule: &str, run: &ScheduleRun) -> JournalResult<()> {
        let put = "INSERT OR REPLACE INTO schedules (id, due_ms, started_ms, ended_ms, error) \
                   VALUES (?1, ?2, ?3, ?4, ?5)";
        // Durable: a run that was forgotten would be repeated after a power failure.
        self.write(|tx| {
            tx.execute(
                put,
                params![
                    schedule,
                    to_sql(run.due_ms),
                    to_sql(run.started_ms),
                    run.ended_ms.map(to_sql),
                    run.error,
                ],
            )?;
            Ok(())
        })
    }
}

fn run_from_row(row: &Row<'_>) -> rusqlite::Result<ScheduleRun> {
    let ended_ms: Option<i64> = row.get(2)?;
    Ok(ScheduleRun {
        due_ms: from_sql(row.get(0)?),
        started_ms: from_sql(row.get(1)?),
        ended_ms: ended_ms.map(from_sql),
        error: row.get(3)?,
    })
}
