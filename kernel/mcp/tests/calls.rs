//! Tests of long tool calls: progress, cancellation, the request limit and disconnecting clients.
#![expect(clippy::unwrap_used, reason = "a test without a connection to its server has failed")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use skillhost_mcp::{
    Backend, BackendError, ChangeCounter, ClientLimits, ClientSession, McpServer, PromptArguments,
    serve_streams,
};
use skillhost_payload::{
    PublishedBody, PublishedDetails, PublishedEntry, PublishedSkills, ToolOutput, ToolSpec,
};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The timeout of every step of a test.
const DEADLINE: Duration = Duration::from_secs(60);

/// A step of a tool call.
#[derive(Debug, PartialEq)]
enum Step {
    Started,
    Dropped,
}

/// A backend with a quick tool, a slow tool and one that never ends.
struct SlowBackend(UnboundedSender<Step>, watch::Sender<ChangeCounter>);

/// A guard that reports the drop of a tool call's future.
struct DropReporter<'a>(&'a SlowBackend);

impl Drop for DropReporter<'_> {
    fn drop(&mut self) {
        // The receiver is closed after the end of the test.
        let _ = self.0.0.send(Step::Dropped);
    }
}

#[async_trait]
impl Backend for SlowBackend {
    fn instructions(&self) -> String {
        String::new()
    }

    async fn tools(&self, _: &ClientSession) -> Result<Vec<ToolSpec>, BackendError> {
        Ok(Vec::new())
    }

    async fn call(
        &self,
        _: &ClientSession,
        name: &str,
        _: &Map<String, Value>,
    ) -> Result<Option<ToolOutput>, BackendError> {
        if name == "quick" {
            let text = "done".to_owned();
            return Ok(Some(ToolOutput { text, ..ToolOutput::default() }));
        }
        self.0.send(Step::Started).unwrap();
        if name == "slow" {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let text = "done at last".to_owned();
            return Ok(Some(ToolOutput { text, ..ToolOutput::default() }));
        }
        let _watched = DropReporter(self);
        std::future::pending().await
    }

    async fn generation(&self, _: &ClientSession) -> Result<(u64, u64), BackendError> {
        Ok((0, 0))
    }

    async fn skills(&self, _: &ClientSession) -> Result<PublishedSkills, BackendError> {
        Ok(PublishedSkills::default())
    }

    async fn details(
        &self,
        _: &ClientSession,
        _: &[&str],
    ) -> Result<Vec<PublishedDetails>, BackendError> {
        // A kernel without a skill provider returns an error, too.
        Err(BackendError::not_found("skill provider not found"))
    }

    async fn read(&self, _: &ClientSession, uri: &str) -> Result<PublishedBody, BackendError> {
        Err(BackendError::not_found(uri))
    }

    async fn directory(
        &self,
        _: &ClientSession,
        uri: &str,
    ) -> Result<Vec<PublishedEntry>, BackendError> {
        Err(BackendError::not_found(uri))
    }

    async fn prompt(
        &self,
        _: &ClientSession,
        skill_id: &str,
        _: PromptArguments,
    ) -> Result<String, BackendError> {
        Err(BackendError::not_found(skill_id))
    }

    fn changes(&self) -> watch::Receiver<ChangeCounter> {
        self.1.subscribe()
    }
}

/// A client with its server.
struct TestClient {
    read: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: WriteHalf<DuplexStream>,
    steps: UnboundedReceiver<Step>,
    server: JoinHandle<()>,
    backend: Arc<SlowBackend>,
}

impl TestClient {
    async fn start(limits: ClientLimits) -> Self {
        let mut client = Self::introduced(limits).await;
        client.initialized().await;
        client
    }

    /// Connects like [`TestClient::start`], without the `initialized` notification.
    async fn introduced(limits: ClientLimits) -> Self {
        let (sender, steps) = unbounded_channel();
        let backend = Arc::new(SlowBackend(sender, watch::channel(ChangeCounter::default()).0));
        let server = McpServer::new(Arc::clone(&backend) as _, limits, "0");
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let server = tokio::spawn(async move {
            let (read, write) = tokio::io::split(theirs);
            serve_streams(&server, read, write, CancellationToken::new()).await.unwrap();
        });
        let (read, write) = tokio::io::split(ours);
        let mut client = Self { read: BufReader::new(read).lines(), write, steps, server, backend };
        client
            .ask(
                0,
                "initialize",
                json!({
                    "protocolVersion": "2025-11-25", "capabilities": {},
                    "clientInfo": { "name": "test", "version": "1" },
                }),
            )
            .await;
        assert_eq!(client.receive().await["id"], 0);
        client
    }

    async fn initialized(&mut self) {
        self.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    }

