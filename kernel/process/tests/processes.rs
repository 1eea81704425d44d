//! Tests with real processes, started and supervised as by the kernel.
#![expect(clippy::unwrap_used, reason = "a failed setup fails its test")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use skillhost_manifest::ExtensionId;
use skillhost_payload::{ApprovalPolicy, CallContext, CallError, ErrorKind};
use skillhost_policy::{ResourceLimits, SandboxPolicy};
use skillhost_process::{ProcessSpec, ProcessSupervisor, SupervisedProcess};
use skillhost_sandbox::ChildContainment;

/// A timeout that no step reaches, even on a slow machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A temporary directory for one process extension.
struct TestHome {
    folder: tempfile::TempDir,
}

impl TestHome {
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
            // The directory identifies the process in the list of all processes.
            arguments: vec![mode.to_owned(), self.folder.path().display().to_string()],
            folder: self.folder.path().to_owned(),
            environment: BTreeMap::from(environment),
            handshake: TIMEOUT,
            grace: Duration::from_millis(200),
            stop: TIMEOUT,
            containment: self.containment(),
        }
    }

    fn has_process(&self) -> bool {
        runs_with(&self.folder.path().display().to_string())
    }

    /// Returns a policy, or none where the machine has no isolation level.
    fn containment(&self) -> ChildContainment {
        if !test_support::can_isolate() {
            let note = self.folder.path().join("pid");
            return ChildContainment::Plain { note, memory: 256 << 20 };
        }
        let base = std::fs::canonicalize(self.folder.path()).unwrap();
        let mut policy = SandboxPolicy::with_work_directory(&base.join("data"));
        policy.filesystem.allow_read =
            vec![base, std::fs::canonicalize(test_support::profile_dir()).unwrap()];
        policy.limits = ResourceLimits {
            seconds: None,
            output_kib: None,
            memory_mib: 256,
            ..ResourceLimits::default()
        };
        ChildContainment::Sandboxed(Box::new(policy))
    }

    async fn start(&self) -> Arc<SupervisedProcess> {
        start(self.plan("good")).await.unwrap()
    }
}

async fn start(plan: ProcessSpec) -> Result<Arc<SupervisedProcess>, CallError> {
    ProcessSupervisor::with_delay(Duration::from_millis(10)).start(plan).await.map(Arc::new)
}

async fn call(
    process: &Arc<SupervisedProcess>,
    tool: &str,
    text: &str,
) -> Result<String, CallError> {
    let arguments = json!({ "text": text }).to_string();
    process.invoke(&CallContext::default(), tool, &arguments).await.map(|output| output.text)
}

async fn whoami(process: &Arc<SupervisedProcess>) -> Result<Value, CallError> {
    call(process, "whoami", "").await.map(|text| serde_json::from_str(&text).unwrap())
}

