//! When each schedule last ran.

use rusqlite::{OptionalExtension, Row, params};

use super::{JournalResult, JournalStore, signed, unsigned};
use crate::event::ScheduleRun;

impl JournalStore {
    /// The last run of a schedule.
    pub(crate) fn last_run(&self, schedule: &str) -> JournalResult<Option<ScheduleRun>> {
        let select = "SELECT due_ms, started_ms, ended_ms, error FROM schedules WHERE id = ?1";
        Ok(self.conn.prepare_cached(select)?.query_row([schedule], run_of).optional()?)
    }

    /// Replaces the last run of a schedule.
    pub(crate) fn record_run(&mut self, schedule: &str, run: &ScheduleRun) -> JournalResult<()> {
        let put = "INSERT OR REPLACE INTO schedules (id, due_ms, started_ms, ended_ms, error) \
                   VALUES (?1, ?2, ?3, ?4, ?5)";
        self.write(|tx| {
            tx.execute(
                put,
                params![
                    schedule,
                    signed(run.due_ms),
                    signed(run.started_ms),
                    run.ended_ms.map(signed),
                    run.error,
                ],
            )?;
            Ok(())
        })
    }
}

fn run_of(row: &Row<'_>) -> rusqlite::Result<ScheduleRun> {
    let ended_ms: Option<i64> = row.get(2)?;
    Ok(ScheduleRun {
        due_ms: unsigned(row.get(0)?),
        started_ms: unsigned(row.get(1)?),
        ended_ms: ended_ms.map(unsigned),
        error: row.get(3)?,
    })
}