    async fn send(&mut self, message: Value) {
        self.write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn ask(&mut self, id: u64, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(message).await;
    }

    async fn call(&mut self, id: u64, tool: &str) {
        self.ask(id, "tools/call", json!({ "name": tool, "arguments": {} })).await;
    }

    async fn cancel(&mut self, id: u64) {
        let params = json!({ "requestId": id, "reason": "no more" });
        let method = "notifications/cancelled";
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    /// Returns the next message of the server.
    async fn receive(&mut self) -> Value {
        let line = tokio::time::timeout(DEADLINE, self.read.next_line()).await;
        serde_json::from_str(&line.unwrap().unwrap().unwrap()).unwrap()
    }

    /// Returns the next step of a tool call.
    async fn step(&mut self) -> Step {
        tokio::time::timeout(DEADLINE, self.steps.recv()).await.unwrap().unwrap()
    }
}

fn one_at_a_time() -> ClientLimits {
    let progress = Duration::from_millis(5);
    ClientLimits { running: 1, waiting: 1, progress, ..ClientLimits::default() }
}

#[tokio::test]
async fn long_call_reports_progress() {
    let mut client = TestClient::start(one_at_a_time()).await;
    let meta = json!({ "progressToken": "p-1" });
    let call = json!({ "name": "hang", "arguments": {}, "_meta": meta });
    client.ask(1, "tools/call", call).await;
    assert_eq!(client.step().await, Step::Started);
    let mut last = 0.0;
    for _ in 0..3 {
        let message = client.receive().await;
        assert_eq!(message["method"], "notifications/progress", "{message}");
        assert_eq!(message["params"]["progressToken"], "p-1");
        let progress = message["params"]["progress"].as_f64().unwrap();
        assert!(progress > last, "{message}");
        last = progress;
    }
    client.cancel(1).await;
    assert_eq!(client.step().await, Step::Dropped);
    // The place is free and the cancelled call gets no response: any message before the next
    // response is a progress report that was already sent.
    client.call(2, "quick").await;
    loop {
        let message = client.receive().await;
        if message["method"] != "notifications/progress" {
            assert_eq!((&message["id"], &message["result"]["isError"]), (&json!(2), &json!(false)));
            break;
        }
    }
}

#[tokio::test]
async fn progress_requires_token() {
    let mut client = TestClient::start(one_at_a_time()).await;
    client.call(1, "hang").await;
    assert_eq!(client.step().await, Step::Started);
    tokio::time::sleep(Duration::from_millis(30)).await;
    client.cancel(1).await;
    assert_eq!(client.step().await, Step::Dropped);
    client.call(2, "quick").await;
    assert_eq!(client.receive().await["id"], 2);
}

#[tokio::test]
async fn excess_calls_are_rejected() {
    let mut client = TestClient::start(one_at_a_time()).await;
    client.call(1, "hang").await;
    assert_eq!(client.step().await, Step::Started);
    // One of these waits, the other exceeds the limit.
    client.call(2, "quick").await;
    client.call(3, "quick").await;
    let rejected = client.receive().await;
    let error = json!({ "code": -32000, "message": "more than 2 requests are active" });
    assert_eq!(rejected["error"], error);
    let waits = if rejected["id"] == 2 { 3 } else { 2 };
    client.cancel(1).await;
    assert_eq!(client.step().await, Step::Dropped);
    let answer = client.receive().await;
    assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(waits), &json!(false)));
    client.call(4, "quick").await;
    assert_eq!(client.receive().await["id"], 4);
}

#[tokio::test]
async fn disconnect_cancels_calls() {
    let farewell = Duration::from_millis(5);
    let mut client = TestClient::start(ClientLimits { farewell, ..one_at_a_time() }).await;
    client.call(1, "hang").await;
    assert_eq!(client.step().await, Step::Started);
    // This call waits for a permit.
    client.call(2, "quick").await;
    let TestClient { read, write, mut steps, server, .. } = client;
    let disconnected = Instant::now();
    drop((read, write));
    let step = tokio::time::timeout(DEADLINE, steps.recv()).await.unwrap();
    assert_eq!(step, Some(Step::Dropped));
    tokio::time::timeout(DEADLINE, server).await.unwrap().unwrap();
    // The library alone would wait for five seconds.
    let elapsed = disconnected.elapsed();
    assert!(elapsed < Duration::from_secs(4), "{elapsed:?}");
}

#[tokio::test]
async fn half_closed_client_gets_responses() {
    let mut client =
        TestClient::start(ClientLimits { farewell: DEADLINE, ..one_at_a_time() }).await;
    client.call(1, "slow").await;
    assert_eq!(client.step().await, Step::Started);
    client.call(2, "quick").await;
    client.write.shutdown().await.unwrap();
    let mut answered = [client.receive().await, client.receive().await];
    answered.sort_by_key(|answer| answer["id"].as_u64());
    let texts = answered.map(|answer| answer["result"]["content"][0]["text"].clone());
    assert_eq!(texts, ["done at last", "done"]);
    tokio::time::timeout(DEADLINE, client.server).await.unwrap().unwrap();
}

#[tokio::test]
async fn empty_list_requests_no_details() {
    let mut client = TestClient::start(ClientLimits::default()).await;
    for (id, method, key) in [(1, "skills/list", "skills"), (2, "prompts/list", "prompts")] {
        client.ask(id, method, json!({})).await;
        let answer = client.receive().await;
        assert_eq!(answer["result"][key], json!([]), "{answer}");
    }
}

#[tokio::test]
async fn early_change_reaches_client() {
    let mut client = TestClient::introduced(ClientLimits::default()).await;
    client.backend.1.send_modify(|change| change.0 += 1);
    client.initialized().await;
    for list in ["tools", "resources", "prompts"] {
        let message = client.receive().await;
        assert_eq!(message["method"], format!("notifications/{list}/list_changed"));
    }
}
