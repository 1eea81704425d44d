//! `cargo xtask build-times`: how long a cold build takes, for each of our crates.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use clap::Args;
use serde::Deserialize;
use serde_json::Value;

use crate::install::{BuildProfile, PRODUCT};
use crate::process::{cargo_command, run_command};
use crate::workspace::{Result, target};

/// The jobs of the build. Times of different machines compare only roughly, and those of different
/// numbers of jobs not at all.
const JOBS: &str = "2";

/// The limit of each of our crates, in seconds.
const CRATE_LIMIT: f64 = 60.0;
/// The limit of the whole build, in seconds.
const BUILD_LIMIT: f64 = 360.0;

/// Limits of single crates above the usual one, in seconds; they only become smaller.
const LARGER_LIMITS: &[(&str, f64)] = &[];

#[derive(Debug, Args)]
pub(crate) struct BuildTimesArgs {
    /// Build only these packages; the limit of the whole build does not apply then
    #[arg(short, long = "package", value_name = "PACKAGE")]
    packages: Vec<String>,
}

/// One call of the compiler, or one run of a build script, in cargo's report of timings.
#[derive(Debug, Deserialize)]
struct BuildUnit {
    name: String,
    /// Seconds from the start of the build.
    start: f64,
    /// Its seconds.
    duration: f64,
}

/// Builds the product in an empty target directory and fails where a limit is exceeded.
pub(crate) fn cmd_build_times(args: &BuildTimesArgs) -> Result<()> {
    let directory = target().join("build-times");
    // Cargo builds only what is missing.
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    let packages: Vec<&str> = match args.packages.is_empty() {
        true => PRODUCT.to_vec(),
        false => args.packages.iter().map(String::as_str).collect(),
    };
    let fixed = ["build", "--locked", "--timings", "--jobs", JOBS];
    let selection = packages.iter().flat_map(|name| ["-p", name]);
    let arguments = fixed.into_iter().chain(selection);
    let profile = BuildProfile::Release.arguments().iter().copied();
    let mut build = cargo_command(arguments.chain(profile));
    run_command(build.env("CARGO_TARGET_DIR", &directory))?;
    let report = directory.join("cargo-timings/cargo-timing.html");
    let units = parse_report(&fs::read_to_string(report)?)?;
    fs::remove_dir_all(&directory)?;
    let times = BuildTimes::from_units(&units, &workspace_packages()?);
    println!("\n{}", times.to_table());
    let mut exceeded = times.exceeded_crates();
    if args.packages.is_empty() && times.whole > BUILD_LIMIT {
        exceeded.push(format!("the whole build: {:.1} s of {BUILD_LIMIT} s", times.whole));
    }
    match exceeded.is_empty() {
        true => Ok(()),
        false => Err(format!("above their limits: {}", exceeded.join(", ")).into()),
    }
}

/// Reads the units of cargo's report, a page with its data as JSON.
fn parse_report(page: &str) -> Result<Vec<BuildUnit>> {
    let (_, data) = page.split_once("const UNIT_DATA = ").ok_or("cargo's report has no units")?;
    let mut values = serde_json::Deserializer::from_str(data).into_iter();
    Ok(values.next().ok_or("cargo's report has no units")??)
}

/// Returns the names of the workspace's packages.
fn workspace_packages() -> Result<BTreeSet<String>> {
    let mut command = cargo_command(["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_slice(&command.output()?.stdout)?;
    let packages = metadata["packages"].as_array().ok_or("cargo reported no packages")?;
    Ok(packages.iter().filter_map(|package| package["name"].as_str()).map(str::to_owned).collect())
}

/// The seconds of a build.
#[derive(Debug, PartialEq)]
struct BuildTimes {
    /// Those of each of our crates, the slowest first.
    ours: Vec<(String, f64)>,
    /// The number of other crates and the sum of their seconds.
    others: (usize, f64),
    /// Those from the start to the end.
    whole: f64,
}

impl BuildTimes {
    /// Adds up the units of each crate: a build script and a binary count to their package.
    fn from_units(units: &[BuildUnit], packages: &BTreeSet<String>) -> Self {
        let mut crates: BTreeMap<&str, f64> = BTreeMap::new();
        for unit in units {
            *crates.entry(&unit.name).or_default() += unit.duration;
        }
        let (ours, others): (Vec<_>, Vec<_>) =
            crates.into_iter().partition(|(name, _)| packages.contains(*name));
        let mut ours: Vec<_> =
            ours.into_iter().map(|(name, seconds)| (name.to_owned(), seconds)).collect();
        ours.sort_by(|a, b| b.1.total_cmp(&a.1));
        let others = (others.len(), others.iter().map(|(_, seconds)| seconds).sum());
        let whole = units.iter().map(|unit| unit.start + unit.duration).fold(0.0, f64::max);
        Self { ours, others, whole }
    }

    fn exceeded_crates(&self) -> Vec<String> {
        let limit_of = |name: &str| {
            let larger = LARGER_LIMITS.iter().find(|(larger, _)| *larger == name);
            larger.map_or(CRATE_LIMIT, |(_, limit)| *limit)
        };
        let exceeded = self.ours.iter().filter(|(name, seconds)| *seconds > limit_of(name));
        let lines = exceeded
            .map(|(name, seconds)| format!("{name}: {seconds:.1} s of {} s", limit_of(name)));
        lines.collect()
    }

    fn to_table(&self) -> String {
        let (number, seconds) = self.others;
        let mut table = String::from("seconds  crate\n");
        for (name, seconds) in &self.ours {
            table.push_str(&format!("{seconds:7.1}  {name}\n"));
        }
        let sum: f64 = self.ours.iter().map(|(_, seconds)| seconds).sum();
        table.push_str(&format!("{sum:7.1}  all of ours, with {JOBS} at once\n"));
        table.push_str(&format!("{seconds:7.1}  {number} other crates\n"));
        table.push_str(&format!("{:7.1}  from start to end\n", self.whole));
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_crate_are_added() {
        let page = r#"<script>
const UNIT_DATA = [
  { "name": "slow", "target": "", "start": 1.0, "duration": 61.5, "sections": null },
  { "name": "serde", "target": " build-script", "start": 0.0, "duration": 0.5 },
  { "name": "fast", "target": "", "start": 0.5, "duration": 1.0 },
  { "name": "fast", "target": " fast \"bin\"", "start": 62.5, "duration": 2.0 }
];
const CONCURRENCY_DATA = [];"#;
        let packages = BTreeSet::from(["slow", "fast", "unused"].map(str::to_owned));
        let times = BuildTimes::from_units(&parse_report(page).unwrap(), &packages);
        let ours = vec![("slow".to_owned(), 61.5), ("fast".to_owned(), 3.0)];
        assert_eq!(times, BuildTimes { ours, others: (1, 0.5), whole: 64.5 });
        assert_eq!(times.exceeded_crates(), ["slow: 61.5 s of 60 s"]);
        assert!(parse_report("<html>").is_err());
    }
}
