//! Tests of HTTP connections in memory, with a paused clock.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;
use crate::limits::ClientLimits;
use crate::stub::StubBackend;

const TOKEN: &str = "0123456789abcdef";

/// The version of the protocol that has no sessions.
const NEWEST: &str = "2026-07-28";

/// A server whose connections are in memory.
struct TestServer {
    backend: Arc<StubBackend>,
    guard: Arc<HttpGuard>,
    open: Arc<Connections>,
    stop: CancellationToken,
}

/// The client's end of a connection.
struct TestConnection {
    stream: DuplexStream,
    served: JoinHandle<()>,
}

impl TestServer {
    fn new() -> Self {
        Self::with_limits(ConnectionLimits::default())
    }

    fn with_limits(limits: ConnectionLimits) -> Self {
        Self::with(limits, Sessions::default())
    }

    fn with(limits: ConnectionLimits, sessions: Sessions) -> Self {
        let backend = Arc::new(StubBackend::new(2));
        let server = McpServer::new(Arc::clone(&backend) as _, ClientLimits::default(), "0");
        let access = AccessPolicy {
            token: Some(BearerToken::new(TOKEN).unwrap()),
            ..AccessPolicy::default()
        };
        let stop = CancellationToken::new();
        let address = "127.0.0.1:1".parse().unwrap();
        let guard = HttpGuard::with_sessions(&server, &access, address, &stop, sessions);
        Self { backend, guard: Arc::new(guard), open: Connections::new(limits), stop }
    }

    fn connect(&self) -> TestConnection {
        let (stream, theirs) = tokio::io::duplex(64 * 1024);
        let (guard, stop) = (Arc::clone(&self.guard), self.stop.clone());
        let served = tokio::spawn(serve_connection(theirs, self.open.open(), guard, stop));
        TestConnection { stream, served }
    }
}

/// Returns the head and the body of a request with the token.
fn request(headers: &[(&str, &str)], body: &str) -> String {
    let mut text = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         Content-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    format!("{text}\r\n{body}")
}

/// Returns a request with a short response.
fn probe() -> String {
    format!("GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n")
}

