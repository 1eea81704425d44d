//! Tries what was built in a process of its own, before anything is installed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use skillhost_kernel::{Home, HomeSource, Installed, ProbeFailure, Probed};
use tokio::process::Command;

use crate::error::BuildError;
use crate::group::{self, Ended, Limits};
use crate::messages::cut;
use crate::place::{Place, private_folder, remove_folder};

/// A trial may take this long. The kernel's own limits, which say more, come first.
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
    Loaded(Probed),
    /// It does not.
    Rejected(ProbeFailure),
}

/// Has the extension of a manifest loaded by another process of this program. `approved` is the
/// digest of the files of a process extension.
///
/// # Errors
/// [`BuildError::Rejected`] with the phase, [`BuildError::Trial`] where the process did not come so
/// far as to say anything.
pub(crate) async fn attempt(
    program: &Path,
    place: &Place,
    manifest: &Path,
    approved: Option<&str>,
    memory: u64,
) -> Result<Probed, BuildError> {
    let home = place.trial();
    remove_folder(&home)?;
    private_folder(&home.join("sandbox"))?;
    if let Some(sha256) = approved {
        // Code that is no library is started only where it was approved, in this home too.
        let failed = |error: &dyn std::fmt::Display| {
            BuildError::io(&home)(std::io::Error::other(error.to_string()))
        };
        let trial = Home::at(&home, HomeSource::Argument).map_err(|error| failed(&error))?;
        Installed::record(&trial, &place.id, sha256, "trial").map_err(|error| failed(&error))?;
    }
    let tried = run(program, &home, manifest, memory).await;
    // What it left behind there is of no use to anybody.
    let removed = remove_folder(&home);
    let probed = verdict(&tried?)?;
    removed?;
    Ok(probed)
}

async fn run(
    program: &Path,
    home: &Path,
    manifest: &Path,
    memory: u64,
) -> Result<Ended, BuildError> {
    let mut command = Command::new(program);
    command
        .arg("--home")
        .arg(home)
        .args(["--trust-home", "--log", "off", "ext", "probe"])
        .arg(manifest)
        .current_dir(home)
        .env_clear()
        .envs(["PATH", "LANG"].into_iter().filter_map(|n| Some((n, std::env::var_os(n)?))))
        .env("HOME", home);
    let limits = Limits { time: TIME, memory, stdout: REPORT };
    let hint = "it may not wait or loop while it is loaded; long work belongs into the service";
    group::run(command, limits, ("loading it", hint)).await
}

/// What a trial says about the extension.
fn verdict(ended: &Ended) -> Result<Probed, BuildError> {
    let printed = || cut(ended.stderr.trim(), PRINTED).trim().to_owned();
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
        Ok(TrialReport::Rejected(ProbeFailure { phase, reason, hint })) => {
            Err(BuildError::Rejected { phase, reason, hint })
        }
        // More than the report, or something else.
        Err(_) if !stdout.trim().is_empty() => Err(BuildError::Trial {
            what: "it prints to standard output, which belongs to the program; log with tracing"
                .to_owned(),
            printed: cut(stdout.trim(), PRINTED).trim().to_owned(),
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

    use skillhost_kernel::Phase;

    fn ended(status: i32, stdout: &str) -> Ended {
        let status = ExitStatus::from_raw(status);
        Ended { status, stdout: stdout.into(), stderr: "last words\n".to_owned() }
    }

    fn refused(status: i32, stdout: &str) -> String {
        let error = verdict(&ended(status, stdout)).unwrap_err();
        format!("{error} / {}", error.hint())
    }

    #[test]
    fn only_a_report_and_nothing_else_counts() {
        let loaded = r#"{"loaded":{"version":"1.0.0","tools":[]}}"#;
        assert_eq!(verdict(&ended(0, loaded)).unwrap().version, "1.0.0");
        let rejected = serde_json::to_string(&TrialReport::Rejected(ProbeFailure {
            phase: Phase::New,
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
