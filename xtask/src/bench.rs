//! `cargo xtask bench`: the numbers, as ratios against the floor or a direct call in one run.

mod console;
mod files;
mod handlers;
mod mcp;
mod printed_figures;
mod routing;
mod sandbox;
mod table;
mod tasks;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use serde_json::Value;
use table::{BenchRow, median, row};

use crate::install::{BuildProfile, build_product};
use crate::process::{CommandUsage, cargo_command, run_command, usage_of};
use crate::test::TESTED_PROGRAMS;
use crate::workspace::{Result, create_once, root, target};

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Directory with `coldfloor.rs` (the leanest possible listing) and `gen_skills.py`
    #[arg(long, value_name = "DIR", default_value = "../shared/bench")]
    data: PathBuf,
    /// Runs of each full-process measurement
    #[arg(long, default_value_t = 9)]
    runs: usize,
    /// Measure only the task store
    #[arg(long)]
    tasks: bool,
    /// Measure only the web console
    #[arg(long, conflicts_with = "tasks")]
    console: bool,
    /// Measure the console of a debug build (faster to build, slower to run)
    #[arg(long, requires = "console")]
    debug: bool,
}

/// Prints the table. A missed number is marked but does not fail the command: machines are noisy.
pub(crate) fn cmd_bench(args: &BenchArgs) -> Result<()> {
    if args.tasks {
        return bench_tasks();
    }
    if args.console {
        let profile = if args.debug { BuildProfile::Debug } else { BuildProfile::Dist };
        return bench_console(profile);
    }
    build_product(BuildProfile::Dist)?;
    let bench = ["build", "--locked", "-p", "bench", "--bins", "--examples"];
    // The measurements of vectors use the table that the default build omits. A build of its own:
    // the one above selects programs, and this is a library.
    let feature = "skillhost-embedding/static-minilm";
    let embedding = ["build", "--locked", "-p", "skillhost-embedding", "--features", feature];
    for selection in [&bench[..], &embedding[..]] {
        let arguments = selection.iter().chain(BuildProfile::Dist.arguments());
        run_command(&mut cargo_command(arguments))?;
    }
    let data = root().join(&args.data);
    let (floor, generator) = (data.join("coldfloor.rs"), data.join("gen_skills.py"));
    if !floor.is_file() || !generator.is_file() {
        println!(
            "{} has no coldfloor.rs and gen_skills.py: no baseline to measure against (--data DIR)",
            data.display()
        );
        return Ok(());
    }
    let work = target().join("bench");
    fs::create_dir_all(&work)?;
    let floor_binary = work.join("coldfloor");
    run_command(Command::new("rustc").arg("-O").arg("-o").arg(&floor_binary).arg(&floor))?;
    let mut rows = Vec::new();
    let outcome = measure_all(&work, &floor_binary, &generator, args.runs, &mut rows);
    // Also after an error: the rows before it took many minutes.
    print(&rows);
    outcome
}

/// Adds all measurements of a build.
fn measure_all(
    work: &Path,
    floor: &Path,
    generator: &Path,
    runs: usize,
    rows: &mut Vec<BenchRow>,
) -> Result<()> {
    let mut ratios = Vec::new();
    for count in [100, 1_000, 10_000] {
        let skills = generate(generator, work, count)?;
        ratios.push(cold_list(floor, &skills, count, runs, rows)?);
        in_process(&skills, count, rows)?;
        if count == 1_000 {
            mcp::measure_server(work, &skills, count, rows)?;
            routing::measure_skill_tests(work, &skills, runs.min(3), rows)?;
        }
        if count == 10_000 {
            checks(floor, &skills, runs, rows)?;
        }
    }
    searches(rows)?;
    files::measure_file_search(work, runs, rows)?;
    // The measurements below are tests, which start programs of a debug build. It replaces this
    // program, which is started for the measurements above.
    run_command(&mut cargo_command(TESTED_PROGRAMS))?;
    sandbox::measure_isolated_starts(rows)?;
    handlers::measure_programs(rows)?;
    tasks::measure_tasks(rows)?;
    console::measure_console(BuildProfile::Dist, rows)?;
    if let [_, thousand, ten_thousand] = ratios[..] {
        let growth = ten_thousand / thousand;
        rows.push(row(
            "growth of ours/floor, 1,000 → 10,000",
            format!("{growth:.2} ×"),
            "≤ 1.3 ×",
            growth <= 1.3,
        ));
    }
    Ok(())
}

