//! The isolation levels that this machine offers to tests.

use std::collections::BTreeMap;
use std::fs;
use std::sync::OnceLock;

use skillhost_policy::{IsolationLevel, SandboxPolicy};
use skillhost_sandbox::{InputMode, LaunchSpec, LevelSelection, SandboxLauncher, SandboxSpec};

use crate::binaries::profile_dir;

/// The result of a real run, or the reason why there was none.
type LevelResult = Result<(), String>;

/// Tests whether a run can reach an isolation level here. Where it cannot, prints `skipped: …`, and
/// the calling test returns.
#[must_use]
pub fn can_isolate_at(level: IsolationLevel) -> bool {
    report_skip(&format!("isolation level `{level}`"), run_at(level))
}

/// Tests whether a run can reach any isolation level here. Where it cannot, prints `skipped: …`,
/// and the calling test returns.
#[must_use]
pub fn can_isolate() -> bool {
    report_skip("isolation level", find_any_level())
}

/// Returns the line of settings that lets homes of tests work on a machine without any isolation
/// level, where the product refuses to run foreign code; empty elsewhere.
pub(crate) fn settings_without_isolation() -> &'static str {
    static LINE: OnceLock<&str> = OnceLock::new();
    LINE.get_or_init(|| {
        // Most tests run in a process of their own, and the state of a machine rarely gets worse.
        let known = profile_dir().join("isolation-is-available");
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        if fs::read_to_string(&known).is_ok_and(|noted| !boot.is_empty() && noted == boot) {
            return "";
        }
        match find_any_level() {
            Ok(()) => {
                // Without the note, the next test finds out again.
                let _ = fs::write(known, boot);
                ""
            }
            Err(reason) => {
                report_skip("isolation level, so that homes have `sandbox: off`,", Err(reason));
                "sandbox: off\n"
            }
        }
    })
}

fn find_any_level() -> LevelResult {
    // The strongest first; most machines need one run.
    run_at(IsolationLevel::Namespaces).or_else(|strong| {
        run_at(IsolationLevel::Landlock).map_err(|weak| format!("{strong}; {weak}"))
    })
}

#[expect(clippy::print_stderr, reason = "part of the report of the calling test")]
fn report_skip(lacking: &str, result: LevelResult) -> bool {
    result.inspect_err(|why| eprintln!("skipped: no {lacking} on this machine: {why}")).is_ok()
}

fn run_at(level: IsolationLevel) -> LevelResult {
    static NAMESPACES: OnceLock<LevelResult> = OnceLock::new();
    static LANDLOCK: OnceLock<LevelResult> = OnceLock::new();
    let cache = match level {
        IsolationLevel::None => return Ok(()),
        IsolationLevel::Landlock => &LANDLOCK,
        IsolationLevel::Namespaces => &NAMESPACES,
    };
    // A thread of its own, because the caller may be a task of a runtime.
    let run = || std::thread::spawn(move || try_run(level)).join().expect("a run does not panic");
    cache.get_or_init(run).clone()
}

fn try_run(level: IsolationLevel) -> LevelResult {
    let work = tempfile::tempdir().map_err(|error| error.to_string())?;
    let launch = LaunchSpec {
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), "echo here".into()],
        environment: BTreeMap::new(),
        folder: work.path().to_owned(),
    };
    let spec = SandboxSpec {
        launch,
        policy: SandboxPolicy::with_work_directory(work.path()),
        stdin: InputMode::Null,
        channel: None,
        levels: LevelSelection { levels: vec![level], landlock_abi: None },
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let exit = runtime.block_on(SandboxLauncher::default().run(spec));
    match exit.map_err(|error| error.to_string())? {
        exit if exit.stdout == b"here\n" => Ok(()),
        exit => Err(format!("a shell ended without its output: {:?}", exit.end)),
    }
}
