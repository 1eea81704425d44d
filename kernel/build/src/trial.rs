//! Tries what was built in a process of its own, before anything is installed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use skillhost_kernel::{ProbeError, ProbeReport};
use tokio::process::Command;

use crate::error::BuildError;
use crate::group::{self, ProcessExit, ProcessLimits};
use crate::messages::truncate;
use crate::place::{BuildPaths, private_folder, remove_folder};

/// A trial may take this long, beside what a process may take to start. The kernel's own limits,
/// which say more, come first.
const TIME: Duration = Duration::from_secs(40);
/// Bytes of its report.
const REPORT: usize = 4 * 1024 * 1024;
/// Bytes that are told of what it prints.
const PRINTED: usize = 600;

/// What `skillhost ext probe` prints, on one line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialReport {
    /// It loads.
    Loaded(ProbeReport),
    /// It does not.
    Rejected(ProbeError),
}

/// What a trial of a process extension needs beside its files.
#[derive(Default)]
pub(crate) struct ProcessTrial {
    /// The secrets that its manifest names, as far as they are there.
    pub(crate) secrets: Vec<(String, String)>,
    /// Its home directory, which stays.
    pub(crate) home: PathBuf,
    /// How long its first start may take, where the manifest says so.
    pub(crate) start: Duration,
}

/// Has the extension of a manifest loaded by another process of this program.
///
/// # Errors
/// [`BuildError::Rejected`] with the phase, [`BuildError::Trial`] where the process did not come so
/// far as to say anything.
pub(crate) async fn run_trial(
    program: &Path,
    place: &BuildPaths,
    manifest: &Path,
    process: Option<&ProcessTrial>,
    memory: u64,
) -> Result<ProbeReport, BuildError> {
    let home = place.trial();
    remove_folder(&home)?;
    private_folder(&home.join("sandbox"))?;
    let tried = run(program, &home, manifest, process, memory).await;
    // What it left behind there is of no use to anybody.
    let removed = remove_folder(&home);
    let probed = parse_report(&tried?)?;
    removed?;
    Ok(probed)
}

async fn run(
    program: &Path,
    home: &Path,
    manifest: &Path,
    process: Option<&ProcessTrial>,
    memory: u64,
) -> Result<ProcessExit, BuildError> {
    let mut command = Command::new(program);
    command
        .arg("--home")
        .arg(home)
        .args(["--trust-home", "--log", "off", "ext", "probe"])
        .arg(manifest)
        .current_dir(home)
        .env_clear();
    let mut time = TIME;
    if let Some(process) = process {
        command.arg("--process-home").arg(&process.home);
        // Before the others: a secret takes the place of none of them.
        let secrets = process.secrets.iter().filter(|(name, _)| !is_loaders(name));
        command.envs(secrets.map(|(name, value)| (name, value)));
        time += process.start;
    }
    command
        .envs(["PATH", "LANG"].into_iter().filter_map(|n| Some((n, std::env::var_os(n)?))))
        .env("HOME", home);
    let limits = ProcessLimits { time, memory, stdout: REPORT };
    let hint = "it may not wait or loop while it is loaded; long work belongs into the service";
    group::run_limited(command, limits, ("loading it", hint)).await
}

/// Whether the system's loader obeys a variable: no secret changes what the trial's own program is.
fn is_loaders(name: &str) -> bool {
    name.starts_with("LD_") || name.starts_with("DYLD_")
}

/// What a trial says about the extension.
fn parse_report(ended: &ProcessExit) -> Result<ProbeReport, BuildError> {
    let printed = || truncate(ended.stderr.trim(), PRINTED).trim().to_owned();
    if let Some(signal) = ended.signal() {
        let what = match signal {
            6 => "it ends its process with abort".to_owned(),
            9 => "its process was killed".to_owned(),
            11 => "it ends its process with a segmentation fault".to_owned(),
            other => format!("its process ends with signal {other}"),
        };
        return Err(BuildError::Trial { what, printed: printed() });
    }
    let stdout = String::from_utf8_lossy(&ended.stdout);
    match serde_json::from_str(&stdout) {
        Ok(TrialReport::Loaded(probed)) => Ok(probed),
        Ok(TrialReport::Rejected(ProbeError { phase, reason, hint })) => {
            Err(BuildError::Rejected { phase, reason, hint })
        }
        // More than the report, or something else.
        Err(_) if !stdout.trim().is_empty() => Err(BuildError::Trial {
            what: "it prints to standard output, which belongs to the program; log with tracing"
                .to_owned(),
            printed: truncate(stdout.trim(), PRINTED).trim().to_owned(),
        }),
        Err(_) => Err(BuildError::Trial {
            what: match ended.status.code() {
                Some(code) => format!("it ends its process with exit code {code}"),
                None => "its process says nothing".to_owned(),
            },
            printed: printed(),
        }),
    }
}

/// The program that tries extensions: this one.
pub(crate) fn this_program() -> PathBuf {
    // A program without a path is not started, and that is what is reported then.
    std::env::current_exe().unwrap_or_else(|_| PathBuf::from("skillhost"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use skillhost_kernel::LoadPhase;

    fn ended(status: i32, stdout: &str) -> ProcessExit {
        let status = ExitStatus::from_raw(status);
        ProcessExit { status, stdout: stdout.into(), stderr: "last words\n".to_owned() }
    }

    fn refused(status: i32, stdout: &str) -> String {
        let error = parse_report(&ended(status, stdout)).unwrap_err();
        format!("{error} / {}", error.hint())
    }

    #[test]
    fn only_a_report_and_nothing_else_counts() {
        let loaded = r#"{"loaded":{"version":"1.0.0","tools":[]}}"#;
        assert_eq!(parse_report(&ended(0, loaded)).unwrap().version, "1.0.0");
        let rejected = serde_json::to_string(&TrialReport::Rejected(ProbeError {
            phase: LoadPhase::New,
            reason: "panicked: no".into(),
            hint: "do not".into(),
        }));
        assert_eq!(
            refused(0, &rejected.unwrap()),
            "it was built and does not load, phase new: panicked: no / do not"
        );
        let trial = "it was built, and does not load: ";
        for (status, stdout, expected) in [
            (6, loaded, "it ends its process with abort / it printed: last words"),
            (
                0,
                &format!("hello\n{loaded}"),
                "it prints to standard output, which belongs to the program; log with tracing / \
                 it printed: hello\n{\"loaded\":{\"version\":\"1.0.0\",\"tools\":[]}}",
            ),
            (7 << 8, "", "it ends its process with exit code 7 / it printed: last words"),
            (11, "", "it ends its process with a segmentation fault / it printed: last words"),
        ] {
            assert_eq!(refused(status, stdout), format!("{trial}{expected}"));
        }
    }
}
