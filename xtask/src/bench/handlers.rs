//! Calls of the programs of skills, and limits of isolated runs.

use serde::Deserialize;

use super::printed_figures::run_measuring_test;
use super::table::{BenchRow, row};
use crate::workspace::Result;

/// The tests that measure: the test target and the name.
const MEASUREMENTS: [(&str, &str); 3] = [
    ("e2e", "handler_skills::figures::warm_calls_are_as_fast_as_mcp"),
    ("programs", "figures::first_calls_stay_fast"),
    ("isolation", "figures::limits_act_in_time"),
];

/// A line that such a test prints.
#[derive(Deserialize)]
#[serde(untagged)]
enum MeasuredFigure {
    Ratio { what: String, ratio: f64, limit: f64 },
    Lateness { level: String, limit_of: String, late_ms: f64, limit_ms: f64 },
    Skipped { level: String, limit_of: String, skipped: String },
}

/// Measures calls of programs, and how soon the limits of runs act.
pub(super) fn measure_programs(rows: &mut Vec<BenchRow>) -> Result<()> {
    for (target, test) in MEASUREMENTS {
        rows.extend(run_measuring_test(target, test)?.into_iter().map(to_row));
    }
    Ok(())
}

fn to_row(figure: MeasuredFigure) -> BenchRow {
    match figure {
        MeasuredFigure::Ratio { what, ratio, limit } => {
            row(&what, format!("{ratio:.2} ×"), &format!("≤ {limit} ×"), ratio <= limit)
        }
        MeasuredFigure::Lateness { level, limit_of, late_ms, limit_ms } => row(
            &format!("end after `{limit_of}` is exceeded at {level}"),
            format!("{late_ms:.0} ms"),
            &format!("≤ {limit_ms} ms"),
            late_ms <= limit_ms,
        ),
        MeasuredFigure::Skipped { level, limit_of, skipped } => BenchRow {
            what: format!("end after `{limit_of}` is exceeded at {level}"),
            value: format!("skipped: {skipped}"),
            goal: None,
        },
    }
}
