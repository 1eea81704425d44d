//! Tests of deliveries to a server on this machine.

use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;

use skillhost_sdk::ChannelConversation;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::signature::SignedMessage;
use crate::test_kernel::{SECRET, TestClock, TestKernel, hook_table};

/// A server that answers each request with the next of its responses, the last of which is repeated.
struct HookServer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl HookServer {
    async fn start(responses: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            for number in 0.. {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut bytes = vec![0; 65_536];
                let mut length = 0;
                // The body ends with its JSON object.
                while !bytes[..length].ends_with(b"}}") {
                    length += stream.read(&mut bytes[length..]).await.unwrap();
                }
                seen.lock().unwrap().push(String::from_utf8_lossy(&bytes[..length]).into_owned());
                let response = responses[number.min(responses.len() - 1)];
                stream.write_all(format!("HTTP/1.1 {response}\r\n\r\n").as_bytes()).await.unwrap();
            }
        });
        Self { address, requests }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// A lookup with a list of answers for every host, the last of which is repeated.
struct FixedLookup(Mutex<Vec<Vec<IpAddr>>>);

#[async_trait]
impl NameLookup for FixedLookup {
    async fn find_addresses(&self, _: &str) -> std::io::Result<Vec<IpAddr>> {
        let mut answers = self.0.lock().unwrap();
        Ok(if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() })
    }
}

fn sender(allowed: &[&str], answers: &[&[&str]]) -> HookSender {
    let texts: Vec<_> = allowed.iter().map(|&text| text.to_owned()).collect();
    let policy = AddressPolicy::parse(&texts).unwrap();
    let parse = |texts: &&[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    let lookup = FixedLookup(Mutex::new(answers.iter().map(parse).collect()));
    let lookup: Arc<dyn NameLookup> = Arc::new(lookup);
    HookSender::with_lookup(&policy, Duration::from_secs(20), TestClock::new(), &lookup).unwrap()
}

fn message(hook: &str) -> OutgoingMessage {
    OutgoingMessage {
        key: "deliver-01".to_owned(),
        conversation: ChannelConversation { id: hook.to_owned(), topic: None, is_group: false },
        text: "The \"build\" is fixed.".to_owned(),
        buttons: Vec::new(),
        edits: None,
    }
}

async fn deliver_to(sender: &HookSender, url: &str) -> Result<SendOutcome> {
    let kernel = TestKernel::default();
    kernel.set_secret("A", SECRET);
    sender.deliver(&hook_table(&[("ci", "A", Some(url))]), &kernel, &message("ci")).await
}

fn local_sender() -> HookSender {
    sender(&["127.0.0.1"], &[&["127.0.0.1"]])
}

#[tokio::test]
async fn delivery_is_signed() {
    let server = HookServer::start(&["204 No Content"]).await;
    let kernel = TestKernel::default();
    let other = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    kernel.set_secret("A", &format!("{SECRET} {other}"));
    let url = format!("http://{}/in?key=1", server.address);
    let hooks = hook_table(&[("ci", "A", Some(&url))]);
    let outcome = local_sender().deliver(&hooks, &kernel, &message("ci")).await.unwrap();
    assert_eq!(outcome, SendOutcome::Sent { message_id: None });
    let requests = server.requests();
    let (head, body) = requests[0].split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /in?key=1 HTTP/1.1\r\n"), "{head}");
    let header =
        |name: &str| head.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).unwrap();
    let (id, timestamp) = (header("webhook-id"), header("webhook-timestamp"));
    assert_eq!((id, timestamp), ("deliver-01", "1700000000"));
    let expected = json!({
        "type": "message",
        "timestamp": "2023-11-14T22:13:20Z",
        "data": {"hook": "ci", "text": "The \"build\" is fixed."},
    });
    assert_eq!(serde_json::from_str::<Value>(body).unwrap(), expected);
    let signatures = header("webhook-signature");
    let signed = SignedMessage { id, timestamp, signatures, body: body.as_bytes() };
    for secret in [SECRET, other] {
        assert!(signed.is_signed_by(&[SigningSecret::parse(secret).unwrap()], 1), "{secret}");
    }
}

