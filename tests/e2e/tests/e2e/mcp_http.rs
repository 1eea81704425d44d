//! Tests of `skillhost mcp --http`: concurrent clients and access control.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use test_support::{Background, STUCK_AFTER, TestHome};

use crate::fixtures::{home, skill_md};
use crate::mcp::{full_home, listed_home};
use crate::mcp_client::{VERSION, texts};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A server on its own port.
pub(crate) struct HttpServer {
    pub(crate) process: Background,
    endpoint: HttpEndpoint,
}

/// The address of a server, and requests to it.
pub(crate) struct HttpEndpoint {
    address: String,
}

impl std::ops::Deref for HttpServer {
    type Target = HttpEndpoint;

    fn deref(&self) -> &HttpEndpoint {
        &self.endpoint
    }
}

impl HttpServer {
    fn start_for(home: &TestHome) -> Self {
        Self::start(home, home.command().args(["mcp", "--http", "127.0.0.1:0"]))
    }

    pub(crate) fn start(home: &TestHome, command: &mut Command) -> Self {
        let interval = "SKILLHOST_EXTENSIONS__SKILL_REGISTRY__POLL_INTERVAL_MS";
        let process = home.start(command.env(interval, "20"));
        let line = process.line_with("serving MCP at http://");
        let address = line.split("http://").nth(1).unwrap().split("/mcp").next().unwrap();
        let address = address.replace("0.0.0.0", "127.0.0.1");
        Self { process, endpoint: HttpEndpoint { address } }
    }
}

impl HttpEndpoint {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(STUCK_AFTER)).unwrap();
        stream
    }

    /// Sends one request with the given headers and returns the response.
    fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> HttpResponse {
        let mut stream = self.connect();
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            head.push_str(&format!("Host: {}\r\n", self.address));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        // A server that has rejected the request does not read the rest.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        HttpResponse::parse(&bytes)
    }

    pub(crate) fn post(&self, headers: &[(&str, &str)], message: &Value) -> HttpResponse {
        let mut all = vec![
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        all.extend(headers);
        self.send("POST", "/mcp", &all, message.to_string().as_bytes())
    }
}

/// A response with its head and body.
pub(crate) struct HttpResponse {
    status: u16,
    head: String,
    body: String,
}

impl HttpResponse {
    fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let body = if head.to_lowercase().contains("transfer-encoding: chunked") {
            decode_chunked(body)
        } else {
            body.to_owned()
        };
        Self { status, head: head.to_owned(), body }
    }

    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Parses the messages of the body, a single one or a stream of events.
    pub(crate) fn messages(&self) -> Vec<Value> {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data:"));
        let events: Vec<_> =
            data.filter_map(|data| serde_json::from_str(data.trim()).ok()).collect();
        match serde_json::from_str(&self.body) {
            Ok(message) => vec![message],
            Err(_) => events,
        }
    }
}

fn decode_chunked(mut body: &str) -> String {
    let mut text = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let Ok(size) = usize::from_str_radix(size.trim(), 16) else { break };
        if size == 0 || rest.len() < size || !rest.is_char_boundary(size) {
            text.push_str(rest);
            break;
        }
        text.push_str(&rest[..size]);
        body = rest[size..].trim_start_matches("\r\n");
    }
    text
}

/// A session over HTTP.
struct HttpClient<'s> {
    server: &'s HttpEndpoint,
    session: String,
    next: u64,
}

impl<'s> HttpClient<'s> {
    fn connect(server: &'s HttpEndpoint) -> Self {
        let initialize = json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": {
                "protocolVersion": VERSION, "capabilities": {},
                "clientInfo": { "name": "test client", "version": "1" },
            },
        });
        let response = server.post(&[], &initialize);
        assert_eq!(response.status, 200, "{}\n{}", response.head, response.body);
        let session = response.header("mcp-session-id").unwrap().to_owned();
        let client = Self { server, session, next: 1 };
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(client.post(&initialized).status, 202);
        client
    }

    fn headers(&self) -> [(&str, &str); 2] {
        [("Mcp-Session-Id", &self.session), ("MCP-Protocol-Version", VERSION)]
    }

    fn post(&self, message: &Value) -> HttpResponse {
        self.server.post(&self.headers(), message)
    }

    #[track_caller]
    fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.next;
        self.next += 1;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let response = self.post(&message);
        let found = response.messages().into_iter().find(|message| message["id"] == id);
        found.unwrap_or_else(|| {
            panic!("no answer: {} {}\n{}", response.status, response.head, response.body)
        })
    }
}

