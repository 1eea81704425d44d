//! The trial of a build in a separate process before its installation.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use skillhost_core::{ProbeError, ProbeReport};
use skillhost_files::write_atomically;
use skillhost_home::without_links;
use skillhost_sandbox::{IsolationReport, LaunchSpec, ProcessExit, ProcessLimits, run_limited};

use crate::build_paths::{BuildPaths, create_private, remove_directory};
use crate::containment::{BuildContainment, ContainedExit, RunAction, RunPaths};
use crate::error::BuildError;
use crate::messages::truncate;

/// The timeout of a trial, in addition to the start of a process. It is longer than the kernel's
/// own timeouts, whose errors are more specific.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(40);
/// The maximum size of a report, in bytes.
const MAX_REPORT: usize = 4 * 1024 * 1024;
/// The maximum length of quoted output, in bytes.
const MAX_OUTPUT: usize = 600;

/// The report of `skillhost ext probe`, printed on one line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialReport {
    /// The extension loads.
    Loaded(ProbeReport),
    /// The extension fails to load.
    Rejected(ProbeError),
}

/// The environment of the trial of a process extension.
#[derive(Default)]
pub(crate) struct ProcessTrial {
    /// The available secrets that the manifest names.
    pub(crate) secrets: Vec<(String, String)>,
    /// The home directory of the process, which outlasts the trial.
    pub(crate) home: PathBuf,
    /// The settings in force, as far as they are about processes: JSON, which is YAML as well.
    pub(crate) settings: String,
    /// The start timeout in the manifest, or zero.
    pub(crate) start: Duration,
}

/// Loads the extension of a manifest in another process of this program.
///
/// # Errors
/// [`BuildError::Rejected`] with the phase, [`BuildError::Trial`] if the process exits without a
/// report.
pub(crate) async fn run_trial(
    program: &Path,
    place: &BuildPaths,
    manifest: &Path,
    process: Option<&ProcessTrial>,
    (memory, containment): (u64, &BuildContainment),
) -> Result<ProbeReport, BuildError> {
    let home = place.trial();
    // A trial must not see the files of an earlier one.
    remove_directory(&home)?;
    create_private(&home.join("sandbox"))?;
    let home = without_links(&home);
    if let Some(process) = process {
        let settings = home.join("skillhost.yaml");
        let (path, text) = (settings.clone(), process.settings.clone());
        // The write is synchronized, so no worker of the runtime may wait for it.
        let write = move || write_atomically(&path, text.as_bytes());
        let written = tokio::task::spawn_blocking(write).await;
        written
            .unwrap_or_else(|error| Err(io::Error::other(error)))
            .map_err(BuildError::io(&settings))?;
    }
    let tried = run_probe(program, &home, manifest, process, (memory, containment)).await;
    // Removed before the report is parsed, so that a failed trial leaves no files either.
    let removed = remove_directory(&home);
    let tried = tried?;
    let mut probed = parse_report(&tried.exit)?;
    removed?;
    // A process reports the isolation that it has started itself.
    if process.is_none() {
        probed.isolation = Some(tried.isolation);
    }
    Ok(probed)
}

async fn run_probe(
    program: &Path,
    home: &Path,
    manifest: &Path,
    process: Option<&ProcessTrial>,
    (memory, containment): (u64, &BuildContainment),
) -> Result<ContainedExit, BuildError> {
    let mut arguments: Vec<OsString> = vec!["--home".into(), home.into()];
    arguments.extend(["--trust-home", "--log", "off", "ext", "probe"].map(Into::into));
    arguments.push(manifest.into());
    let mut environment = BTreeMap::new();
    let mut time = TRIAL_TIMEOUT;
    if let Some(process) = process {
        arguments.extend(["--process-home".into(), process.home.clone().into()]);
        // Set before the other variables, so that no secret can replace one of them.
        let secrets = process.secrets.iter().filter(|(name, _)| !is_loader_variable(name));
        environment.extend(secrets.map(|(name, value)| (name.into(), value.into())));
        time += process.start;
    }
    let inherited = ["PATH", "LANG"].into_iter();
    environment.extend(inherited.filter_map(|name| Some((name.into(), std::env::var_os(name)?))));
    // A process gets a home of its own, and `~` in its policy is the operator's.
    let user_home = process.and_then(|_| std::env::var_os("HOME"));
    environment.insert("HOME".into(), user_home.unwrap_or_else(|| home.into()));
    let (program, folder) = (program.to_owned(), home.to_owned());
    let launch = LaunchSpec { program, arguments, environment, folder };
    let limits = ProcessLimits { time, memory: Some(memory), stdout: MAX_REPORT };
    let hint = "do not wait or loop while loading; move long work to the service";
    if process.is_some() {
        // This program itself runs no foreign code then: the process is isolated as at each start.
        let exit =
            run_limited(&launch, limits).await.map_err(BuildError::launch("the trial", hint))?;
        return Ok(ContainedExit { exit, isolation: IsolationReport::uncontained() });
    }
    let sources = manifest.parent().unwrap_or(manifest).to_owned();
    let paths = RunPaths {
        readable: vec![launch.program.clone(), sources],
        writable: vec![home.to_owned()],
    };
    containment.run(&launch, &paths, RunAction { what: "the trial", hint, limits }).await
}