#[tokio::test]
async fn responses_decide_about_retries() {
    let server = HookServer::start(&[
        "410 Gone",
        "429 Too Many Requests\r\nRetry-After: 7",
        "429 Too Many Requests\r\nRetry-After: Wed, 21 Oct 2026 07:28:00 GMT",
        "503 Service Unavailable\r\nRetry-After: 999999",
        "503 Service Unavailable",
        "500 Internal Server Error",
        "404 Not Found",
        "302 Found\r\nLocation: http://127.0.0.1:1/",
    ])
    .await;
    let (sender, url) = (local_sender(), format!("http://{}/", server.address));
    let throttled = |seconds: u64| SendOutcome::Throttled { retry_after_ms: seconds * 1000 };
    let gone = rejected("hook `ci`: the receiver is gone (status 410)".to_owned());
    for expected in [gone, throttled(7), throttled(60), throttled(3600)] {
        assert_eq!(deliver_to(&sender, &url).await.unwrap(), expected);
    }
    for expected in [
        "hook `ci`: the receiver refused the message (status 503)",
        "hook `ci`: the receiver refused the message (status 500)",
        "hook `ci`: the receiver refused the message (status 404)",
        "hook `ci`: redirects are not followed (status 302)",
    ] {
        let error = deliver_to(&sender, &url).await.unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::Unavailable, expected));
    }
    assert_eq!(server.requests().len(), 8);
}

#[tokio::test]
async fn private_addresses_are_refused() {
    let server = HookServer::start(&["200 OK"]).await;
    let port = server.address.port();
    let no_setting = sender(&[], &[&["127.0.0.1"]]);
    for host in
        ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0x7f.1", "169.254.169.254", "name.test"]
    {
        for scheme in ["https", "http"] {
            let error = deliver_to(&no_setting, &format!("{scheme}://{host}:{port}/")).await;
            let error = error.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{scheme} {host}: {error}");
        }
    }
    // A name with one refused address is refused, and http never reaches public addresses.
    let mixed = sender(&[], &[&["93.184.215.14", "10.0.0.1"]]);
    let error = deliver_to(&mixed, "https://name.test/").await.unwrap_err();
    assert_eq!(
        error.message(),
        "hook `ci`: host `name.test` has the address 10.0.0.1, which is not allowed"
    );
    let public = sender(&["127.0.0.1"], &[&["93.184.215.14"]]);
    let error = deliver_to(&public, "http://name.test/").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn rebound_name_is_checked_again() {
    let server = HookServer::start(&["200 OK"]).await;
    let rebinding = sender(&["127.0.0.1"], &[&["127.0.0.1"], &["127.0.0.2"]]);
    let url = format!("http://name.test:{}/", server.address.port());
    assert!(deliver_to(&rebinding, &url).await.is_ok());
    let error = deliver_to(&rebinding, &url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn unreachable_receiver_is_transient() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = deliver_to(&local_sender(), &format!("http://{address}/?key=s3cret")).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(!error.message().contains("s3cret"), "{error}");
}

#[tokio::test]
async fn undeliverable_messages_cause_no_request() {
    let (sender, kernel) = (local_sender(), TestKernel::default());
    let hooks = hook_table(&[("ci", "A", Some("http://127.0.0.1:1/")), ("in", "A", None)]);
    let deliver = async |message: &OutgoingMessage| sender.deliver(&hooks, &kernel, message).await;
    let edit = OutgoingMessage { edits: Some("1".into()), ..message("ci") };
    let key = OutgoingMessage { key: "a\nb".into(), ..message("ci") };
    for rejected in [message("none"), edit, key] {
        let outcome = deliver(&rejected).await.unwrap();
        assert!(matches!(outcome, SendOutcome::Rejected { .. }), "{outcome:?}");
    }
    let unsent = deliver(&message("in")).await.unwrap();
    assert_eq!(unsent, SendOutcome::Sent { message_id: None });
    let error = deliver(&message("ci")).await.unwrap_err();
    assert_eq!(error.message(), "hook `ci`: the secret `A` is not set");
}
