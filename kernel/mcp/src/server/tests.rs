//! Tests of one client's requests with a stub backend.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::io::{DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::McpServer;
use crate::limits::ClientLimits;
use crate::stub::StubBackend;

/// A client with its server.
pub(super) struct Client {
    backend: Arc<StubBackend>,
    read: Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: WriteHalf<DuplexStream>,
    server: JoinHandle<()>,
    next: u64,
}

impl Client {
    fn new(skills: usize, limits: ClientLimits) -> Self {
        Self::with_backend(StubBackend::new(skills), limits)
    }

    pub(super) fn with_backend(backend: StubBackend, limits: ClientLimits) -> Self {
        let backend = Arc::new(backend);
        let server = McpServer::new(Arc::clone(&backend) as _, limits, "0");
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let server = tokio::spawn(async move {
            let (read, write) = tokio::io::split(theirs);
            crate::serve_streams(&server, read, write, CancellationToken::new()).await.unwrap();
        });
        let (read, write) = tokio::io::split(ours);
        Self { backend, read: BufReader::new(read).lines(), write, server, next: 1 }
    }

    async fn initialized(skills: usize) -> Self {
        let mut client = Self::new(skills, ClientLimits::default());
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        });
        client.request("initialize", &params).await;
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        client
    }

    async fn send(&mut self, message: &Value) {
        self.write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        let line = self.read.next_line().await.unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }

    pub(super) async fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.next;
        self.next += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        loop {
            let message = self.receive().await;
            if message["id"] == id {
                return message;
            }
        }
    }

    /// Reads all pages of `skills/list` and returns the entries.
    async fn list(&mut self) -> Vec<Value> {
        let (mut entries, mut params) = (Vec::new(), json!({}));
        loop {
            let mut page = self.request("skills/list", &params).await["result"].take();
            entries.extend(page["skills"].as_array().unwrap().iter().cloned());
            match page["nextCursor"].take() {
                Value::Null => return entries,
                cursor => params = json!({ "cursor": cursor }),
            }
        }
    }

    fn details(&self) -> usize {
        self.backend.details.load(Ordering::Relaxed)
    }
}

/// Returns the metadata of every request of the newest version.
fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

#[tokio::test]
async fn unchanged_list_is_made_once() {
    let mut client = Client::initialized(250).await;
    let first = client.list().await;
    assert_eq!((first.len(), client.details()), (250, 3));
    assert_eq!(client.list().await, first);
    assert_eq!(client.details(), 3);
    // A file has changed, which no generation shows.
    client.backend.stamp.store(2, Ordering::Relaxed);
    let second = client.list().await;
    assert_eq!(second[249]["frontmatter"]["stamp"], 2);
    assert_eq!(client.details(), 6);
    // The list itself has changed.
    client.backend.generation.store(2, Ordering::Relaxed);
    assert_eq!(client.list().await, second);
    assert_eq!((client.list().await.len(), client.details()), (250, 9));
}

#[tokio::test]
async fn list_without_stamp_is_not_cached() {
    let mut client = Client::initialized(2).await;
    client.backend.stamp.store(0, Ordering::Relaxed);
    client.list().await;
    client.list().await;
    assert_eq!(client.details(), 2);
}

#[tokio::test]
async fn unknown_resource_code_depends_on_version() {
    let mut client = Client::initialized(1).await;
    let uris = ["skill://unknown/SKILL.md", "skill://s0000/none"];
    for uri in uris {
        for method in ["resources/read", "resources/directory/read"] {
            let answer = client.request(method, &json!({ "uri": uri })).await;
            assert_eq!(answer["error"]["code"], -32002, "{method} {uri}: {answer}");
        }
    }
    let answer = client.request("skills/get", &json!({ "uri": uris[0] })).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let mut client = Client::new(1, ClientLimits::default());
    for uri in uris {
        for method in ["resources/read", "resources/directory/read", "skills/get"] {
            let answer = client.request(method, &json!({ "uri": uri, "_meta": meta() })).await;
            assert_eq!(answer["error"]["code"], -32602, "{method} {uri}: {answer}");
        }
    }
}

#[tokio::test]
async fn oversized_resource_is_rejected() {
    let mut client = Client::initialized(1).await;
    let fits = client.request("resources/read", &json!({ "uri": "skill://s0000/fits" })).await;
    assert_eq!(fits["result"]["contents"][0]["text"].as_str().unwrap().len(), 8 << 20);
    let large = client.request("resources/read", &json!({ "uri": "skill://s0000/large" })).await;
    assert_eq!(large["error"]["code"], -32602);
    let message = "skill://s0000/large takes 8388609 bytes in a response, more than 8388608";
    assert_eq!(large["error"]["message"], message);
}

#[tokio::test]
async fn late_subscription_ends_with_its_client() {
    // The end of the input arrives before the server handles the requests.
    let farewell = Duration::from_secs(3_600);
    let mut client = Client::new(1, ClientLimits { farewell, ..ClientLimits::default() });
    let params = json!({ "_meta": meta(), "notifications": { "toolsListChanged": true } });
    for id in 1..=20 {
        let method = "subscriptions/listen";
        client
            .send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .await;
    }
    client.write.shutdown().await.unwrap();
    let mut answered = 0;
    while let Some(line) = client.read.next_line().await.unwrap() {
        let message: Value = serde_json::from_str(&line).unwrap();
        answered += usize::from(message["result"].is_object());
    }
    assert_eq!(answered, 20);
    let ended = tokio::time::timeout(Duration::from_secs(4), client.server).await;
    ended.unwrap().unwrap();
}

#[tokio::test]
async fn open_subscription_ends_with_its_client() {
    // The farewell time applies to tool calls, and a subscription is not one.
    let farewell = Duration::from_secs(3_600);
    let mut client = Client::new(1, ClientLimits { farewell, ..ClientLimits::default() });
    let params = json!({ "_meta": meta(), "notifications": { "toolsListChanged": true } });
    let listen =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params });
    client.send(&listen).await;
    let message = client.receive().await;
    assert_eq!(message["method"], "notifications/subscriptions/acknowledged", "{message}");
    client.write.shutdown().await.unwrap();
    // The library alone would time out after five seconds.
    let ended = tokio::time::timeout(Duration::from_secs(4), client.server).await;
    ended.unwrap().unwrap();
}
