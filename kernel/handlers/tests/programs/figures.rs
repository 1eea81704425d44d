//! The time of the first call of a program, compared with a plain start of its runner.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use skillhost_control::RestartLimits;
use skillhost_handlers::{ProgramLanguage, ProgramSupervisor, SupervisionLimits};
use skillhost_payload::CallContext;
use skillhost_sandbox::SandboxLauncher;

use crate::fixture::{LONG, SkillFixture, context, find_interpreter};

const REPETITIONS: usize = 50;

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Starts a runner without isolation, loads a program, calls it once and ends it.
fn call_plainly(runner: &Path, program: &Path, entry: &Path) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let theirs = OwnedFd::from(theirs);
    // A shell gives the socket its number; `exec` keeps the process.
    let mut child = Command::new("/bin/sh")
        .args(["-c", "exec \"$0\" \"$1\" 3<&0 0</dev/null"])
        .args([program, runner])
        .env_clear()
        .envs([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("LANG", "C.UTF-8")])
        .stdin(Stdio::from(theirs))
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(ours.try_clone().unwrap()).lines();
    let mut ask = |message: &Value| -> Value {
        (&ours).write_all(format!("{message}\n").as_bytes()).unwrap();
        serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap()
    };
    let load = json!({ "id": 1, "method": "program/load", "params": { "entry": entry } });
    assert_eq!(ask(&load)["result"]["form"], "function");
    let skill = json!({ "name": "s", "description": "", "instructions": "", "resources": [], "dirPath": "/" });
    let params = json!({
        "arguments": { "n": 1 }, "requestId": "1", "taskId": "t", "traceId": "t", "userId": "u",
        "tools": false, "skill": skill,
    });
    let called = ask(&json!({ "id": 2, "method": "program/call", "params": params }));
    assert_eq!(called["result"]["result"], 1);
    drop((lines, ours));
    child.wait().unwrap();
}

/// Compares first calls through the launcher with plain ones in turn, and prints a line of JSON.
/// `SANDBOX_LAUNCHER` names another build of the launcher. Run alone:
/// `cargo test -p skillhost-handlers --test programs -- --ignored --nocapture first_calls`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures, and needs an idle machine"]
#[expect(clippy::print_stderr, reason = "the figure is the result")]
async fn first_calls_stay_fast() {
    let files = [("answer.mjs", "export default ({ n }) => n;")];
    let Some(mut skill) = SkillFixture::create(&files) else { return };
    if let Some(launcher) = std::env::var_os("SANDBOX_LAUNCHER") {
        skill.supervisor = ProgramSupervisor::new(
            SandboxLauncher::from_program(launcher.into()),
            SupervisionLimits::default(),
            RestartLimits::default(),
        );
    }
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().to_owned();
    let writing =
        tokio::task::spawn_blocking(move || ProgramLanguage::JavaScript.write_runner(&directory));
    let runner = writing.await.unwrap().unwrap();
    let program = find_interpreter(ProgramLanguage::JavaScript).unwrap();
    let entry = skill.root().join("answer.mjs");
    let (mut plain, mut isolated, mut level) = (Vec::new(), Vec::new(), String::new());
    for number in 0..=REPETITIONS {
        let start = Instant::now();
        tokio::task::block_in_place(|| call_plainly(&runner, &program, &entry));
        let plainly = start.elapsed();
        let thread = CallContext { session_id: format!("t{number}"), ..context() };
        let start = Instant::now();
        let report = skill.call_in(thread, "answer.mjs", r#"{"n": 1}"#, LONG).await.unwrap();
        let isolatedly = start.elapsed();
        level = report.isolation.level.to_string();
        // The first pair fills the caches.
        if number > 0 {
            plain.push(plainly.as_secs_f64() * 1000.0);
            isolated.push(isolatedly.as_secs_f64() * 1000.0);
        }
    }
    let (plain, isolated) = (median(plain), median(isolated));
    let figure = json!({
        "what": format!("first call of a program at {level} ÷ plain"), "limit": 2.0,
        "ratio": isolated / plain, "plain_ms": plain, "isolated_ms": isolated,
    });
    eprintln!("{figure}");
    assert!(isolated / plain <= 2.0, "{figure}");
}
