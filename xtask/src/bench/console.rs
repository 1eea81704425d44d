//! The web console of a running kernel: pages with 100 rows against a file without any, and a token
//! from the model to a client.

use std::fs;

use serde_json::Value;

use super::table::{BenchRow, row};
use crate::install::BuildProfile;
use crate::process::{cargo_command, run_command};
use crate::workspace::{Result, target};

/// The test whose home is measured.
const TEST: &str = "console_figures::console_figures_stay_below_limits";
const PAGES: [&str; 4] = ["/tasks", "/inbox", "/events", "/channels"];
const MAX_PAGE_MS: f64 = 10.0;
const MAX_LATENCY_MS: f64 = 50.0;

/// Adds the measurements of the console; the product is built.
pub(super) fn measure_console(profile: BuildProfile, rows: &mut Vec<BenchRow>) -> Result<()> {
    // The channel of the test is no part of the product; a debug build has every example.
    if !matches!(profile, BuildProfile::Debug) {
        let channel = ["build", "--locked", "-p", "abi-tests", "--example", "mailbox"];
        run_command(&mut cargo_command(channel.iter().chain(profile.arguments())))?;
    }
    let file = target().join("bench/console.json");
    fs::create_dir_all(target().join("bench"))?;
    // The client is that of the tests, which are not optimized; only the server is measured.
    let test =
        ["test", "--workspace", "--locked", "--quiet", "--test", "e2e", "--", "--exact", TEST];
    let mut command = cargo_command(test);
    command.env("CONSOLE_FIGURES", &file).env("SKILLHOST_TESTED_PROFILE", profile.directory());
    run_command(&mut command)?;
    let figures: Value = serde_json::from_slice(&fs::read(&file)?)?;
    add_rows(&figures, rows);
    Ok(())
}

fn add_rows(figures: &Value, rows: &mut Vec<BenchRow>) {
    let get = |name: &str, key: &str| figures[name][key].as_f64().unwrap_or(f64::NAN);
    let floor = get("stylesheet", "p50_ms");
    let cpu = |name: &str| format!("CPU {:.2} ms", get(name, "cpu_ms"));
    rows.push(BenchRow {
        what: "console, its stylesheet, p50".into(),
        value: format!("{floor:.2} ms ({})", cpu("stylesheet")),
        goal: None,
    });
    for page in PAGES {
        let what = |quantile: &str| format!("console, {page} with 100 rows, {quantile}");
        let (p50, p99) = (get(page, "p50_ms"), get(page, "p99_ms"));
        let ratio = p50 / floor;
        let value = format!("{p50:.2} ms ({ratio:.1} × the stylesheet, {})", cpu(page));
        let limit = format!("≤ {MAX_PAGE_MS} ms");
        rows.push(row(&what("p50"), value, &limit, p50 <= MAX_PAGE_MS));
        rows.push(row(&what("p99"), format!("{p99:.2} ms"), &limit, p99 <= MAX_PAGE_MS));
    }
    for quantile in ["p50", "p99"] {
        let latency = get("token", &format!("{quantile}_ms"));
        let what = format!("token of the model → client of the console, {quantile}");
        let limit = format!("≤ {MAX_LATENCY_MS} ms");
        rows.push(row(&what, format!("{latency:.2} ms"), &limit, latency <= MAX_LATENCY_MS));
    }
    rows.push(BenchRow {
        what: "  CPU time of the server for a reply".into(),
        value: format!("{:.2} ms", get("token", "cpu_ms")),
        goal: None,
    });
    rows.push(BenchRow {
        what: "peak memory of the server".into(),
        value: format!("{:.1} MiB", get("server", "peak_mib")),
        goal: None,
    });
}
