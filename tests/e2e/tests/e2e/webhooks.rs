//! Tests of the channel `webhook`: a program sends signed messages, and gets signed replies.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use mock_model::{MockModel, Step, Wire};
use serde_json::{Value, json};
use sha2::Sha256;
use skillhost_control::ChannelRole;
use test_support::{Background, STUCK_AFTER, TestHome, poll_until};

use crate::channel_scene::{enabled_manifest, pairing_code};
use crate::fixtures::{agent_manifest, shipped_manifest, start_kernel};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A received delivery.
#[derive(Clone)]
struct ReceivedDelivery {
    head: String,
    body: String,
}

impl ReceivedDelivery {
    fn header(&self, name: &str) -> &str {
        let prefix = format!("{name}: ");
        self.head.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap()
    }

    fn text(&self) -> String {
        let body: Value = serde_json::from_str(&self.body).unwrap();
        assert_eq!((&body["type"], &body["data"]["hook"]), (&json!("message"), &json!("ci")));
        body["data"]["text"].as_str().unwrap().to_owned()
    }
}

/// A receiver of deliveries, which refuses the first ones.
struct DeliveryServer {
    address: SocketAddr,
    received: Arc<(Mutex<Vec<ReceivedDelivery>>, Condvar)>,
}

impl DeliveryServer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
        let seen = Arc::clone(&received);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let delivery = read_delivery(&mut stream);
                let (list, more) = &*seen;
                list.lock().unwrap().push(delivery);
                more.notify_all();
                let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
            }
        });
        Self { address, received }
    }

    /// Waits for a delivery whose text has a part.
    fn wait_for_text(&self, part: &str) -> ReceivedDelivery {
        let (list, more) = &*self.received;
        let is_wanted = |one: &&ReceivedDelivery| one.text().contains(part);
        let waiting = |list: &mut Vec<ReceivedDelivery>| !list.iter().any(|one| is_wanted(&one));
        let (list, result) =
            more.wait_timeout_while(list.lock().unwrap(), STUCK_AFTER, waiting).unwrap();
        assert!(!result.timed_out(), "no delivery with {part}");
        list.iter().find(is_wanted).unwrap().clone()
    }
}

fn read_delivery(stream: &mut TcpStream) -> ReceivedDelivery {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer).unwrap();
        bytes.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.to_lowercase();
        let length = length.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.unwrap().parse::<usize>().unwrap() {
            return ReceivedDelivery { head: head.to_owned(), body: body.to_owned() };
        }
    }
}

/// A running kernel that receives hooks.
struct HookKernel {
    kernel: Background,
    address: SocketAddr,
}

impl HookKernel {
    fn start(home: &TestHome) -> Self {
        let kernel = start_kernel(home);
        let text = fs::read_to_string(home.path("skillhost.yaml")).unwrap();
        let address = text.split("listen: ").nth(1).and_then(|rest| rest.lines().next());
        let address: SocketAddr = address.unwrap().parse().unwrap();
        // The service begins beside the other parts of the kernel.
        poll_until("a service that listens", || TcpStream::connect(address));
        Self { kernel, address }
    }

