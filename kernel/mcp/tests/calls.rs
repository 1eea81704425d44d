//! Calls that take their time: progress, cancellation, too many of them, a client that goes away.
#![expect(clippy::unwrap_used, reason = "a test that cannot talk to its server has failed")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use skillhost_contract::payload::{
    PublishedBody, PublishedDetails, PublishedEntry, PublishedSkills, ToolOutput, ToolSpec,
};
use skillhost_mcp::{
    Backend, BackendError, ChangeCounter, ClientLimits, ClientSession, McpServer, PromptArguments,
    serve_streams,
};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// After this time a test is stuck.
const DEADLINE: Duration = Duration::from_secs(60);

/// What happens to a call.
#[derive(Debug, PartialEq)]
enum Step {
    Begun,
    GivenUp,
}

/// A backend with tools that end, sooner or later, and one that never does.
struct Slow(UnboundedSender<Step>, watch::Sender<ChangeCounter>);

/// Tells when a call's future is dropped.
struct Watched<'a>(&'a Slow);

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        // The test may have ended.
        let _ = self.0.0.send(Step::GivenUp);
    }
}

#[async_trait]
impl Backend for Slow {
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
            return Ok(Some(ToolOutput { text, structured: None, is_error: false, skill: None }));
        }
        self.0.send(Step::Begun).unwrap();
        if name == "slow" {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let text = "done at last".to_owned();
            return Ok(Some(ToolOutput { text, structured: None, is_error: false, skill: None }));
        }
        let _watched = Watched(self);
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
        // As a kernel without a provider of skills would answer.
        Err(BackendError::not_found("nobody provides skills"))
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
struct Talk {
    read: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: WriteHalf<DuplexStream>,
    steps: UnboundedReceiver<Step>,
    server: JoinHandle<()>,
    backend: Arc<Slow>,
}

impl Talk {
    async fn begin(limits: ClientLimits) -> Self {
        let mut talk = Self::introduced(limits).await;
        talk.initialized().await;
        talk
    }

    /// As [`McpConnection::connect`], before the client has said that it is ready.
    async fn introduced(limits: ClientLimits) -> Self {
        let (sender, steps) = unbounded_channel();
        let backend = Arc::new(Slow(sender, watch::channel(ChangeCounter::default()).0));
        let server = McpServer::new(Arc::clone(&backend) as _, limits, "0");
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let server = tokio::spawn(async move {
            let (read, write) = tokio::io::split(theirs);
            serve_streams(&server, read, write, CancellationToken::new()).await.unwrap();
        });
        let (read, write) = tokio::io::split(ours);
        let mut talk = Self { read: BufReader::new(read).lines(), write, steps, server, backend };
        talk.ask(
            0,
            "initialize",
            json!({
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": { "name": "test", "version": "1" },
            }),
        )
        .await;
        assert_eq!(talk.told().await["id"], 0);
        talk
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

    /// The next message of the server.
    async fn told(&mut self) -> Value {
        let line = tokio::time::timeout(DEADLINE, self.read.next_line()).await;
        serde_json::from_str(&line.unwrap().unwrap().unwrap()).unwrap()
    }

    /// What happens next to a call.
    async fn step(&mut self) -> Step {
        tokio::time::timeout(DEADLINE, self.steps.recv()).await.unwrap().unwrap()
    }
}

fn one_at_a_time() -> ClientLimits {
    let progress = Duration::from_millis(5);
    ClientLimits { running: 1, waiting: 1, progress, ..ClientLimits::default() }
}

#[tokio::test]
async fn a_long_call_reports_that_it_goes_on_until_it_is_cancelled() {
    let mut talk = Talk::begin(one_at_a_time()).await;
    let meta = json!({ "progressToken": "p-1" });
    let call = json!({ "name": "hang", "arguments": {}, "_meta": meta });
    talk.ask(1, "tools/call", call).await;
    assert_eq!(talk.step().await, Step::Begun);
    let mut last = 0.0;
    for _ in 0..3 {
        let told = talk.told().await;
        assert_eq!(told["method"], "notifications/progress", "{told}");
        assert_eq!(told["params"]["progressToken"], "p-1");
        let progress = told["params"]["progress"].as_f64().unwrap();
        assert!(progress > last, "{told}");
        last = progress;
    }
    talk.cancel(1).await;
    assert_eq!(talk.step().await, Step::GivenUp);
    // Its place is free, and it gets no answer: whatever comes before the next one's is progress
    // that was under way.
    talk.call(2, "quick").await;
    loop {
        let told = talk.told().await;
        if told["method"] != "notifications/progress" {
            assert_eq!((&told["id"], &told["result"]["isError"]), (&json!(2), &json!(false)));
            break;
        }
    }
}

#[tokio::test]
async fn a_call_nobody_wants_progress_of_says_nothing() {
    let mut talk = Talk::begin(one_at_a_time()).await;
    talk.call(1, "hang").await;
    assert_eq!(talk.step().await, Step::Begun);
    tokio::time::sleep(Duration::from_millis(30)).await;
    talk.cancel(1).await;
    assert_eq!(talk.step().await, Step::GivenUp);
    talk.call(2, "quick").await;
    assert_eq!(talk.told().await["id"], 2);
}

#[tokio::test]
async fn too_many_calls_are_refused_and_the_rest_goes_on() {
    let mut talk = Talk::begin(one_at_a_time()).await;
    talk.call(1, "hang").await;
    assert_eq!(talk.step().await, Step::Begun);
    // One of these waits, the other is one too many.
    talk.call(2, "quick").await;
    talk.call(3, "quick").await;
    let refused = talk.told().await;
    let error = json!({ "code": -32000, "message": "more than 2 requests are under way" });
    assert_eq!(refused["error"], error);
    let waits = if refused["id"] == 2 { 3 } else { 2 };
    talk.cancel(1).await;
    assert_eq!(talk.step().await, Step::GivenUp);
    let answer = talk.told().await;
    assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(waits), &json!(false)));
    talk.call(4, "quick").await;
    assert_eq!(talk.told().await["id"], 4);
}

