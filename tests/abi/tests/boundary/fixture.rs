//! Shared parts of the tests: a kernel on a private home, the gate, the log.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use skillhost_core::{KernelError, KernelLimits};
use skillhost_home::{Home, HomeSource, Settings};
use skillhost_kernel::{BootOptions, Kernel};
use skillhost_payload::{CallContext, CallOrigin, ErrorKind, Event};
use test_support::{STUCK_AFTER, TestHome, example_library};
use tokio::io::AsyncBufReadExt as _;
use tokio::io::{AsyncReadExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::broadcast::Receiver;

/// The limit of endless operations: long enough for other operations on a slow machine, short
/// enough for a test.
pub(crate) const SOON: Duration = Duration::from_secs(2);

/// A home under test and the kernel that runs on it.
pub(crate) struct KernelFixture {
    pub(crate) kernel: Kernel,
    pub(crate) home: TestHome,
}

/// Writes an extension of the library `misbehave` with the rest of its manifest.
pub(crate) fn misbehaving(home: TestHome, id: &str, rest: &str) -> TestHome {
    home.manifest(id, &format!("id: {id}\nname: {id}\nentrypoint: misbehave\n{rest}\n")).library(
        id,
        "misbehave",
        &example_library("misbehave"),
    )
}

/// A home with one extension of the library `misbehave`.
pub(crate) fn home_with(id: &str, rest: &str) -> TestHome {
    misbehaving(TestHome::new(), id, rest)
}

impl KernelFixture {
    /// Boots with services and limits that no test reaches by being slow.
    pub(crate) async fn boot(home: TestHome) -> Self {
        Self::boot_with(home, patient(), true).await
    }

    /// As [`KernelFixture::boot`], with a supervisor.
    pub(crate) async fn boot_supervised(home: TestHome) -> Self {
        Self::boot_as(home, patient(), true, true).await
    }

    pub(crate) async fn boot_with(home: TestHome, limits: KernelLimits, services: bool) -> Self {
        Self::boot_as(home, limits, services, false).await
    }

    async fn boot_as(
        home: TestHome,
        limits: KernelLimits,
        services: bool,
        supervised: bool,
    ) -> Self {
        let settings = Settings::load(&home.path("skillhost.yaml")).expect("valid settings");
        let found = Home::open(&home.root(), HomeSource::Argument).expect("a home");
        let options = BootOptions::new(found, settings.settings);
        let options = BootOptions { installation: None, limits, supervised, ..options };
        let kernel = Kernel::boot(options).await;
        if services {
            kernel.start_services().await;
        }
        Self { kernel, home }
    }

    /// Returns the ids of loaded extensions, in load order.
    pub(crate) fn loaded(&self) -> Vec<String> {
        self.kernel.report().loaded.iter().map(|loaded| loaded.id.to_string()).collect()
    }

    /// Returns the report's entry of a rejected extension: `phase: reason` and the hint.
    pub(crate) fn rejection(&self, id: &str) -> String {
        let report = self.kernel.report();
        let found = report.rejected.iter().find(|rejection| rejection.id == id);
        let found = found.unwrap_or_else(|| panic!("`{id}` is not rejected: {report:?}"));
        let text = format!("{}: {}\nhint: {}", found.phase, found.reason, found.hint);
        self.home.redact(&text)
    }

    /// Makes an extension's tool perform an action of `misbehave`.
    pub(crate) async fn tool(&self, id: &str, deed: Value) -> Result<String, KernelError> {
        self.kernel
            .agents()
            .invoke_tool(operator(), id, &deed.to_string())
            .await
            .map(|output| output.text)
    }

    /// As [`KernelFixture::tool`] for an action that must succeed.
    pub(crate) async fn done(&self, id: &str, deed: Value) -> String {
        self.tool(id, deed).await.unwrap_or_else(|error| panic!("{id} failed: {error:?}"))
    }

    /// As [`KernelFixture::tool`] for an action that must fail: kind and message.
    pub(crate) async fn fault(&self, id: &str, deed: Value) -> (ErrorKind, String) {
        match self.tool(id, deed).await {
            Ok(text) => panic!("{id} succeeded: {text}"),
            Err(error) => (error.kind(), error.to_string()),
        }
    }

    /// Returns the name of an extension's build.
    pub(crate) async fn build(&self, id: &str) -> String {
        self.done(id, json!({"do": "build"})).await
    }

    /// Returns the steps of every extension so far, in order.
    pub(crate) fn record(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.home.path("record")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// Limits that no working operation reaches.
pub(crate) fn patient() -> KernelLimits {
    let minute = Duration::from_secs(60);
    KernelLimits {
        start: minute,
        context: minute,
        tool: minute,
        approval: minute,
        turns: 100,
        health: minute,
        drain: minute,
        rest: minute,
        control: minute,
        event: minute,
        event_agent: minute,
        event_retries: vec![Duration::from_millis(1); 3],
        stop: minute,
    }
}

pub(crate) fn operator() -> CallContext {
    CallContext { origin: CallOrigin::Operator, ..CallContext::default() }
}

/// Waits for a quick operation: a broken one fails the test instead of hanging.
async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(STUCK_AFTER, what).await.expect("what the test waits for happens")
}

/// Waits for the next event of a topic.
pub(crate) async fn next(events: &mut Receiver<Arc<Event>>, topic: &str) -> Arc<Event> {
    loop {
        let event = within(events.recv()).await.expect("the kernel runs and the reader keeps up");
        if event.topic == topic {
            return event;
        }
    }
}

/// The socket where a misbehaving extension reports its state.
pub(crate) struct Gate(UnixListener);

impl Gate {
    pub(crate) fn open(home: &TestHome) -> Self {
        Self(UnixListener::bind(home.path("gate")).expect("a new socket"))
    }

    /// Waits until an extension is at `place`, such as `a context`.
    pub(crate) async fn reached(&self, place: &str) -> Held {
        let (stream, _) = within(self.0.accept()).await.expect("the socket listens");
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        within(stream.read_line(&mut line)).await.expect("the extension writes a line");
        assert_eq!(line.trim_end(), place);
        Held(stream)
    }
}

/// A held extension; dropping this releases it.
pub(crate) struct Held(BufReader<UnixStream>);

impl Held {
    /// Waits until the extension has dropped its operation.
    pub(crate) async fn given_up(mut self) {
        let end = within(self.0.read(&mut [0])).await;
        assert_eq!(end.expect("the extension closes its end"), 0);
    }
}