    /// Sends a request; returns the status.
    fn send(&self, hook: &str, id: &str, time: u64, signature: &str, body: &str) -> u16 {
        let response = self.send_for_text(hook, id, time, signature, body);
        response.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// Sends a request; returns the response.
    fn send_for_text(
        &self,
        hook: &str,
        id: &str,
        time: u64,
        signature: &str,
        body: &str,
    ) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        write!(
            stream,
            "POST /hooks/{hook} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\nwebhook-id: {id}\
             \r\nwebhook-timestamp: {time}\r\nwebhook-signature: {signature}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    /// Sends a signed message; returns the status.
    fn send_signed(&self, id: &str, body: &str) -> u16 {
        let time = unix_time();
        self.send("ci", id, time, &sign(id, time, body), body)
    }
}

fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn sign(id: &str, time: u64, body: &str) -> String {
    let key = STANDARD.decode(SECRET.strip_prefix("whsec_").unwrap()).unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    mac.update(format!("{id}.{time}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

fn webhook_home(mock: &MockModel, url: &str) -> TestHome {
    // Free a moment ago; the kernel listens at it.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let settings = format!(
        "{}channels:\n  webhook: {{guests: [helper]}}\nextensions:\n  webhook:\n    listen: \
         {address}\n    hooks: {{ci: {{secret: WEBHOOK_SECRET, url: \"{url}\"}}}}\n    \
         allow_addresses: [127.0.0.1]\n",
        mock.settings(Wire::Openai)
    );
    TestHome::new()
        .manifest("skill_registry", &shipped_manifest("skill_registry"))
        .manifest("webhook", &enabled_manifest("webhook"))
        .manifest("helper", &agent_manifest("helper", "  instructions: You help.\n"))
        .file(".env", format!("WEBHOOK_SECRET={SECRET}\n"))
        .settings(&settings)
        .trusted()
}

#[test]
fn signed_message_gets_signed_reply() {
    let server = DeliveryServer::start();
    let mock = MockModel::with([Step::text("Build 17 is broken since Monday.")]);
    let home = webhook_home(&mock, &format!("http://{}/in", server.address));
    let running = HookKernel::start(&home);
    let message = r#"{"build": 17, "state": "failed"}"#;
    assert_eq!(running.send_signed("msg_0", message), 403, "not paired");
    let code = pairing_code(&home, "webhook", ChannelRole::Guest);
    assert_eq!(running.send_signed("msg_1", &code), 202);
    server.wait_for_text("You are paired as guest.");
    assert_eq!(running.send_signed("msg_2", message), 202);
    let reply = server.wait_for_text("Build 17 is broken since Monday.");
    let (id, time) = (reply.header("webhook-id"), reply.header("webhook-timestamp"));
    let expected = sign(id, time.parse().unwrap(), &reply.body);
    assert_eq!(reply.header("webhook-signature"), expected);
    let request = mock.requests().remove(0);
    assert_eq!(request.messages().last().unwrap().text, message);
    assert!(request.system().contains("webhook"), "{}", request.system());
    running.kernel.interrupt().success();
}

#[test]
fn replays_are_refused_after_kill() {
    let server = DeliveryServer::start();
    let mock = MockModel::with([Step::text("The reply.")]);
    let home = webhook_home(&mock, &format!("http://{}/", server.address));
    let running = HookKernel::start(&home);
    let code = pairing_code(&home, "webhook", ChannelRole::Guest);
    assert_eq!(running.send_signed("msg_1", &code), 202);
    let (time, body) = (unix_time(), "Hello");
    let signature = sign("msg_2", time, body);
    assert_eq!(running.send("ci", "msg_2", time, &signature, body), 202);
    server.wait_for_text("The reply.");
    // Dropped, the kernel is killed.
    drop(running.kernel);
    let running = HookKernel::start(&home);
    assert_eq!(running.send("ci", "msg_2", time, &signature, body), 409);
    let later = time + 1;
    assert_eq!(running.send("ci", "msg_2", later, &sign("msg_2", later, body), body), 200);
    let forged = sign("msg_3", time, "Hello!");
    assert_eq!(running.send("ci", "msg_3", time, &forged, body), 401);
    assert_eq!(running.send("none", "msg_2", time, &signature, body), 401);
    let old = time - 400;
    assert_eq!(running.send("ci", "msg_4", old, &sign("msg_4", old, body), body), 401);
    assert_eq!(mock.requests().len(), 1);
    running.kernel.interrupt().success();
}

#[test]
fn flood_is_told_when_to_retry() {
    let server = DeliveryServer::start();
    let mock = MockModel::new();
    mock.answer_with(|request| Some(Step::text(&format!("Echo: {}", request.last_text()))));
    let home = webhook_home(&mock, &format!("http://{}/", server.address));
    let settings = fs::read_to_string(home.path("skillhost.yaml")).unwrap();
    let guests = "guests: [helper]";
    home.write(
        "skillhost.yaml",
        settings.replace(guests, &format!("{guests}, messages_per_minute: 30")),
    );
    let running = HookKernel::start(&home);
    let code = pairing_code(&home, "webhook", ChannelRole::Guest);
    assert_eq!(running.send_signed("msg_1", &code), 202);
    // One message more is permitted every two seconds, which may pass in between.
    for number in 2.. {
        let (id, body, time) = (format!("msg_{number}"), format!("Event {number}"), unix_time());
        let signature = sign(&id, time, &body);
        let response = running.send_for_text("ci", &id, time, &signature, &body);
        if response.starts_with("HTTP/1.1 202 ") {
            continue;
        }
        assert!(response.starts_with("HTTP/1.1 429 ") && number > 31, "{number}: {response}");
        let wait = response.lines().find_map(|line| line.strip_prefix("retry-after: "));
        let wait = wait.unwrap().parse::<u64>().unwrap();
        assert!((1..=2).contains(&wait), "{response}");
        std::thread::sleep(Duration::from_secs(wait));
        // The same request, which is no copy of one that was received.
        assert_eq!(running.send("ci", &id, time, &signature, &body), 202);
        server.wait_for_text(&format!("Echo: {body}"));
        break;
    }
    running.kernel.interrupt().success();
}

#[test]
fn unset_secret_is_reported_by_doctor() {
    let mock = MockModel::new();
    let home = webhook_home(&mock, "https://example.com/");
    let doctor = |home: &TestHome| home.skillhost(["ext", "doctor"]);
    doctor(&home).success();
    home.write(".env", "WEBHOOK_SECRET=whsec_tooshort\n");
    let text = format!("{}", doctor(&home).exits(1));
    assert!(text.contains("hook `ci`: the secret `WEBHOOK_SECRET` is not whsec_ and"), "{text}");
    assert!(!text.contains("tooshort"), "{text}");
}
