//! Figures that tests print: tests that are ignored elsewhere, and measure the launcher and the
//! program of a dist build.

use std::collections::HashSet;

use serde::de::DeserializeOwned;

use crate::install::BuildProfile;
use crate::process::cargo_command;
use crate::workspace::Result;

/// Runs a test of a test target, and returns the figures that it printed as lines of JSON.
pub(super) fn run_measuring_test<F: DeserializeOwned>(target: &str, test: &str) -> Result<Vec<F>> {
    let program = BuildProfile::Dist.directory().join("skillhost");
    let arguments = ["test", "--locked", "--workspace", "--test", target, "--"];
    let selection = ["--ignored", "--exact", "--nocapture", test];
    let output = cargo_command(arguments.iter().chain(&selection))
        .env("SANDBOX_LAUNCHER", &program)
        .env("SKILLHOST_PROGRAM", &program)
        .output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    // A missed limit fails the test; it is a mark in the table.
    let figures = parse_figures(&text);
    if figures.is_empty() {
        return Err(format!("{test} measured nothing: {text}").into());
    }
    Ok(figures)
}

/// Returns the figures in the output of a test. The error of a missed limit repeats its line.
fn parse_figures<F: DeserializeOwned>(text: &str) -> Vec<F> {
    let mut printed = HashSet::new();
    let lines = text.lines().filter(|&line| printed.insert(line));
    lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn repeated_line_is_one_figure() {
        let [call, start] = [r#"{"what": "call", "ratio": 2.0}"#, r#"{"what": "start"}"#];
        let text = format!("running\n{call}\n{start}\npanicked at x.rs:\n{call}\n");
        let figures: Vec<Value> = parse_figures(&text);
        let names: Vec<_> = figures.iter().map(|figure| figure["what"].as_str()).collect();
        assert_eq!(names, [Some("call"), Some("start")]);
    }
}
