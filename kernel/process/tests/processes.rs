//! Real processes, started and watched as the kernel has it done.
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails its test")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use skillhost_kernel::{
    ApprovalPolicy, CallContext, CallError, ErrorKind, ProcessExtension, ProcessLauncher as _,
    ProcessSpec,
};
use skillhost_manifest::ExtensionId;
use skillhost_process::ProcessSupervisor;

/// Nothing is meant to come near it, however slow the machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct Rig {
    folder: tempfile::TempDir,
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("data")).unwrap();
        Self { folder }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn plan(&self, mode: &str) -> ProcessSpec {
        let environment = [
            ("PATH", std::env::var("PATH").unwrap_or_default()),
            ("SKILLHOST_DATA_DIR", self.data().display().to_string()),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value));
        ProcessSpec {
            id: ExtensionId::new("sample").unwrap(),
            program: test_support::example_program("misbehave_process"),
            arguments: vec![mode.to_owned()],
            folder: self.folder.path().to_owned(),
            note: self.folder.path().join("pid"),
            environment: BTreeMap::from(environment),
            handshake: PATIENCE,
            grace: Duration::from_millis(200),
            stop: PATIENCE,
            memory: 256 * 1024 * 1024,
        }
    }

    async fn start(&self) -> Arc<dyn ProcessExtension> {
        start(self.plan("good")).await.unwrap()
    }
}

async fn start(plan: ProcessSpec) -> Result<Arc<dyn ProcessExtension>, CallError> {
    ProcessSupervisor::with_delay(Duration::from_millis(10)).start(plan).await
}

async fn call(
    process: &Arc<dyn ProcessExtension>,
    tool: &str,
    text: &str,
) -> Result<String, CallError> {
    let arguments = json!({ "text": text }).to_string();
    process.invoke(&CallContext::default(), tool, &arguments).await.map(|output| output.text)
}

async fn whoami(process: &Arc<dyn ProcessExtension>) -> Result<Value, CallError> {
    call(process, "whoami", "").await.map(|text| serde_json::from_str(&text).unwrap())
}

/// Asks again and again until there is an answer.
async fn until<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.expect("it never happened")
}

/// The number of the process, as soon as there is one.
async fn back(process: &Arc<dyn ProcessExtension>) -> u64 {
    until(async || whoami(process).await.ok()?["pid"].as_u64()).await
}