/// Prints the rows of the task store alone.
fn bench_tasks() -> Result<()> {
    let build = ["build", "--locked", "-p", "bench", "--bins"];
    let arguments = build.iter().chain(BuildProfile::Dist.arguments());
    run_command(&mut cargo_command(arguments))?;
    let mut rows = Vec::new();
    tasks::measure_tasks(&mut rows)?;
    print(&rows);
    Ok(())
}

/// Prints the rows of the web console alone.
fn bench_console(profile: BuildProfile) -> Result<()> {
    build_product(profile)?;
    let mut rows = Vec::new();
    console::measure_console(profile, &mut rows)?;
    print(&rows);
    Ok(())
}

fn generate(generator: &Path, work: &Path, count: usize) -> Result<PathBuf> {
    create_once(&work.join(format!("skills-{count}")), |new| {
        run_command(Command::new("python3").arg(generator).arg(new).arg(count.to_string()))
    })
}

/// Measures a cold listing, as a full process, against the floor; returns the ratio of CPU time.
fn cold_list(
    floor: &Path,
    skills: &Path,
    count: usize,
    runs: usize,
    rows: &mut Vec<BenchRow>,
) -> Result<f64> {
    let measured = against_floor(floor, &["list", "--root"], skills, runs)?;
    let goal = |reached| (count == 10_000).then_some(reached);
    let mut add = |what: &str, value, wanted: &str, reached: Option<bool>| {
        let goal = reached.map(|reached| (wanted.to_owned(), reached));
        rows.push(BenchRow { what: format!("{what}, {count} skills"), value, goal });
    };
    let MedianUsage { ratio, peak_mib, .. } = measured;
    let value = measured.to_string();
    add("cold `skill list`, CPU, ours : floor", value, "≤ 3 ×", goal(ratio <= 3.0));
    let value = format!("{peak_mib:.1} MiB");
    add("cold `skill list`, peak memory", value, "≤ 24 MiB", goal(peak_mib <= 24.0));
    Ok(ratio)
}

/// Measures checks of skills, as a full process, against the floor, which only lists them.
fn checks(floor: &Path, skills: &Path, runs: usize, rows: &mut Vec<BenchRow>) -> Result<()> {
    for (command, goal, runs) in [("validate", Some(4.5), runs), ("lint", None, runs.min(3))] {
        let measured = against_floor(floor, &[command], skills, runs)?;
        rows.push(BenchRow {
            what: format!("`skill {command}`, CPU, ours : floor, 10000 skills"),
            value: measured.to_string(),
            goal: goal.map(|goal| (format!("≤ {goal} ×"), measured.ratio <= goal)),
        });
        rows.push(row(
            &format!("`skill {command}`, peak memory, 10000 skills"),
            format!("{:.1} MiB", measured.peak_mib),
            "≤ 64 MiB",
            measured.peak_mib <= 64.0,
        ));
    }
    Ok(())
}

/// The medians over several runs.
struct MedianUsage {
    /// CPU time, ours : the floor's.
    ratio: f64,
    cpu_ms: f64,
    floor_cpu_ms: f64,
    peak_mib: f64,
}

impl std::fmt::Display for MedianUsage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { ratio, cpu_ms, floor_cpu_ms, .. } = self;
        write!(f, "{ratio:.2} × ({cpu_ms:.1} ms : {floor_cpu_ms:.1} ms)")
    }
}

