//! `cargo xtask build-times`: the compile times of the product, cold and after a change.
//!
//! Cargo calls this program in place of the compiler, so that the CPU time of each crate is known;
//! elapsed time depends on what else is compiled at the same moment.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::install::{BuildProfile, PRODUCT, copy};
use crate::process::{cargo_command, children_cpu_ms, run_command};
use crate::workspace::{Result, root, target};

/// The jobs of the build. Elapsed times of different numbers of jobs do not compare.
const JOBS: &str = "2";

/// The limit of the CPU time of each of our crates, in seconds.
const CRATE_LIMIT: f64 = 60.0;
/// The limit of their sum, in seconds.
const OURS_LIMIT: f64 = 360.0;
/// The limit of the elapsed time of the whole build, in seconds.
const BUILD_LIMIT: f64 = 360.0;

/// The changes that are measured: a name, a file in which a line is added, and the limit of the
/// elapsed time until all parts of the product are built again, in seconds.
const CHANGES: [(&str, &str, f64); 2] = [
    ("the registry", "extensions/skill_registry/service/src/tools.rs", 20.0),
    ("the command line", "kernel/cli/src/commands/run.rs", 25.0),
];

/// The variable that names the log of compilers; with it, this program runs the compiler that its
/// arguments name.
pub(crate) const COMPILER_LOG: &str = "XTASK_COMPILER_LOG";

#[derive(Debug, Args)]
pub(crate) struct BuildTimesArgs {
    /// Build only these packages; only the limits of single crates apply then
    #[arg(short, long = "package", value_name = "PACKAGE")]
    packages: Vec<String>,
    /// Print the times and succeed, even above a limit
    #[arg(long)]
    no_check: bool,
}

/// One run of the compiler, as the log has it.
#[derive(Debug, Serialize, Deserialize)]
struct CompilerRun {
    package: String,
    cpu_ms: f64,
}

/// Runs the compiler and adds its CPU time to the log.
pub(crate) fn run_compiler(log: &OsStr) -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let Some(program) = arguments.next() else { return ExitCode::FAILURE };
    let result = Command::new(&program).args(arguments).status();
    // Without a package cargo only asks for the compiler's version.
    let logged = match std::env::var("CARGO_PKG_NAME") {
        Ok(package) => log_run(log, package),
        Err(_) => Ok(()),
    };
    match (result, logged) {
        (Ok(status), Ok(())) => status.code().map_or(ExitCode::FAILURE, |code| {
            ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
        }),
        (Err(error), _) => {
            eprintln!("xtask: {}: {error}", program.display());
            ExitCode::FAILURE
        }
        (_, Err(error)) => {
            eprintln!("xtask: {}: {error}", log.display());
            ExitCode::FAILURE
        }
    }
}

fn log_run(log: &OsStr, package: String) -> Result<()> {
    let run = CompilerRun { package, cpu_ms: children_cpu_ms()? };
    let line = serde_json::to_string(&run)? + "\n";
    Ok(OpenOptions::new().create(true).append(true).open(log)?.write_all(line.as_bytes())?)
}

/// Builds the product in an empty target directory, changes lines, and fails where a limit is
/// exceeded.
pub(crate) fn cmd_build_times(args: &BuildTimesArgs) -> Result<()> {
    let directory = target().join("build-times");
    // Cargo builds only what is missing.
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    let sources = directory.join("sources");
    copy_sources(&sources)?;
    let packages = workspace_packages()?;
    let is_whole = args.packages.is_empty();
    let selection: Vec<&str> = match is_whole {
        true => PRODUCT.to_vec(),
        false => args.packages.iter().map(String::as_str).collect(),
    };
    let times = build(&directory, &sources, &selection, &packages)?;
    println!("\n{}", times.to_table());
    let mut exceeded = times.exceeded_crates();
    if is_whole {
        exceeded.extend(times.exceeded_sums());
        for (name, file, limit) in CHANGES {
            let file = sources.join(file);
            // All lines below move, as after most changes.
            fs::write(&file, format!("// A change.\n{}", fs::read_to_string(&file)?))?;
            let seconds = build(&directory, &sources, &selection, &packages)?.elapsed;
            println!("{seconds:.1} s after a line in {name}");
            if seconds > limit {
                exceeded.push(format!("a line in {name}: {seconds:.1} s of {limit} s"));
            }
        }
    }
    fs::remove_dir_all(&directory)?;
    match exceeded.is_empty() || args.no_check {
        true => Ok(()),
        false => Err(format!("above their limits: {}", exceeded.join(", ")).into()),
    }
}

/// Copies the sources, so that changing them does not change the user's.
fn copy_sources(to: &Path) -> Result<()> {
    let mut command = Command::new("git");
    command.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output = command.current_dir(root()).output()?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", output.status).into());
    }
    let names = String::from_utf8(output.stdout)?;
    // A file can be deleted, and not yet known as such to git.
    for name in names.split_terminator('\0').filter(|name| root().join(name).is_file()) {
        copy(&root().join(name), &to.join(name))?;
    }
    Ok(())
}