/// Repeats a query until it returns a value.
async fn poll_until<T>(mut query: impl AsyncFnMut() -> Option<T>) -> T {
    let polling = async {
        loop {
            if let Some(value) = query().await {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, polling).await.expect("the query timed out")
}

/// Waits for a running process and returns what distinguishes it from others.
async fn running_instance(process: &Arc<SupervisedProcess>) -> String {
    let instance =
        async || Some(whoami(process).await.ok()?["instance"].as_str().unwrap().to_owned());
    poll_until(instance).await
}

/// Tests whether a process with this argument runs. The ids in a namespace are others than here.
fn runs_with(argument: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    // A zombie has no arguments, and another process may end in between.
    let mut arguments =
        processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    arguments.any(|all| all.split(|byte| *byte == 0).any(|one| one == argument.as_bytes()))
}

#[tokio::test(flavor = "multi_thread")]
async fn process_lists_tools_and_answers() {
    let home = TestHome::new();
    let process = home.start().await;
    assert_eq!(process.version(), "3.1");
    let tools = process.tools();
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
    let rejected = call(&process, "refuse", "").await.unwrap_err();
    assert_eq!(rejected.kind, ErrorKind::InvalidArgument);
    assert_eq!(rejected.message, "`text` is missing");
    let seen = whoami(&process).await.unwrap();
    let names: Vec<_> = seen["environment"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["PATH", "SKILLHOST_DATA_DIR"], "without the kernel's own variables");
    let folder = std::fs::canonicalize(home.folder.path()).unwrap();
    assert_eq!(seen["folder"].as_str(), folder.to_str());
    let answers = call_concurrently(&process, 20).await;
    assert_eq!(answers, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
    process.health().await.unwrap();
    process.stop().await;
    assert_eq!(std::fs::read_to_string(home.data().join("ended")).unwrap(), "in order");
    let gone = call(&process, "echo", "x").await.unwrap_err();
    assert_eq!(
        (gone.kind, gone.message.as_str()),
        (ErrorKind::Unavailable, "`sample` has stopped")
    );
}

/// Makes many calls at once and returns their results.
async fn call_concurrently(process: &Arc<SupervisedProcess>, count: usize) -> Vec<String> {
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
async fn failed_start_reports_cause() {
    let cases = [
        (
            "panic",
            ErrorKind::Failed,
            "ended with exit code 101 before it answered the handshake\nlast lines of standard error:",
        ),
        (
            "garbage",
            ErrorKind::Protocol,
            "wrote an invalid protocol message as line 1 of its standard output: \
             `Starting up, please wait\\u{1b}[2J`",
        ),
        ("refusing", ErrorKind::Failed, "rejected `initialize`: not today"),
        (
            "crowded",
            ErrorKind::TooLarge,
            "has more than 128 tools, or lists them on more than 16 pages",
        ),
    ];
    for (mode, kind, message) in cases {
        let home = TestHome::new();
        let Err(error) = start(home.plan(mode)).await else { panic!("{mode} starts") };
        assert_eq!(error.kind, kind, "{mode}: {error:?}");
        assert!(error.message.starts_with(message), "{mode}: {}", error.message);
        assert!(!home.has_process(), "{mode} still runs");
    }
    let home = TestHome::new();
    let plan = ProcessSpec { handshake: Duration::from_millis(300), ..home.plan("silent") };
    let Err(error) = start(plan).await else { panic!("it starts") };
    assert_eq!(error.kind, ErrorKind::Timeout);
    assert_eq!(error.message, "`initialize` and `tools/list` timed out after 300 ms");
    let plan = ProcessSpec { program: home.data(), ..home.plan("good") };
    let Err(error) = start(plan).await else { panic!("it starts") };
    assert_eq!(error.kind, ErrorKind::Io);
}

#[tokio::test(flavor = "multi_thread")]
async fn crashed_process_is_restarted() {
    let home = TestHome::new();
    let process = home.start().await;
    let first = running_instance(&process).await;
    let error = call(&process, "crash", "").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert_eq!(
        error.message,
        "the process ended with exit code 7\nlast lines of standard error:\nabout to end\n\
         TypeError: it was made to fail"
    );
    assert_ne!(running_instance(&process).await, first);
    assert_eq!(call(&process, "echo", "again").await.unwrap(), "again");
    process.health().await.unwrap();
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_crashes_reach_restart_limit() {
    let home = TestHome::new();
    let process = home.start().await;
    for _ in 0..5 {
        running_instance(&process).await;
        call(&process, "crash", "").await.unwrap_err();
    }
    let error = poll_until(async || {
        process.health().await.err().filter(|error| error.message.contains("crashed"))
    })
    .await;
    assert_eq!(
        error.message.lines().next(),
        Some(
            "the process of `sample` crashed 5 times and reached the restart limit; the last time \
             it ended with exit code 7"
        )
    );
    assert_eq!(call(&process, "echo", "x").await.unwrap_err(), error);
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_restart_counts_as_crash() {
    let home = TestHome::new();
    let process = start(home.plan("once")).await.unwrap();
    call(&process, "crash", "").await.unwrap_err();
    let error = poll_until(async || {
        process.health().await.err().filter(|error| error.message.contains("crashed 5 times"))
    })
    .await;
    assert!(error.message.ends_with("the second start fails"), "{}", error.message);
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_output_names_the_line() {
    let home = TestHome::new();
    let process = home.start().await;
    let first = running_instance(&process).await;
    let error = call(&process, "garbage", "").await.unwrap_err();
    assert_eq!(
        error.message,
        "the process wrote an invalid protocol message as line 5 of its standard output: \
         `debug: here I am`"
    );
    let second = running_instance(&process).await;
    assert_ne!(second, first);
    let error = call(&process, "huge", "").await.unwrap_err();
    let expected = "wrote more than 4 MiB as line 5 of its standard output: `xxx";
    assert!(error.message.contains(expected), "{}", error.message);
    assert_ne!(running_instance(&process).await, second);
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_response_fails_only_its_call() {
    let home = TestHome::new();
    let process = home.start().await;
    let first = running_instance(&process).await;
    let error = call(&process, "echo", &"x".repeat(5 * 1024 * 1024)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooLarge);
    assert!(error.message.starts_with("response has 5242"), "{}", error.message);
    assert_eq!(error.hint, "request less data at once");
    assert_eq!(running_instance(&process).await, first, "the process still runs");
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_process_is_killed() {
    let home = TestHome::new();
    let process = home.start().await;
    let first = running_instance(&process).await;
    let limit = Duration::from_millis(100);
    tokio::time::timeout(limit, call(&process, "hang", "")).await.unwrap_err();
    // This call waits for the hanging one and fails with the reason of the kill.
    let error = call(&process, "echo", "x").await.unwrap_err();
    assert!(
        error.message.contains("did not respond for 200 ms after a cancelled call"),
        "{}",
        error.message
    );
    assert_ne!(running_instance(&process).await, first);
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_call_spares_responsive_process() {
    let home = TestHome::new();
    let process = home.start().await;
    let first = running_instance(&process).await;
    let limit = Duration::from_millis(100);
    tokio::time::timeout(limit, call(&process, "wait", "")).await.unwrap_err();
    poll_until(async || home.data().join("cancelled").exists().then_some(())).await;
    // Longer than the grace period, during which the process responds to every call.
    let later = tokio::time::Instant::now() + Duration::from_millis(500);
    while tokio::time::Instant::now() < later {
        assert_eq!(running_instance(&process).await, first);
    }
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_kills_process_group() {
    let home = TestHome::new();
    let plan = home.plan("deaf");
    // The program ignores the end of its input, and the shell makes it ignore SIGTERM.
    let program = plan.program.display();
    let script = format!("trap '' TERM; exec '{program}' deaf '{}'", home.folder.path().display());
    let plan = ProcessSpec {
        program: PathBuf::from("/bin/sh"),
        arguments: vec!["-c".to_owned(), script],
        stop: Duration::from_millis(500),
        ..plan
    };
    let process = start(plan).await.unwrap();
    running_instance(&process).await;
    call(&process, "spawn", "31557601").await.unwrap();
    assert!(home.has_process());
    poll_until(async || runs_with("31557601").then_some(())).await;
    process.stop().await;
    assert!(!home.has_process());
    poll_until(async || (!runs_with("31557601")).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn crash_kills_process_group() {
    let home = TestHome::new();
    let process = home.start().await;
    call(&process, "spawn", "31557602").await.unwrap();
    poll_until(async || runs_with("31557602").then_some(())).await;
    call(&process, "crash", "").await.unwrap_err();
    poll_until(async || (!runs_with("31557602")).then_some(())).await;
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_extension_stops_process() {
    let home = TestHome::new();
    let process = home.start().await;
    running_instance(&process).await;
    assert!(home.has_process());
    drop(process);
    poll_until(async || (!home.has_process()).then_some(())).await;
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn memory_is_limited() {
    let home = TestHome::new();
    let process = home.start().await;
    assert_eq!(call(&process, "hoard", "64").await.unwrap(), (64 * 1024 * 1024).to_string());
    let error = call(&process, "hoard", "512").await.unwrap_err();
    assert!(error.message.contains("memory allocation of 536870912 bytes failed"), "{error:?}");
    running_instance(&process).await;
    process.stop().await;
}