impl TestConnection {
    async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads until a text arrives and returns all text so far.
    async fn read_until(&mut self, text: &str) -> String {
        let mut seen = Vec::new();
        let mut buffer = [0; 4096];
        while !String::from_utf8_lossy(&seen).contains(text) {
            let read = self.stream.read(&mut buffer).await.unwrap();
            assert!(read > 0, "the connection ended: {}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&buffer[..read]);
        }
        String::from_utf8_lossy(&seen).into_owned()
    }

    /// Reads until the server closes the connection.
    async fn read_to_end(&mut self) -> String {
        let mut seen = Vec::new();
        self.stream.read_to_end(&mut seen).await.unwrap();
        String::from_utf8_lossy(&seen).into_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn half_open_head_times_out() {
    let server = TestServer::new();
    for start in ["", "POST /mcp HTTP/1.1\r\nHost: localhost\r\n"] {
        let started = Instant::now();
        let mut wire = server.connect();
        wire.send(start).await;
        assert_eq!(wire.read_to_end().await, "");
        assert_eq!(started.elapsed().as_secs(), 5, "{start:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn trickled_head_times_out() {
    let server = TestServer::new();
    let started = Instant::now();
    let mut wire = server.connect();
    // A byte a second keeps no connection open.
    let trickle = async {
        while wire.stream.write_all(b"G").await.is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::select! {
        () = trickle => {}
        outcome = wire.served => outcome.unwrap(),
    }
    assert_eq!(started.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn client_connection_may_idle() {
    let server = TestServer::new();
    let mut wire = server.connect();
    wire.send(&probe()).await;
    wire.read_until("the MCP endpoint").await;
    tokio::time::sleep(Duration::from_secs(50)).await;
    wire.send(&probe()).await;
    wire.read_until("the MCP endpoint").await;
    let started = Instant::now();
    assert_eq!(wire.read_to_end().await, "");
    assert_eq!(started.elapsed().as_secs(), 60);
    // A later head has no more time than the first one.
    let mut wire = server.connect();
    wire.send(&probe()).await;
    wire.read_until("the MCP endpoint").await;
    let started = Instant::now();
    wire.send("POST").await;
    assert_eq!(wire.read_to_end().await, "");
    assert_eq!(started.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn half_open_connections_delay_no_client() {
    let server = TestServer::new();
    let mut old = server.connect();
    old.send(&probe()).await;
    old.read_until("the MCP endpoint").await;
    let started = Instant::now();
    let mut half_open = Vec::new();
    for _ in 0..1_000 {
        let mut wire = server.connect();
        wire.send("POST /mcp HTTP/1.1\r\n").await;
        half_open.push(wire);
    }
    let mut new = server.connect();
    for wire in [&mut old, &mut new] {
        wire.send(&probe()).await;
        wire.read_until("the MCP endpoint").await;
    }
    assert_eq!(started.elapsed(), Duration::ZERO);
    // The oldest half-open connections have been closed.
    for wire in &mut half_open[..1_000 - 256] {
        assert_eq!(wire.read_to_end().await, "");
    }
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn idle_client_is_closed() {
    let limits = ConnectionLimits { clients: 2, ..ConnectionLimits::default() };
    let server = TestServer::with_limits(limits);
    let mut wires = [server.connect(), server.connect(), server.connect()];
    for wire in &mut wires {
        wire.send(&probe()).await;
        wire.read_until("the MCP endpoint").await;
    }
    let [first, second, third] = &mut wires;
    assert_eq!(first.read_to_end().await, "");
    for wire in [second, third] {
        wire.send(&probe()).await;
        wire.read_until("the MCP endpoint").await;
    }
}

#[tokio::test(start_paused = true)]
async fn busy_clients_keep_their_places() {
    let limits = ConnectionLimits { clients: 1, ..ConnectionLimits::default() };
    let server = TestServer::with_limits(limits);
    let mut busy = server.connect();
    // The body of this request is not sent.
    let text = request(&[], &"x".repeat(100));
    busy.send(&text[..text.len() - 100]).await;
    tokio::task::yield_now().await;
    let mut other = server.connect();
    // The server needs this time to read the head of the first connection.
    tokio::time::sleep(Duration::from_millis(1)).await;
    other.send(&probe()).await;
    let rejected = other.read_until("too many connections").await;
    assert!(rejected.starts_with("HTTP/1.1 503"), "{rejected}");
}

/// A body that must not be read.
struct Untouched;

impl hyper::body::Body for Untouched {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        panic!("a byte of the body is read")
    }
}

#[tokio::test(start_paused = true)]
async fn rejected_body_is_not_read() {
    let server = TestServer::new();
    let bearer = format!("Bearer {TOKEN}");
    for (host, origin, token, status) in [
        ("evil.example", "http://localhost", &*bearer, 403),
        ("localhost", "http://evil.example", &bearer, 403),
        ("localhost", "http://localhost", "Bearer wrong", 401),
    ] {
        let request = Request::post(PATH)
            .header("Host", host)
            .header("Origin", origin)
            .header("Authorization", token)
            .header("Content-Length", "10")
            .body(Untouched)
            .unwrap();
        let connection = server.open.open();
        let answer = server.guard.handle_request(request, &connection).await;
        assert_eq!(answer.status(), status, "{host} {origin} {token}");
    }
    // The same on a connection where the body never arrives.
    let mut wire = server.connect();
    wire.send("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n").await;
    let started = Instant::now();
    let rejected = wire.read_until("bearer token is required").await;
    assert!(rejected.starts_with("HTTP/1.1 401"), "{rejected}");
    assert_eq!(started.elapsed(), Duration::ZERO);
}

/// Returns a tool call of the newest version.
fn call(arguments: &Value, headers: &[(&str, &str)]) -> String {
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {
            "name": "route", "arguments": arguments,
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": NEWEST,
                "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        },
    });
    let mut all =
        vec![("MCP-Protocol-Version", NEWEST), ("Mcp-Method", "tools/call"), ("Mcp-Name", "route")];
    all.extend(headers);
    request(&all, &body.to_string())
}

#[tokio::test]
async fn parameter_headers_match_the_arguments() {
    let server = TestServer::new();
    let arguments = json!({ "region": "eu", "text": "x" });
    for (arguments, headers) in [
        (&arguments, &[][..]),
        (&arguments, &[("Mcp-Param-Region", "us")]),
        (&arguments, &[("Mcp-Param-Region", "=?base64?dXM=?=")]),
        (&arguments, &[("Mcp-Param-Region", "eu"), ("Mcp-Param-Region", "eu")]),
        (&json!({ "text": "x" }), &[("Mcp-Param-Region", "eu")]),
    ] {
        let mut wire = server.connect();
        wire.send(&call(arguments, headers)).await;
        let rejected = wire.read_until("\"error\"").await;
        assert!(rejected.starts_with("HTTP/1.1 400"), "{headers:?}: {rejected}");
        assert!(rejected.contains("-32020"), "{headers:?}: {rejected}");
    }
    assert_eq!(*server.backend.calls.lock().unwrap(), Vec::<Value>::new());
    for (arguments, headers) in [
        (&arguments, &[("Mcp-Param-Region", "eu")][..]),
        (&arguments, &[("mcp-param-region", "=?base64?ZXU=?=")]),
        (&json!({ "text": "x" }), &[]),
    ] {
        let mut wire = server.connect();
        wire.send(&call(arguments, headers)).await;
        let answer = wire.read_until("routed").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{headers:?}: {answer}");
    }
    assert_eq!(server.backend.calls.lock().unwrap().len(), 3);
}

/// Returns the first request of a session.
fn initialize() -> String {
    let body = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        },
    });
    request(&[], &body.to_string())
}

/// Starts a session and returns its id.
async fn start_session(server: &TestServer) -> String {
    let mut wire = server.connect();
    wire.send(&initialize()).await;
    let answer = wire.read_until("serverInfo").await;
    let line = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
    line.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// Returns the status of the response to a message in a session.
async fn status_in(server: &TestServer, session: &str, body: &Value) -> String {
    let headers = [("Mcp-Session-Id", session), ("MCP-Protocol-Version", "2025-11-25")];
    let mut wire = server.connect();
    wire.send(&request(&headers, &body.to_string())).await;
    wire.read_until("\r\n\r\n").await[9..12].to_owned()
}

#[tokio::test]
async fn initialize_flood_locks_out_no_client() {
    let server = TestServer::with(ConnectionLimits::default(), Sessions::with_limit(4));
    let session = start_session(&server).await;
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(status_in(&server, &session, &initialized).await, "202");
    let mut flood = Vec::new();
    for _ in 0..20 {
        flood.push(start_session(&server).await);
    }
    // The used session is still there, the oldest unused ones are not.
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    assert_eq!(status_in(&server, &session, &ping).await, "200");
    assert_eq!(status_in(&server, &flood[0], &ping).await, "404");
    let late = start_session(&server).await;
    assert_eq!(status_in(&server, &late, &initialized).await, "202");
}

#[test]
fn remote_access_requires_token() {
    let open = AccessPolicy::default();
    let guarded = AccessPolicy { token: Some(BearerToken::new(TOKEN).unwrap()), ..open.clone() };
    for (address, alone) in
        [("127.0.0.1:1", true), ("[::1]:1", true), ("0.0.0.0:1", false), ("10.0.0.1:1", false)]
    {
        let address = address.parse().unwrap();
        assert_eq!(open.check(address).is_ok(), alone, "{address}");
        assert!(guarded.check(address).is_ok());
    }
}
