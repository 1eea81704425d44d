//! `cargo xtask test`: everything CI runs.

use std::num::NonZero;
use std::process::{Command, Stdio};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use crate::package;
use crate::process::{cargo_command, run_command};
use crate::workspace::Result;

/// The build of the programs and libraries that tests start; test targets alone would not build them.
pub(crate) const TESTED_PROGRAMS: [&str; 6] =
    ["build", "--workspace", "--lib", "--bins", "--examples", "--locked"];

/// The number of tests at the same time for each processor: about a third of their time they wait
/// for processes, replies and the disk.
const TESTS_PER_PROCESSOR: usize = 2;

/// A step with the command that performs it.
struct TestStep {
    name: &'static str,
    command: Command,
}

/// Runs all steps, and stops at the first that fails. Prints the time of each.
pub(crate) fn cmd_test() -> Result<()> {
    let mut times: Vec<(&str, Duration)> = Vec::new();
    let mut outcome = Ok(());
    for TestStep { name, mut command } in test_steps() {
        let start = Instant::now();
        outcome = run_command(&mut command);
        times.push((name, start.elapsed()));
        if outcome.is_err() {
            break;
        }
    }
    println!();
    for (name, time) in times {
        println!("{:>6} s  {name}", time.as_secs());
    }
    outcome?;
    println!("\nall checks passed");
    Ok(())
}

/// Returns the steps in their order.
///
/// The same package selection everywhere: another one would unify features differently and compile
/// dozens of crates again.
fn test_steps() -> Vec<TestStep> {
    let step = |name, arguments: &[&str]| TestStep { name, command: cargo_command(arguments) };
    let clippy = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    // With all targets, too: without them dependencies have fewer features and are checked again.
    let with_table = [&["clippy", "--features", "skillhost-embedding/static-minilm"], &clippy[1..]];
    let tests = if has_nextest() {
        let mut tests = step("tests", &["nextest", "run", "--workspace", "--locked"]);
        let processors = available_parallelism().map_or(1, NonZero::get);
        let threads = (TESTS_PER_PROCESSOR * processors).to_string();
        tests.command.args(["--no-fail-fast", "--test-threads", &threads]);
        tests
    } else {
        println!(
            "cargo-nextest is not installed: cargo test runs the same tests, less in parallel"
        );
        step("tests", &["test", "--workspace", "--all-targets", "--locked", "--no-fail-fast"])
    };
    // The link of a doc comment breaks unnoticed when its item is renamed.
    let mut links =
        step("links of comments", &["doc", "--workspace", "--no-deps", "--document-private-items"]);
    let flags = "-D warnings -A rustdoc::private-intra-doc-links";
    links.command.arg("--locked").env("RUSTDOCFLAGS", flags);
    // The program that makes packages is a workspace of its own.
    let mut packages = step("tests of the packages", &["test", "--locked", "--manifest-path"]);
    packages.command.arg(package::manifest()).arg("--target-dir").arg(package::target_directory());
    vec![
        step("format", &["fmt", "--all", "--check"]),
        step("clippy", &clippy),
        // The default build omits the model of the table of word vectors.
        step("clippy with the table of word vectors", &with_table.concat()),
        step("build", &TESTED_PROGRAMS),
        tests,
        step("tests of the documentation", &["test", "--workspace", "--doc", "--locked"]),
        links,
        packages,
    ]
}

fn has_nextest() -> bool {
    let mut command: Command = cargo_command(["nextest", "--version"]);
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