#[tokio::test]
async fn what_a_client_left_behind_is_given_up() {
    let farewell = Duration::from_millis(5);
    let mut talk = Talk::begin(ClientLimits { farewell, ..one_at_a_time() }).await;
    talk.call(1, "hang").await;
    assert_eq!(talk.step().await, Step::Begun);
    // This one has no place yet.
    talk.call(2, "quick").await;
    let Talk { read, write, mut steps, server, .. } = talk;
    let left = Instant::now();
    drop((read, write));
    let given_up = tokio::time::timeout(DEADLINE, steps.recv()).await.unwrap();
    assert_eq!(given_up, Some(Step::GivenUp));
    tokio::time::timeout(DEADLINE, server).await.unwrap().unwrap();
    // The library alone would wait for five seconds.
    assert!(left.elapsed() < Duration::from_secs(4), "{:?}", left.elapsed());
}

#[tokio::test]
async fn who_only_stops_talking_is_still_answered() {
    let mut talk = Talk::begin(ClientLimits { farewell: DEADLINE, ..one_at_a_time() }).await;
    talk.call(1, "slow").await;
    assert_eq!(talk.step().await, Step::Begun);
    talk.call(2, "quick").await;
    talk.write.shutdown().await.unwrap();
    let mut answered = [talk.told().await, talk.told().await];
    answered.sort_by_key(|answer| answer["id"].as_u64());
    let texts = answered.map(|answer| answer["result"]["content"][0]["text"].clone());
    assert_eq!(texts, ["done at last", "done"]);
    tokio::time::timeout(DEADLINE, talk.server).await.unwrap().unwrap();
}

#[tokio::test]
async fn without_a_skill_no_details_are_asked_for() {
    let mut talk = Talk::begin(ClientLimits::default()).await;
    for (id, method, key) in [(1, "skills/list", "skills"), (2, "prompts/list", "prompts")] {
        talk.ask(id, method, json!({})).await;
        let answer = talk.told().await;
        assert_eq!(answer["result"][key], json!([]), "{answer}");
    }
}

#[tokio::test]
async fn a_change_before_the_client_is_listened_for_reaches_it() {
    let mut talk = Talk::introduced(ClientLimits::default()).await;
    talk.backend.1.send_modify(|change| change.0 += 1);
    talk.initialized().await;
    for list in ["tools", "resources", "prompts"] {
        let told = talk.told().await;
        assert_eq!(told["method"], format!("notifications/{list}/list_changed"));
    }
}