/// Measures a `skillhost skill` command and the floor on the same skills, in turns.
fn against_floor(
    floor: &Path,
    command: &[&str],
    skills: &Path,
    runs: usize,
) -> Result<MedianUsage> {
    let text = |path: &Path| path.display().to_string();
    let mut ours =
        vec![text(&BuildProfile::Dist.directory().join("skillhost")), "skill".to_owned()];
    ours.extend(command.iter().map(|&word| word.to_owned()).chain([text(skills)]));
    let theirs: Vec<String> = vec![text(floor), text(skills), "print".into()];
    let mut pairs: Vec<(CommandUsage, CommandUsage)> = Vec::new();
    for _ in 0..=runs {
        pairs.push((usage_of(&ours)?, usage_of(&theirs)?));
    }
    // The first pair fills the caches.
    pairs.remove(0);
    Ok(MedianUsage {
        ratio: median(pairs.iter().map(|(a, b)| a.cpu_ms / b.cpu_ms)),
        cpu_ms: median(pairs.iter().map(|(a, _)| a.cpu_ms)),
        floor_cpu_ms: median(pairs.iter().map(|(_, b)| b.cpu_ms)),
        peak_mib: median(pairs.iter().map(|(a, _)| a.peak_kib as f64)) / 1024.0,
    })
}

/// Measures the search index over skills that the `bench` binary generates.
fn searches(rows: &mut Vec<BenchRow>) -> Result<()> {
    let numbers = bench_binary("--search".as_ref())?;
    let get = |key: &str| numbers[key].as_f64().unwrap_or(f64::NAN);
    let mut add = |what: &str, value: f64, unit: &str, limit: f64| {
        let what = format!("{what}, {} skills with bodies", numbers["skills"]);
        let wanted = format!("≤ {limit} {unit}");
        rows.push(row(&what, format!("{value:.2} {unit}"), &wanted, value <= limit));
    };
    add("search, p50", get("query_p50_us") / 1e3, "ms", 1.0);
    add("search, p99", get("query_p99_us") / 1e3, "ms", 3.0);
    add("building the search index", get("build_ms") / 1e3, "s", 1.5);
    add("one changed skill in it", get("change_ms"), "ms", 5.0);
    let mib = |key: &str| get(key) / 1024.0 / 1024.0;
    add("search index", mib("index_bytes"), "MiB", 80.0);
    add("resident for it", mib("resident_bytes"), "MiB", 80.0);
    rows.push(BenchRow {
        what: "  worst of 200 changed skills, which joins the changes".into(),
        value: format!("{:.0} ms", get("change_worst_ms")),
        goal: None,
    });
    Ok(())
}

