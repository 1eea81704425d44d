//! Calls of the programs of skills, and limits of isolated runs: measured by tests that are ignored
//! elsewhere, with the current build.

use std::collections::HashSet;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::table::{BenchRow, row};
use crate::install::BuildProfile;
use crate::process::cargo_command;
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
    let program = BuildProfile::Dist.directory().join("skillhost");
    for (target, test) in MEASUREMENTS {
        let arguments = ["test", "--locked", "--workspace", "--test", target, "--"];
        let selection = ["--ignored", "--exact", "--nocapture", test];
        let output = cargo_command(arguments.iter().chain(&selection))
            .env("SANDBOX_LAUNCHER", &program)
            .env("SKILLHOST_PROGRAM", &program)
            .output()?;
        let text = String::from_utf8_lossy(&output.stderr);
        let before = rows.len();
        // A missed limit fails the test; it is a mark in the table.
        rows.extend(parse_figures(&text).map(to_row));
        if rows.len() == before {
            return Err(format!("{test} measured nothing: {text}").into());
        }
    }
    Ok(())
}

/// Returns the figures that a test printed. The error of a missed limit repeats its line.
pub(super) fn parse_figures<F: DeserializeOwned>(text: &str) -> impl Iterator<Item = F> {
    let mut printed = HashSet::new();
    let lines = text.lines().filter(move |&line| printed.insert(line));
    lines.filter_map(|line| serde_json::from_str(line).ok())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_line_is_one_figure() {
        let line = r#"{"what": "call", "limit": 1.5, "ratio": 2.0}"#;
        let text = format!("running\n{line}\npanicked at x.rs:\n{line}\n");
        let rows: Vec<_> = parse_figures(&text).map(to_row).collect();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].value, "2.00 ×");
        assert_eq!(rows[0].goal, Some(("≤ 1.5 ×".to_owned(), false)));
    }
}
