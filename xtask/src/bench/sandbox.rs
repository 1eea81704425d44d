//! The time that isolation adds to the start of a program.

use serde::Deserialize;

use super::printed_figures::run_measuring_test;
use super::table::{BenchRow, row};
use crate::workspace::Result;

/// A line of the measurement in the tests of the sandbox.
#[derive(Deserialize)]
struct StartFigure {
    level: String,
    program: String,
    /// The reason why it was not measured.
    skipped: Option<String>,
    #[serde(default)]
    plain_ms: f64,
    #[serde(default)]
    isolated_ms: f64,
    limit: f64,
}

/// Compares isolated starts with plain ones in turn, through the launcher of the product.
pub(super) fn measure_isolated_starts(rows: &mut Vec<BenchRow>) -> Result<()> {
    let figures = run_measuring_test("isolation", "figures::isolated_starts_stay_fast")?;
    for StartFigure { level, program, skipped, plain_ms, isolated_ms, limit } in figures {
        let what = format!("start of {program} at {level} ÷ plain");
        let ratio = isolated_ms / plain_ms;
        rows.push(match skipped {
            Some(reason) => BenchRow { what, value: format!("skipped: {reason}"), goal: None },
            None => row(
                &what,
                format!("{ratio:.1} × ({isolated_ms:.1} ms)"),
                &format!("≤ {limit} ×"),
                ratio <= limit,
            ),
        });
    }
    Ok(())
}