/// Returns `true` for a variable of the system's loader or of this program, with which a secret
/// could change the trial.
fn is_loader_variable(name: &str) -> bool {
    ["LD_", "DYLD_", "SKILLHOST_"].iter().any(|prefix| name.starts_with(prefix))
}

/// Parses the report of a trial.
fn parse_report(exit: &ProcessExit) -> Result<ProbeReport, BuildError> {
    let printed = || truncate(exit.stderr.trim(), MAX_OUTPUT).trim().to_owned();
    if let Some(signal) = exit.signal() {
        let what = match signal {
            6 => "it ends its process with abort".to_owned(),
            9 => "its process was killed".to_owned(),
            11 => "it ends its process with a segmentation fault".to_owned(),
            other => format!("its process ends with signal {other}"),
        };
        return Err(BuildError::Trial { what, printed: printed() });
    }
    let stdout = String::from_utf8_lossy(&exit.stdout);
    match serde_json::from_str(&stdout) {
        Ok(TrialReport::Loaded(probed)) => Ok(probed),
        Ok(TrialReport::Rejected(ProbeError { phase, reason, hint })) => {
            Err(BuildError::Rejected { phase, reason, hint })
        }
        // Other output precedes the report or replaces it.
        Err(_) if !stdout.trim().is_empty() => Err(BuildError::Trial {
            what: "it prints to standard output, which belongs to the program; log with tracing"
                .to_owned(),
            printed: truncate(stdout.trim(), MAX_OUTPUT).trim().to_owned(),
        }),
        Err(_) => Err(BuildError::Trial {
            what: match exit.status.code() {
                Some(code) => format!("it ends its process with exit code {code}"),
                None => "its process printed no report".to_owned(),
            },
            printed: printed(),
        }),
    }
}

/// Returns the path of this executable, which runs trials.
pub(crate) fn this_program() -> PathBuf {
    // Without a known path the trial fails to start, and its error names the program.
    std::env::current_exe().unwrap_or_else(|_| PathBuf::from("skillhost"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use skillhost_home::LoadPhase;

    fn exit(status: i32, stdout: &str) -> ProcessExit {
        let status = ExitStatus::from_raw(status);
        ProcessExit { status, stdout: stdout.into(), stderr: "last words\n".to_owned() }
    }

    fn trial_error(status: i32, stdout: &str) -> String {
        let error = parse_report(&exit(status, stdout)).unwrap_err();
        format!("{error} / {}", error.hint())
    }

    #[test]
    fn trial_requires_exact_report() {
        let loaded = r#"{"loaded":{"version":"1.0.0","tools":[]}}"#;
        assert_eq!(parse_report(&exit(0, loaded)).unwrap().version, "1.0.0");
        let rejected = serde_json::to_string(&TrialReport::Rejected(ProbeError {
            phase: LoadPhase::New,
            reason: "panicked: no".into(),
            hint: "do not".into(),
        }));
        assert_eq!(
            trial_error(0, &rejected.unwrap()),
            "built, but failed to load in phase new: panicked: no / do not"
        );
        let trial = "built, but failed to load: ";
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
            assert_eq!(trial_error(status, stdout), format!("{trial}{expected}"));
        }
    }
}