#[test]
fn http_serves_all_methods() {
    let home = full_home();
    let server = HttpServer::start_for(&home);
    let mut client = HttpClient::connect(&server);
    let tools = client.request("tools/list", &json!({}));
    let names = [
        "list_skills",
        "propose_skill_update",
        "read_skill",
        "read_skill_resource",
        "skills.load",
        "skills.read",
    ];
    assert_eq!(texts(&tools["result"]["tools"], "/name"), names);
    let call = json!({ "name": "read_skill", "arguments": { "skill_id": "greet" } });
    let response = client.request("tools/call", &call);
    let text = response["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("Say hello to them."), "{text}");
    let skills = client.request("skills/list", &json!({}));
    let uris = ["skill://greet/SKILL.md", "skill://review/code-review/SKILL.md"];
    assert_eq!(texts(&skills["result"]["skills"], "/uri"), uris);
    let read = client.request("resources/read", &json!({ "uri": uris[0] }));
    assert_eq!(read["result"]["contents"][0]["uri"], uris[0]);
    let unknown = client.request("resources/read", &json!({ "uri": "skill://nobody/SKILL.md" }));
    assert_eq!(unknown["error"]["code"], -32002);
    let output = server.process.interrupt();
    assert_eq!((output.status, &*output.stderr), (0, ""));
}

#[test]
fn newest_version_requires_no_session() {
    let home = listed_home();
    let server = HttpServer::start_for(&home);
    let message = json!({
        "jsonrpc": "2.0", "id": 1, "method": "skills/list",
        "params": { "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        } },
    });
    let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "skills/list")];
    let response = server.post(&headers, &message);
    assert_eq!(response.status, 200, "{}\n{}", response.head, response.body);
    let messages = response.messages();
    let result = &messages[0]["result"];
    assert_eq!(texts(&result["skills"], "/uri"), ["skill://greet/SKILL.md"], "{messages:?}");
    assert_eq!(result["resultType"], "complete");
}

#[test]
fn foreign_origins_are_rejected() {
    let home = home();
    let server = HttpServer::start_for(&home);
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let port = server.address.rsplit(':').next().unwrap();
    for host in ["evil.example", "evil.example:80", &format!("localhost.evil.example:{port}")] {
        assert_eq!(server.post(&[("Host", host)], &ping).status, 403, "{host}");
    }
    let initialize = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": VERSION, "capabilities": {},
            "clientInfo": { "name": "page", "version": "1" },
        },
    });
    // This server would otherwise accept the request.
    for origin in ["http://evil.example", "null", "https://localhost.evil.example", "file://"] {
        assert_eq!(server.post(&[("Origin", origin)], &initialize).status, 403, "{origin}");
    }
    let local = format!("localhost:{port}");
    let headers = [("Host", &*local), ("Origin", "http://localhost:6274")];
    assert_eq!(server.post(&headers, &initialize).status, 200);
    assert_eq!(server.send("POST", "/", &[], b"{}").status, 404);
    assert_eq!(server.send("PUT", "/mcp", &[], b"{}").status, 405);
}

#[test]
fn token_is_required_off_loopback() {
    let home = home();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let output = home.skillhost(["mcp", "--http", address]).exits(2);
        assert!(output.stderr.contains("requires a bearer token"), "{}", output.stderr);
        assert!(output.stderr.contains("SKILLHOST_MCP_TOKEN"), "{}", output.stderr);
    }
    let short = home.skillhost(["mcp", "--http", "0", "--token", "secret"]).exits(2);
    assert!(short.stderr.contains("at least 16 characters"), "{}", short.stderr);
    let mut with_variable = home.command();
    with_variable.env("SKILLHOST_MCP_TOKEN", TOKEN).args(["mcp", "--http", "0.0.0.0:0"]);
    assert_token_counts(&home, &mut with_variable);

    // The file counts where both are given.
    home.write("token", format!("{TOKEN}\n"));
    let mut with_file = home.command();
    with_file.env("SKILLHOST_MCP_TOKEN", TOKEN.replace('0', "2"));
    with_file.args(["mcp", "serve", "--http", "0.0.0.0:0", "--token-file"]);
    assert_token_counts(&home, with_file.arg(home.path("token")));
    let missing = home.skillhost(["mcp", "--http", "0", "--token-file", "none"]).exits(3);
    assert!(missing.stderr.contains("none"), "{missing}");
    home.skillhost(["mcp", "--token-file", "token"]).exits(2);
}

