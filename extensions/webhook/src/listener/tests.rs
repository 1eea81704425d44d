//! Tests of the server with requests as bytes.

use std::net::SocketAddr;
use std::sync::Arc;

use skillhost_sdk::tokio::task::JoinHandle;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::hook_clock::HookClock as _;
use crate::seen_ids::SeenIds;
use crate::signature::SigningSecret;
use crate::test_kernel::{NOW, SECRET, TestClock, TestKernel, hook_table};

/// A running server.
struct RunningListener {
    address: SocketAddr,
    kernel: Arc<TestKernel>,
    cancel: CancellationToken,
    task: JoinHandle<()>,
    _dir: tempfile::TempDir,
}

impl RunningListener {
    async fn start() -> Self {
        let kernel = Arc::new(TestKernel::default());
        kernel.set_secret("A", SECRET);
        let clock = TestClock::new();
        let dir = tempfile::tempdir().unwrap();
        let seen = SeenIds::load(dir.path().join("seen.json"), clock.unix_time()).await.unwrap();
        let hooks = hook_table(&[("ci", "A", None)]);
        let receiver = HookReceiver::new(Arc::<TestKernel>::clone(&kernel), hooks, clock, seen);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cancel = CancellationToken::new();
        let stop = cancel.clone();
        let task = tokio::spawn(async move {
            listen_for_hooks(listener, Arc::new(receiver), &stop).await;
        });
        Self { address, kernel, cancel, task, _dir: dir }
    }

    /// Sends bytes; returns the status and the body of the response.
    async fn send(&self, request: &[u8]) -> (u16, String) {
        let text = self.send_for_text(request).await;
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
        let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned();
        (status.unwrap_or_default(), body)
    }

    async fn send_for_text(&self, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // The server answers before it has read a request that it refuses.
        let _ = stream.write_all(request).await;
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
        String::from_utf8(bytes).unwrap()
    }
}

fn request(method: &str, path: &str, id: &str, body: &[u8]) -> Vec<u8> {
    let timestamp = NOW.to_string();
    let signature = SigningSecret::parse(SECRET).unwrap().sign(id, &timestamp, body);
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\nWebhook-Id: {id}\r\n\
         webhook-timestamp: {timestamp}\r\nwebhook-signature: {signature}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

#[tokio::test]
async fn requests_are_answered_by_outcome() {
    let server = RunningListener::start().await;
    let accepted = request("POST", "/hooks/ci", "msg_1", b"text");
    assert_eq!(server.send(&accepted).await, (202, r#"{"message":"accepted"}"#.to_owned()));
    assert_eq!(server.send(&accepted).await.0, 409);
    for (request, expected) in [
        (request("GET", "/hooks/ci", "a", b""), 405),
        (request("POST", "/", "a", b"text"), 404),
        (request("POST", "/hooks", "a", b"text"), 404),
        (request("POST", "/hooks/ci", "a", b"\xff"), 422),
        (b"POST /hooks/ci HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n".to_vec(), 401),
        (b"POST /hooks/ci HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n".to_vec(), 400),
        (b"\x16\x03\x01 TLS\r\n\r\n".to_vec(), 400),
    ] {
        assert_eq!(server.send(&request).await.0, expected, "{:?}", request.escape_ascii());
    }
    server.kernel.lock().refuses = true;
    assert_eq!(server.send(&request("POST", "/hooks/ci", "b", b"text")).await.0, 403);
    assert_eq!(server.kernel.lock().messages.len(), 1);
    server.cancel.cancel();
    server.task.await.unwrap();
}

#[tokio::test]
async fn throttled_sender_reads_when_to_retry() {
    let server = RunningListener::start().await;
    server.kernel.lock().throttles = true;
    let again = request("POST", "/hooks/ci", "msg_1", b"text");
    let text = server.send_for_text(&again).await;
    assert!(text.starts_with("HTTP/1.1 429 ") && text.contains("\r\nretry-after: 3\r\n"), "{text}");
    // The same request is accepted afterwards.
    server.kernel.lock().throttles = false;
    assert_eq!(server.send(&again).await.0, 202);
}

#[tokio::test]
async fn unknown_names_get_same_response() {
    let server = RunningListener::start().await;
    let unknown = server.send(&request("POST", "/hooks/none", "msg_1", b"text")).await;
    let mut forged = request("POST", "/hooks/ci", "msg_1", b"text");
    *forged.last_mut().unwrap() ^= 1;
    assert_eq!(server.send(&forged).await, unknown);
    assert_eq!(unknown.0, 401);
}

#[tokio::test]
async fn repeated_headers_are_refused() {
    let server = RunningListener::start().await;
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        let text = String::from_utf8(request("POST", "/hooks/ci", "msg_1", b"text")).unwrap();
        let doubled = text.replacen("Host:", &format!("{name}: other\r\nHost:"), 1);
        assert_eq!(server.send(doubled.as_bytes()).await.0, 401, "{name}");
    }
}

#[tokio::test]
async fn body_over_limit_is_refused() {
    let server = RunningListener::start().await;
    let longest = "x".repeat(BODY_LIMIT);
    let accepted = request("POST", "/hooks/ci", "msg_1", longest.as_bytes());
    assert_eq!(server.send(&accepted).await.0, 202);
    let longer = request("POST", "/hooks/ci", "msg_2", format!("{longest}x").as_bytes());
    assert_eq!(server.send(&longer).await.0, 413);
    // The length is not known before.
    let chunk = format!("{:x}\r\n{longest}x\r\n0\r\n\r\n", BODY_LIMIT + 1);
    let head = "POST /hooks/ci HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(server.send(format!("{head}{chunk}").as_bytes()).await.0, 413);
    let sizes: Vec<_> = server.kernel.lock().messages.iter().map(|one| one.text.len()).collect();
    assert_eq!(sizes, [BODY_LIMIT]);
}

#[tokio::test]
async fn silent_connections_keep_no_sender_out() {
    let server = RunningListener::start().await;
    let mut silent = Vec::new();
    for _ in 0..MAX_CONNECTIONS - 1 {
        silent.push(TcpStream::connect(server.address).await.unwrap());
    }
    let accepted = request("POST", "/hooks/ci", "msg_1", b"text");
    assert_eq!(server.send(&accepted).await.0, 202);
    drop(silent);
}
