//! Scripts as skills have them, which must work.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use skillhost_policy::{IsolationLevel, LimitLayer};

use crate::fixture::{Victims, short_limits};

#[derive(Deserialize)]
struct OrdinaryScript {
    name: String,
    command: Vec<String>,
    output: String,
    /// The only level at which it can work.
    level: Option<IsolationLevel>,
    /// The program without which it is left out.
    program: Option<String>,
    #[serde(default)]
    exit_code: i32,
    signal: Option<i32>,
    /// The limits that it needs beyond the default.
    limits: Option<LimitLayer>,
}

fn check_level(level: IsolationLevel, landlock_abi: Option<i32>) {
    run_table(include_str!("ordinary.json"), &[], level, landlock_abi);
}

fn run_table(table: &str, readable: &[PathBuf], level: IsolationLevel, landlock_abi: Option<i32>) {
    let scripts: Vec<OrdinaryScript> = serde_json::from_str(table).unwrap();
    let victims = Victims::create();
    let repository = victims.path("repo");
    std::fs::create_dir(&repository).unwrap();
    let made = Command::new("sh")
        .args(["-c", "git init -q . && git config user.email a@b && git config user.name n && echo one >f && git add -A && git commit -qm first && echo two >>f && git commit -qam second"])
        .current_dir(&repository)
        .env("HOME", victims.base.path())
        .status();
    assert!(made.is_ok_and(|status| status.success()), "git is required");
    let mut findings = Vec::new();
    for script in scripts {
        if script.level.is_some_and(|only| only != level)
            || script.program.as_ref().is_some_and(|program| !Path::new(program).exists())
        {
            continue;
        }
        let command: Vec<_> = script.command.iter().map(|word| victims.fill(word)).collect();
        let mut policy = victims.policy();
        policy.limits = short_limits(30);
        let file_mib = script.limits.and_then(|limits| limits.file_mib);
        policy.limits.file_mib = file_mib.unwrap_or(policy.limits.file_mib);
        policy.filesystem.allow_read.push(repository.clone());
        policy.filesystem.allow_read.extend(readable.iter().cloned());
        let result = victims.run_with(&command, policy, level, landlock_abi);
        let line = match result {
            Ok(exit) => {
                let output = String::from_utf8_lossy(&exit.stdout).into_owned();
                let code = script.signal.map_or(Some(script.exit_code), |_| None);
                let good = output.contains(&script.output)
                    && (exit.end.exit_code, exit.end.signal) == (code, script.signal)
                    && exit.end.ended_by.is_none();
                let line = format!(
                    "{level} {:22} {} {:>5} ms  peak {} KiB",
                    script.name,
                    if good { "works" } else { "FAILS" },
                    exit.end.ms,
                    exit.end.peak_kib
                );
                if !good {
                    let errors = String::from_utf8_lossy(&exit.stderr).into_owned();
                    findings.push(format!("{line}\n{:?}\n{output}\n{errors}", exit.end));
                }
                line
            }
            Err(error) => {
                findings.push(format!("{}: not run: {error}", script.name));
                format!("{level} {} not run", script.name)
            }
        };
        if std::env::var_os("SANDBOX_REPORT").is_some() {
            eprintln!("{line}");
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

/// Runs a table of scripts that are not part of this repository, such as real skills:
/// `SANDBOX_TABLE=FILE SANDBOX_READABLE=DIR:DIR cargo test -p skillhost-sandbox --test isolation
/// -- --ignored external`.
#[test]
#[ignore = "needs a table of scripts"]
fn external_scripts_run() {
    let table = std::fs::read_to_string(std::env::var_os("SANDBOX_TABLE").unwrap()).unwrap();
    let readable = std::env::var_os("SANDBOX_READABLE").unwrap_or_default();
    let readable: Vec<_> = std::env::split_paths(&readable).collect();
    for level in [IsolationLevel::Namespaces, IsolationLevel::Landlock] {
        run_table(&table, &readable, level, None);
    }
}

#[test]
fn namespaces_run_ordinary_scripts() {
    check_level(IsolationLevel::Namespaces, None);
}

#[test]
fn landlock_runs_ordinary_scripts() {
    check_level(IsolationLevel::Landlock, None);
}

#[test]
fn old_landlock_runs_ordinary_scripts() {
    check_level(IsolationLevel::Landlock, Some(3));
}