/// Starts a server and requires that it accepts [`TOKEN`] and nothing else.
fn assert_token_counts(home: &TestHome, command: &mut Command) {
    let server = HttpServer::start(home, command);
    let initialize = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": VERSION, "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        },
    });
    let wrong = format!("Bearer {}", TOKEN.replace('0', "1"));
    let longer = format!("Bearer {TOKEN}0");
    for header in
        [None, Some("Bearer"), Some("Bearer "), Some(&*wrong), Some(&*longer), Some(TOKEN)]
    {
        let headers: Vec<_> = header.iter().map(|value| ("Authorization", *value)).collect();
        let response = server.post(&headers, &initialize);
        assert_eq!(response.status, 401, "{header:?}");
        assert_eq!(response.header("www-authenticate"), Some("Bearer realm=\"skillhost\""));
    }
    let right = format!("Bearer {TOKEN}");
    assert_eq!(server.post(&[("Authorization", &right)], &initialize).status, 200);
    let output = server.process.interrupt();
    assert!(!output.stderr.contains(TOKEN) && !output.stdout.contains(TOKEN));
}

#[test]
fn half_open_connections_delay_no_client() {
    let home = home();
    let mut command = home.command();
    let server = HttpServer::start(
        &home,
        command.env("SKILLHOST_MCP_TOKEN", TOKEN).args(["mcp", "--http", "127.0.0.1:0"]),
    );
    let half_open: Vec<_> = (0..300)
        .map(|_| {
            let mut stream = server.connect();
            // The server may have closed the oldest connection already.
            let _ = stream.write_all(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n");
            stream
        })
        .collect();
    let started = Instant::now();
    let right = format!("Bearer {TOKEN}");
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let response = server.post(&[("Authorization", &right)], &ping);
    assert!((200..500).contains(&response.status), "{}", response.head);
    // The server once waited until the others timed out after a minute.
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    drop(half_open);
    assert_eq!(server.process.interrupt().status, 0);
}

#[test]
fn initialize_flood_locks_out_no_client() {
    let home = home();
    let server = HttpServer::start_for(&home);
    let mut client = HttpClient::connect(&server);
    for _ in 0..520 {
        HttpClient::connect(&server);
    }
    // The oldest idle session is closed, and its client starts another one.
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    assert_eq!(client.post(&ping).status, 404);
    client = HttpClient::connect(&server);
    assert!(client.request("ping", &json!({}))["result"].is_object());
    assert_eq!(server.process.interrupt().status, 0);
}

#[test]
fn server_survives_bad_requests() {
    let home = home();
    let server = HttpServer::start_for(&home);
    let json =
        [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];
    let huge = vec![b'x'; (4 << 20) + 1];
    assert_eq!(server.send("POST", "/mcp", &json, &huge).status, 413);
    for body in [&b"not json"[..], b"", b"[]", b"{}", b"\xff\xfe", &b"[".repeat(100_000)] {
        let status = server.send("POST", "/mcp", &json, body).status;
        assert!(
            (400..500).contains(&status),
            "{status} for {:?}",
            String::from_utf8_lossy(&body[..body.len().min(20)])
        );
    }
    // A large chunked body without a Content-Length.
    let mut stream = server.connect();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAccept: \
         application/json, text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
        server.address
    );
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = [format!("{:x}\r\n", 1 << 20).as_bytes(), &vec![b'x'; 1 << 20], b"\r\n"].concat();
    for _ in 0..6 {
        // The server may have rejected the request by now.
        let _ = stream.write_all(&chunk);
    }
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    assert_eq!(HttpResponse::parse(&bytes).status, 413);
    // Clients that disconnect after garbage, half a head, half a body and no byte.
    for start in [
        "\0\0\0\0\r\n\r\n".to_owned(),
        "POST /mcp HTTP/1.1\r\nHost: x".to_owned(),
        format!("POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Length: 100\r\n\r\n{{", server.address),
        String::new(),
    ] {
        let mut stream = server.connect();
        stream.write_all(start.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Both).unwrap();
    }
    let headers = [("Mcp-Session-Id", "no-such-session"), ("MCP-Protocol-Version", VERSION)];
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    assert_eq!(server.post(&headers, &ping).status, 404);
    let mut client = HttpClient::connect(&server);
    assert!(client.request("ping", &json!({}))["result"].is_object());
}

#[test]
fn concurrent_clients_get_own_responses() {
    let home = home();
    let server = HttpServer::start_for(&home);
    std::thread::scope(|scope| {
        for number in 0..20 {
            let server: &HttpEndpoint = &server;
            scope.spawn(move || {
                let mut client = HttpClient::connect(server);
                for round in 0..50 {
                    let id = format!("no-{number}-{round}");
                    let call = json!({ "name": "read_skill", "arguments": { "skill_id": id } });
                    let response = client.request("tools/call", &call);
                    let error = &response["result"]["_meta"]["skillhost/structured"]["error"];
                    assert_eq!(error["message"], format!("skill `{id}` not found").as_str());
                }
            });
        }
    });
    assert_eq!(server.process.interrupt().status, 0);
}