/// Builds packages and measures it.
fn build(
    directory: &Path,
    sources: &Path,
    selection: &[&str],
    packages: &BTreeSet<String>,
) -> Result<BuildTimes> {
    let log = directory.join("compilers.jsonl");
    fs::write(&log, "")?;
    let fixed = ["build", "--locked", "--no-default-features", "--jobs", JOBS];
    let selection = selection.iter().flat_map(|name| ["-p", name]);
    let profile = BuildProfile::Release.arguments().iter().copied();
    let mut command = cargo_command(fixed.into_iter().chain(selection).chain(profile));
    command
        .current_dir(sources)
        .env("CARGO_TARGET_DIR", directory.join("target"))
        .env("RUSTC_WRAPPER", std::env::current_exe()?)
        .env(COMPILER_LOG, &log);
    let (started, cpu_before) = (Instant::now(), children_cpu_ms()?);
    run_command(&mut command)?;
    let elapsed = started.elapsed().as_secs_f64();
    let cpu = (children_cpu_ms()? - cpu_before) / 1e3;
    let text = fs::read_to_string(&log)?;
    let runs =
        text.lines().map(serde_json::from_str).collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(BuildTimes::from_runs(&runs, packages, cpu, elapsed))
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
    /// The CPU time of each of our crates, the slowest first.
    ours: Vec<(String, f64)>,
    /// The number of other crates and their CPU time, with that of C compilers and of cargo.
    others: (usize, f64),
    /// The time from the start to the end.
    elapsed: f64,
}

impl BuildTimes {
    /// Adds up the runs of each package: a build script and a binary count to theirs.
    fn from_runs(
        runs: &[CompilerRun],
        packages: &BTreeSet<String>,
        cpu: f64,
        elapsed: f64,
    ) -> Self {
        let mut crates: BTreeMap<&str, f64> = BTreeMap::new();
        for run in runs {
            *crates.entry(&run.package).or_default() += run.cpu_ms / 1e3;
        }
        let (ours, others): (Vec<_>, Vec<_>) =
            crates.into_iter().partition(|(name, _)| packages.contains(*name));
        let mut ours: Vec<_> =
            ours.into_iter().map(|(name, seconds)| (name.to_owned(), seconds)).collect();
        ours.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut times = Self { ours, others: (others.len(), 0.0), elapsed };
        times.others.1 = cpu - times.sum_of_ours();
        times
    }

    fn sum_of_ours(&self) -> f64 {
        self.ours.iter().map(|(_, seconds)| seconds).sum()
    }

    fn exceeded_crates(&self) -> Vec<String> {
        let exceeded = self.ours.iter().filter(|(_, seconds)| *seconds > CRATE_LIMIT);
        exceeded
            .map(|(name, seconds)| format!("{name}: {seconds:.1} s of {CRATE_LIMIT} s"))
            .collect()
    }

    fn exceeded_sums(&self) -> Vec<String> {
        let sums = [
            ("all our crates", self.sum_of_ours(), OURS_LIMIT),
            ("the whole build", self.elapsed, BUILD_LIMIT),
        ];
        let exceeded = sums.into_iter().filter(|(_, seconds, limit)| seconds > limit);
        exceeded
            .map(|(name, seconds, limit)| format!("{name}: {seconds:.1} s of {limit} s"))
            .collect()
    }

    fn to_table(&self) -> String {
        let (number, seconds) = self.others;
        let mut table = String::from("CPU s    crate\n");
        for (name, seconds) in &self.ours {
            table.push_str(&format!("{seconds:7.1}  {name}\n"));
        }
        table.push_str(&format!("{:7.1}  all {} of ours\n", self.sum_of_ours(), self.ours.len()));
        table.push_str(&format!("{seconds:7.1}  {number} other crates, with their C code\n"));
        let elapsed = self.elapsed;
        table.push_str(&format!("{elapsed:7.1}  from start to end, elapsed, with {JOBS} jobs\n"));
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_crate_are_added() {
        let log = [("slow", 61_500.0), ("serde", 500.0), ("fast", 1_000.0), ("fast", 2_000.0)];
        let runs = log.map(|(package, cpu_ms)| CompilerRun { package: package.into(), cpu_ms });
        let packages = BTreeSet::from(["slow", "fast", "unused"].map(str::to_owned));
        let times = BuildTimes::from_runs(&runs, &packages, 66.5, 361.0);
        let ours = vec![("slow".to_owned(), 61.5), ("fast".to_owned(), 3.0)];
        assert_eq!(times, BuildTimes { ours, others: (1, 2.0), elapsed: 361.0 });
        assert_eq!(times.exceeded_crates(), ["slow: 61.5 s of 60 s"]);
        assert_eq!(times.exceeded_sums(), ["the whole build: 361.0 s of 360 s"]);
    }
}