fn is_alive(pid: &str) -> bool {
    let status = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
    // A zombie only waits for its parent to look.
    status.is_ok_and(|text| !text.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_has_the_tools_it_lists_and_answers_calls() {
    let rig = Rig::new();
    let process = rig.start().await;
    assert_eq!(process.version(), "3.1");
    let tools = process.tools().await.unwrap();
    assert_eq!(tools.len(), 12, "both pages: {tools:?}");
    let asks: Vec<_> =
        tools.iter().take(3).map(|t| (&*t.name, t.needs_approval, t.read_only)).collect();
    let expected = [
        ("echo", ApprovalPolicy::Never, true),
        ("shout", ApprovalPolicy::Always, false),
        ("fail", ApprovalPolicy::UnlessGranted, false),
    ];
    assert_eq!(asks, expected);
    assert_eq!(call(&process, "echo", "ä\n\"b\"").await.unwrap(), "ä\n\"b\"");
    let failed = process.invoke(&CallContext::default(), "fail", "{}").await.unwrap();
    assert_eq!((failed.text.as_str(), failed.is_error), ("there is nothing to do", true));
    let refused = call(&process, "refuse", "").await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::InvalidArgument);
    assert_eq!(refused.message, "`text` is missing");
    let seen = whoami(&process).await.unwrap();
    let names: Vec<_> = seen["environment"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["PATH", "SKILLHOST_DATA_DIR"], "and nothing of the kernel's own");
    let folder = std::fs::canonicalize(rig.folder.path()).unwrap();
    assert_eq!(seen["folder"].as_str(), folder.to_str());
    let answers = futures(&process, 20).await;
    assert_eq!(answers, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
    process.health().await.unwrap();
    process.stop().await;
    assert_eq!(std::fs::read_to_string(rig.data().join("ended")).unwrap(), "in order");
    let gone = call(&process, "echo", "x").await.unwrap_err();
    assert_eq!((gone.kind, gone.message.as_str()), (ErrorKind::Unavailable, "`sample` has ended"));
}

/// Many calls at once.
async fn futures(process: &Arc<dyn ProcessExtension>, count: usize) -> Vec<String> {
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..count {
        let process = Arc::clone(process);
        calls.spawn(async move { (n, call(&process, "echo", &n.to_string()).await.unwrap()) });
    }
    let mut answers = calls.join_all().await;
    answers.sort();
    answers.into_iter().map(|(_, text)| text).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_start_says_why_and_leaves_nothing_behind() {
    let cases = [
        (
            "panic",
            ErrorKind::Failed,
            "ended with exit code 101 before it answered the handshake\nlast on its standard error:",
        ),
        (
            "garbage",
            ErrorKind::Protocol,
            "wrote what is no message of the protocol as line 1 of its standard output: \
             `Starting up, please wait\\u{1b}[2J`",
        ),
        ("refusing", ErrorKind::Failed, "refuses `initialize`: not today"),
        (
            "crowded",
            ErrorKind::TooLarge,
            "has more than 128 tools, or lists them on more than 16 pages",
        ),
    ];
    for (mode, kind, message) in cases {
        let rig = Rig::new();
        let Err(error) = start(rig.plan(mode)).await else { panic!("{mode} starts") };
        assert_eq!(error.kind, kind, "{mode}: {error:?}");
        assert!(error.message.starts_with(message), "{mode}: {}", error.message);
        let pid = std::fs::read_to_string(rig.data().join("started"));
        assert!(!pid.is_ok_and(|pid| is_alive(&pid)), "{mode} still runs");
    }
    let rig = Rig::new();
    let plan = ProcessSpec { handshake: Duration::from_millis(300), ..rig.plan("silent") };
    let Err(error) = start(plan).await else { panic!("it starts") };
    assert_eq!(error.kind, ErrorKind::Timeout);
    assert_eq!(error.message, "did not answer `initialize` and `tools/list` within 300 ms");
    let plan = ProcessSpec { program: rig.data(), ..rig.plan("good") };
    let Err(error) = start(plan).await else { panic!("it starts") };
    assert_eq!(error.kind, ErrorKind::Io);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_crashes_is_started_again() {
    let rig = Rig::new();
    let process = rig.start().await;
    let first = back(&process).await;
    let error = call(&process, "crash", "").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert_eq!(
        error.message,
        "the process ended with exit code 7\nlast on its standard error:\nabout to end\n\
         TypeError: it was made to fail"
    );
    assert_ne!(back(&process).await, first);
    assert_eq!(call(&process, "echo", "again").await.unwrap(), "again");
    process.health().await.unwrap();
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_keeps_crashing_is_given_up() {
    let rig = Rig::new();
    let process = rig.start().await;
    for _ in 0..5 {
        back(&process).await;
        call(&process, "crash", "").await.unwrap_err();
    }
    let error = until(async || {
        process.health().await.err().filter(|error| error.message.contains("crashed"))
    })
    .await;
    assert_eq!(
        error.message.lines().next(),
        Some(
            "the process of `sample` crashed 5 times in a short while and is not started again; \
             the last time it ended with exit code 7"
        )
    );
    assert_eq!(call(&process, "echo", "x").await.unwrap_err(), error);
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_fails_counts_as_a_crash() {
    let rig = Rig::new();
    let process = start(rig.plan("once")).await.unwrap();
    call(&process, "crash", "").await.unwrap_err();
    let error = until(async || {
        process.health().await.err().filter(|error| error.message.contains("crashed 5 times"))
    })
    .await;
    assert!(error.message.ends_with("the second start fails"), "{}", error.message);
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_between_messages_ends_the_process_and_names_the_line() {
    let rig = Rig::new();
    let process = rig.start().await;
    let first = back(&process).await;
    let error = call(&process, "garbage", "").await.unwrap_err();
    assert_eq!(
        error.message,
        "the process wrote what is no message of the protocol as line 5 of its standard output: \
         `debug: here I am`"
    );
    let second = back(&process).await;
    assert_ne!(second, first);
    let error = call(&process, "huge", "").await.unwrap_err();
    let expected = "wrote more than 4 MiB as line 5 of its standard output: `xxx";
    assert!(error.message.contains(expected), "{}", error.message);
    assert_ne!(back(&process).await, second);
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_answer_fails_its_call_alone() {
    let rig = Rig::new();
    let process = rig.start().await;
    let first = back(&process).await;
    let error = call(&process, "echo", &"x".repeat(5 * 1024 * 1024)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooLarge);
    assert!(error.message.starts_with("its answer has 5242"), "{}", error.message);
    assert_eq!(error.hint, "ask for less at once");
    assert_eq!(back(&process).await, first, "the process goes on");
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_hangs_after_a_call_was_given_up_is_killed() {
    let rig = Rig::new();
    let process = rig.start().await;
    let first = back(&process).await;
    let limit = Duration::from_millis(100);
    tokio::time::timeout(limit, call(&process, "hang", "")).await.unwrap_err();
    // Behind the one that hangs, and with a better fate than that: it is told.
    let error = call(&process, "echo", "x").await.unwrap_err();
    assert!(
        error.message.contains("answered nothing for 200 ms after a call was given up"),
        "{}",
        error.message
    );
    assert_ne!(back(&process).await, first);
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_given_up_is_cancelled_and_costs_no_process_that_answers() {
    let rig = Rig::new();
    let process = rig.start().await;
    let first = back(&process).await;
    let limit = Duration::from_millis(100);
    tokio::time::timeout(limit, call(&process, "wait", "")).await.unwrap_err();
    until(async || rig.data().join("cancelled").exists().then_some(())).await;
    // Longer than the grace; it answers everything meanwhile.
    let later = tokio::time::Instant::now() + Duration::from_millis(500);
    while tokio::time::Instant::now() < later {
        assert_eq!(back(&process).await, first);
    }
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_end_by_itself_is_killed_with_all_it_has_started() {
    let rig = Rig::new();
    let plan = rig.plan("deaf");
    // It ignores the end of its input, and the shell has it ignore SIGTERM.
    let script = format!("trap '' TERM; exec '{}' deaf", plan.program.display());
    let plan = ProcessSpec {
        program: PathBuf::from("/bin/sh"),
        arguments: vec!["-c".to_owned(), script],
        stop: Duration::from_millis(500),
        ..plan
    };
    let process = start(plan).await.unwrap();
    let pid = back(&process).await.to_string();
    let grandchild = call(&process, "spawn", "").await.unwrap();
    assert!(is_alive(&pid) && is_alive(&grandchild));
    process.stop().await;
    assert!(!is_alive(&pid));
    until(async || (!is_alive(&grandchild)).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_takes_with_it_what_the_process_has_started() {
    let rig = Rig::new();
    let process = rig.start().await;
    let grandchild = call(&process, "spawn", "").await.unwrap();
    assert!(is_alive(&grandchild));
    call(&process, "crash", "").await.unwrap_err();
    until(async || (!is_alive(&grandchild)).then_some(())).await;
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_that_is_dropped_ends_its_process() {
    let rig = Rig::new();
    let process = rig.start().await;
    let pid = back(&process).await.to_string();
    drop(process);
    until(async || (!is_alive(&pid)).then_some(())).await;
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn memory_is_limited() {
    let rig = Rig::new();
    let process = rig.start().await;
    assert_eq!(call(&process, "hoard", "64").await.unwrap(), (64 * 1024 * 1024).to_string());
    let error = call(&process, "hoard", "512").await.unwrap_err();
    assert!(error.message.contains("memory allocation of 536870912 bytes failed"), "{error:?}");
    back(&process).await;
    process.stop().await;
}