/// Reads one response and leaves the following bytes on the connection.
fn read_response(connection: &mut BufReader<TcpStream>) -> HttpResponse {
    let mut bytes = Vec::new();
    let line = |bytes: &mut Vec<u8>, connection: &mut BufReader<TcpStream>| {
        let from = bytes.len();
        assert!(connection.read_until(b'\n', bytes).unwrap() > 0, "the connection was closed");
        String::from_utf8_lossy(&bytes[from..]).trim_end().to_lowercase()
    };
    let (mut length, mut chunked) = (0, false);
    loop {
        let header = line(&mut bytes, connection);
        if header.is_empty() {
            break;
        }
        chunked |= header == "transfer-encoding: chunked";
        if let Some(value) = header.strip_prefix("content-length: ") {
            length = value.parse().unwrap();
        }
    }
    let take = |bytes: &mut Vec<u8>, connection: &mut BufReader<TcpStream>, length: usize| {
        let from = bytes.len();
        bytes.resize(from + length, 0);
        connection.read_exact(&mut bytes[from..]).unwrap();
    };
    take(&mut bytes, connection, length);
    while chunked {
        let size = usize::from_str_radix(&line(&mut bytes, connection), 16).unwrap();
        // The chunk ends with CRLF.
        take(&mut bytes, connection, size + 2);
        chunked = size > 0;
    }
    HttpResponse::parse(&bytes)
}

#[test]
fn thousand_concurrent_calls_are_answered() {
    const CONNECTIONS: usize = 50;
    const CALLS: usize = 20;
    let home = home();
    let server = HttpServer::start_for(&home);
    // Several connections share one session.
    let clients: Vec<_> = (0..10).map(|_| HttpClient::connect(&server)).collect();
    let message = |id: usize| {
        let (name, arguments) = match id % 3 {
            0 => ("read_skill", json!({ "skill_id": "greet" })),
            1 => ("list_skills", json!({ "query": format!("q{id}") })),
            _ => ("read_skill", json!({ "skill_id": format!("no-{id}") })),
        };
        let params = json!({ "name": name, "arguments": arguments });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
    };
    let ids = |number: usize| (number + 1) * 1_000..(number + 1) * 1_000 + CALLS;
    let mut connections: Vec<_> = (0..CONNECTIONS)
        .map(|number| {
            let mut stream = server.connect();
            let session = &clients[number % clients.len()].session;
            let requests: Vec<_> = ids(number)
                .map(|id| {
                    let body = message(id);
                    format!(
                        "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
                         Accept: application/json, text/event-stream\r\nMcp-Session-Id: {session}\r\n\
                         MCP-Protocol-Version: {VERSION}\r\nContent-Length: {}\r\n\r\n{body}",
                        server.address,
                        body.len()
                    )
                })
                .collect();
            // All calls are sent before the first response is read.
            stream.write_all(requests.concat().as_bytes()).unwrap();
            BufReader::new(stream)
        })
        .collect();
    for (number, connection) in connections.iter_mut().enumerate() {
        for id in ids(number) {
            let response = read_response(connection);
            assert_eq!(response.status, 200, "{}\n{}", response.head, response.body);
            let [response] = &response.messages()[..] else { panic!("{id}: {}", response.body) };
            assert_eq!(response["id"], id, "{response}");
            let result = &response["result"];
            assert_eq!(result["isError"], id % 3 == 2, "{response}");
            let text = result["content"][0]["text"].as_str().unwrap();
            let expected = match id % 3 {
                0 => "Say hello to them.".to_owned(),
                1 => "None of the 1 skills matches.".to_owned(),
                _ => format!("skill `no-{id}` not found"),
            };
            assert!(text.contains(&expected), "{id}: {text}");
        }
    }
    assert_eq!(server.process.interrupt().status, 0);
}

#[test]
fn session_stream_reports_changes() {
    let home = home();
    let server = HttpServer::start_for(&home);
    let client = HttpClient::connect(&server);
    let mut stream = server.connect();
    let head = format!(
        "GET /mcp HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\nMcp-Session-Id: {}\r\n\
         MCP-Protocol-Version: {VERSION}\r\n\r\n",
        server.address, client.session
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut received = String::new();
    let mut wait_for = |stream: &mut TcpStream, text: &str| {
        let mut buffer = [0; 4096];
        while !received.contains(text) {
            let read = stream.read(&mut buffer).unwrap();
            assert!(read > 0, "the stream ended: {received}");
            received.push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
    };
    wait_for(&mut stream, "200 OK");
    home.write("sandbox/skills/new/SKILL.md", skill_md("New.", "New."));
    wait_for(&mut stream, "notifications/resources/list_changed");
    wait_for(&mut stream, "notifications/prompts/list_changed");
    // An open stream does not delay the exit.
    assert_eq!(server.process.interrupt().status, 0);
}
