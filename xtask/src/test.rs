//! `cargo xtask test`: everything CI runs.

use std::process::{Command, Stdio};

use crate::package;
use crate::process::{cargo_command, run_command};
use crate::workspace::Result;

/// Runs fmt, clippy, the build, the tests, the doc tests and rustdoc, and stops at the first that fails.
///
/// The same package selection everywhere: another one would unify features differently and compile
/// dozens of crates again.
pub(crate) fn cmd_test() -> Result<()> {
    run_command(&mut cargo_command(["fmt", "--all", "--check"]))?;
    run_command(&mut cargo_command([
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ]))?;
    // Tests start the binary and load the libraries, which test targets alone would not build.
    run_command(&mut cargo_command([
        "build",
        "--workspace",
        "--lib",
        "--bins",
        "--examples",
        "--locked",
    ]))?;
    if has_nextest() {
        run_command(&mut cargo_command([
            "nextest",
            "run",
            "--workspace",
            "--locked",
            "--no-fail-fast",
        ]))?;
    } else {
        println!(
            "\ncargo-nextest is not installed: cargo test runs the same tests, less in parallel"
        );
        run_command(&mut cargo_command([
            "test",
            "--workspace",
            "--all-targets",
            "--locked",
            "--no-fail-fast",
        ]))?;
    }
    run_command(&mut cargo_command(["test", "--workspace", "--doc", "--locked"]))?;
    // The link of a doc comment breaks unnoticed when its item is renamed.
    run_command(
        cargo_command(["doc", "--workspace", "--no-deps", "--document-private-items", "--locked"])
            .env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private-intra-doc-links"),
    )?;
    // The default build omits the table of word vectors.
    run_command(&mut cargo_command([
        "test",
        "--package",
        "word-vectors",
        "--package",
        "skillhost-embedding",
        "--features",
        "skillhost-embedding/static-minilm",
        "--locked",
    ]))?;
    // Tests of a failing step or a killed process need failpoints, which no product build has.
    run_command(&mut cargo_command([
        "test",
        "--package",
        "skill-service",
        "--features",
        "failpoints",
        "--test",
        "it",
        "--locked",
        "ledger_faults",
    ]))?;
    // The program that makes packages is a workspace of its own.
    let mut packages = cargo_command(["test", "--locked", "--manifest-path"]);
    packages.arg(package::manifest()).arg("--target-dir").arg(package::target_directory());
    run_command(&mut packages)?;
    println!("\nall checks passed");
    Ok(())
}

fn has_nextest() -> bool {
    let mut command: Command = cargo_command(["nextest", "--version"]);
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