/// Runs the `bench` binary and parses its measurements.
fn bench_binary(argument: &OsStr) -> Result<Value> {
    let output = Command::new(BuildProfile::Dist.directory().join("bench"))
        .arg(argument)
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("bench: {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Adds the in-process measurements of the `bench` binary.
fn in_process(skills: &Path, count: usize, rows: &mut Vec<BenchRow>) -> Result<()> {
    let numbers = bench_binary(skills.as_ref())?;
    let get = |key: &str| numbers[key].as_f64().unwrap_or(f64::NAN);
    if count == 10_000 {
        let worst = get("mutant_worst_ms");
        let what = "worst of 10,000 mutants, checked and formatted";
        rows.push(row(what, format!("{worst:.1} ms"), "≤ 50 ms", worst <= 50.0));
    }
    if count == 100 {
        vectors(&get, rows);
    }
    let mut add = |what: &str, value: String, wanted: &str, reached: bool| {
        rows.push(row(&format!("{what}, {count} skills"), value, wanted, reached));
    };
    let ratio = get("poll_us") / get("fstatat_us");
    let value = format!(
        "{ratio:.2} × ({:.0} µs : {:.0} µs; {} stats)",
        get("poll_us"),
        get("fstatat_us"),
        get("poll_stats")
    );
    add("unchanged poll : fstatat of the SKILL.md files", value, "≤ 1.5 ×", ratio <= 1.5);
    add(
        "files opened by an unchanged poll",
        get("poll_opened").to_string(),
        "0",
        get("poll_opened") == 0.0,
    );
    if count == 1_000 {
        let share = get("poll_us") / 5e6 * 100.0;
        add(
            "share of a core, polling every 5 s",
            format!("{share:.4} %"),
            "≤ 0.025 %",
            share <= 0.025,
        );
    }
    add(
        "catalog, unchanged",
        format!("{:.0} ns", get("catalog_ns")),
        "≤ 100 ns",
        get("catalog_ns") <= 100.0,
    );
    add(
        "allocations of it",
        get("catalog_allocations").to_string(),
        "0",
        get("catalog_allocations") == 0.0,
    );
    let value = format!("{:.1} µs ({} bytes)", get("get_context_us"), get("context_bytes"));
    add("get_context through the boundary", value, "≤ 5 µs", get("get_context_us") <= 5.0);
    let (p50, p99) =
        (get("read_p50_us") / get("direct_p50_us"), get("read_p99_us") / get("direct_p99_us"));
    let value =
        format!("{p50:.2} × ({:.0} µs : {:.0} µs)", get("read_p50_us"), get("direct_p50_us"));
    add("read_skill through the boundary : direct, p50", value, "≤ 3 ×", p50 <= 3.0);
    let value =
        format!("{p99:.2} × ({:.0} µs : {:.0} µs)", get("read_p99_us"), get("direct_p99_us"));
    add("read_skill through the boundary : direct, p99", value, "≤ 5 ×", p99 <= 5.0);
    let load = get("load_us") / 1e3;
    add("loading the library", format!("{load:.2} ms"), "≤ 5 ms", load <= 5.0);
    let mib = get("metadata_bytes") / 1024.0 / 1024.0;
    if count == 10_000 {
        add("metadata held", format!("{mib:.2} MiB"), "≤ 8 MiB", mib <= 8.0);
    }
    rows.push(BenchRow {
        what: "  its sha256, where pinned".into(),
        value: format!("{:.2} ms", get("sha256_us") / 1e3),
        goal: None,
    });
    Ok(())
}

/// Adds the measurements of vectors, which do not depend on the number of skills.
fn vectors(get: &dyn Fn(&str) -> f64, rows: &mut Vec<BenchRow>) {
    let start = get("embedding_start_us") / 1e3;
    let loading = format!("loading the library {:.2} ms", get("embedding_load_us") / 1e3);
    let value = format!("{start:.2} ms ({loading})");
    rows.push(row("start of the embedding extension", value, "≤ 10 ms", start <= 10.0));
    let pair = |name: &str| {
        let (p50, p99) = (get(&format!("{name}_p50_us")), get(&format!("{name}_p99_us")));
        (p50, format!("{p50:.1} µs (p99 {p99:.1} µs)"))
    };
    let (p50, value) = pair("vector");
    rows.push(row("vector of a query, inside the extension", value, "≤ 10 µs", p50 <= 10.0));
    let (what, value) = ("  asked by another extension".to_owned(), pair("asked").1);
    rows.push(BenchRow { what, value, goal: None });
}

fn print(rows: &[BenchRow]) {
    let width = rows.iter().map(|row| row.what.chars().count()).max().unwrap_or_default();
    println!();
    for BenchRow { what, value, goal } in rows {
        match goal {
            Some((wanted, true)) => println!("{what:width$}  {value}  [{wanted}: yes]"),
            Some((wanted, false)) => println!("{what:width$}  {value}  [{wanted}: NO]"),
            None => println!("{what:width$}  {value}"),
        }
    }
}
