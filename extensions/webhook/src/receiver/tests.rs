//! Tests of the verification: forged, old and replayed messages.

use tempfile::TempDir;

use super::*;
use crate::signature::SigningSecret;
use crate::test_kernel::{NOW, SECRET, TestClock, TestKernel, hook_table};

/// A receiver with the hook `ci`, and one without a secret.
struct ReceiverScene {
    kernel: Arc<TestKernel>,
    clock: Arc<TestClock>,
    receiver: HookReceiver,
    dir: TempDir,
}

impl ReceiverScene {
    async fn new() -> Self {
        let kernel = Arc::new(TestKernel::default());
        kernel.set_secret("A", SECRET);
        let dir = tempfile::tempdir().unwrap();
        let clock = TestClock::new();
        let receiver = Self::open(&kernel, &clock, &dir).await;
        Self { kernel, clock, receiver, dir }
    }

    async fn open(kernel: &Arc<TestKernel>, clock: &Arc<TestClock>, dir: &TempDir) -> HookReceiver {
        let path = dir.path().join("webhook/seen.json");
        let seen = SeenIds::load(path, clock.unix_time()).await.unwrap();
        let hooks = hook_table(&[("ci", "A", None), ("unset", "B", None)]);
        HookReceiver::new(
            Arc::<TestKernel>::clone(kernel),
            hooks,
            Arc::<TestClock>::clone(clock),
            seen,
        )
    }

    async fn restart(&mut self) {
        self.receiver = Self::open(&self.kernel, &self.clock, &self.dir).await;
    }

    async fn send(&self, name: &str, request: &OwnedRequest) -> HookReply {
        self.receiver.receive(name, &request.message()).await
    }
}

/// A request of a sender.
#[derive(Clone)]
struct OwnedRequest {
    id: String,
    timestamp: String,
    signatures: String,
    body: Vec<u8>,
}

impl OwnedRequest {
    fn signed(id: &str, timestamp: u64, body: &str) -> Self {
        Self::with_timestamp(id, &timestamp.to_string(), body.as_bytes())
    }

    fn with_timestamp(id: &str, timestamp: &str, body: &[u8]) -> Self {
        let signatures = SigningSecret::parse(SECRET).unwrap().sign(id, timestamp, body);
        Self { id: id.into(), timestamp: timestamp.into(), signatures, body: body.into() }
    }

    fn message(&self) -> SignedMessage<'_> {
        let Self { id, timestamp, signatures, body } = self;
        SignedMessage { id, timestamp, signatures, body }
    }
}

#[tokio::test]
async fn signed_message_reaches_kernel() {
    let scene = ReceiverScene::new().await;
    let request = OwnedRequest::signed("msg_1", NOW, r#"{"build":"failed"}"#);
    assert_eq!(scene.send("ci", &request).await, HookReply::Accepted);
    let expected = IncomingMessage {
        external_id: "msg_1".to_owned(),
        conversation: ChannelConversation { id: "ci".into(), topic: None, is_group: false },
        peer: ChannelPeer { id: "ci".into(), name: "webhook ci".into() },
        text: r#"{"build":"failed"}"#.to_owned(),
    };
    assert_eq!(scene.kernel.lock().messages, [expected]);
}

#[tokio::test]
async fn window_includes_five_minutes() {
    let scene = ReceiverScene::new().await;
    for (number, (time, expected)) in [
        (NOW - 300, HookReply::Accepted),
        (NOW + 300, HookReply::Accepted),
        (NOW - 301, HookReply::Unauthorized),
        (NOW + 301, HookReply::Unauthorized),
        (0, HookReply::Unauthorized),
        (u64::MAX, HookReply::Unauthorized),
    ]
    .into_iter()
    .enumerate()
    {
        let request = OwnedRequest::signed(&format!("msg_{number}"), time, "text");
        assert_eq!(scene.send("ci", &request).await, expected, "{time}");
    }
}

#[tokio::test]
async fn replay_is_refused_after_restart() {
    let mut scene = ReceiverScene::new().await;
    let request = OwnedRequest::signed("msg_1", NOW, "text");
    assert_eq!(scene.send("ci", &request).await, HookReply::Accepted);
    assert_eq!(scene.send("ci", &request).await, HookReply::Replayed);
    scene.restart().await;
    assert_eq!(scene.send("ci", &request).await, HookReply::Replayed);
    // The sender itself tries again, with a signature of the new time.
    let again = OwnedRequest::signed("msg_1", NOW + 5, "text");
    assert_eq!(scene.send("ci", &again).await, HookReply::Repeated);
    assert_eq!(scene.send("ci", &again).await, HookReply::Replayed);
    assert_eq!(scene.kernel.lock().calls, 1);
    // Behind the window the signature itself is too old.
    scene.clock.set_time(NOW + 306);
    scene.restart().await;
    assert_eq!(scene.send("ci", &again).await, HookReply::Unauthorized);
    assert_eq!(scene.send("ci", &request).await, HookReply::Unauthorized);
    let later = OwnedRequest::signed("msg_1", NOW + 306, "text");
    assert_eq!(scene.send("ci", &later).await, HookReply::Repeated);
    assert_eq!(scene.kernel.lock().messages.len(), 1);
}

#[tokio::test]
async fn concurrent_copies_pass_once() {
    let scene = Arc::new(ReceiverScene::new().await);
    let request = OwnedRequest::signed("msg_1", NOW, "text");
    let mut sent = tokio::task::JoinSet::new();
    for _ in 0..32 {
        let (scene, request) = (Arc::clone(&scene), request.clone());
        sent.spawn(async move { scene.send("ci", &request).await });
    }
    let replies = sent.join_all().await;
    let accepted = replies.iter().filter(|reply| **reply == HookReply::Accepted).count();
    assert_eq!((accepted, scene.kernel.lock().calls), (1, 1));
}

#[tokio::test]
async fn failure_of_kernel_is_not_remembered() {
    let scene = ReceiverScene::new().await;
    let request = OwnedRequest::signed("msg_1", NOW, "text");
    scene.kernel.lock().failure = Some(ErrorKind::Io);
    assert_eq!(scene.send("ci", &request).await, HookReply::Unavailable);
    scene.kernel.lock().failure = None;
    scene.kernel.lock().refuses = true;
    assert_eq!(scene.send("ci", &request).await, HookReply::Refused);
    scene.kernel.lock().refuses = false;
    assert_eq!(scene.send("ci", &request).await, HookReply::Accepted);
}

#[tokio::test]
async fn unknown_and_unset_hooks_look_alike() {
    let scene = ReceiverScene::new().await;
    let request = OwnedRequest::signed("msg_1", NOW, "text");
    let forged = OwnedRequest { signatures: "v1,AAAA".to_owned(), ..request.clone() };
    for (name, request) in
        [("ci", &forged), ("unset", &request), ("none", &request), ("", &request)]
    {
        assert_eq!(scene.send(name, request).await, HookReply::Unauthorized, "{name}");
    }
    let decoy = SigningSecret::decoy().sign(&request.id, &request.timestamp, &request.body);
    let forged = OwnedRequest { signatures: decoy, ..request.clone() };
    for name in ["ci", "unset", "none"] {
        assert_eq!(scene.send(name, &forged).await, HookReply::Unauthorized, "{name}");
    }
    assert_eq!(scene.kernel.lock().calls, 0);
}

#[tokio::test]
async fn unusual_requests_are_refused() {
    let scene = ReceiverScene::new().await;
    let long = "i".repeat(257);
    for id in ["", " ", "a b", "é", long.as_str(), "a\n"] {
        let request = OwnedRequest::signed(id, NOW, "text");
        assert_eq!(scene.send("ci", &request).await, HookReply::Unauthorized, "{id:?}");
    }
    for timestamp in ["", "+1700000000", " 1700000000", "1700000000.0", "-1", "now", "1e9"] {
        let request = OwnedRequest::with_timestamp("msg", timestamp, b"text");
        assert_eq!(scene.send("ci", &request).await, HookReply::Unauthorized, "{timestamp:?}");
    }
    for body in [b"".as_slice(), b" \n", b"\xff\xfe"] {
        let request = OwnedRequest::with_timestamp("msg", &NOW.to_string(), body);
        assert_eq!(scene.send("ci", &request).await, HookReply::Unreadable, "{body:?}");
    }
    assert_eq!(scene.kernel.lock().calls, 0);
}

#[tokio::test]
async fn thousand_bad_requests_pass_never() {
    let mut scene = ReceiverScene::new().await;
    let valid = OwnedRequest::signed("msg_valid", NOW, "text");
    assert_eq!(scene.send("ci", &valid).await, HookReply::Accepted);
    let other = SigningSecret::parse("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD").unwrap();
    for number in 0_u32..1000 {
        let id = format!("msg_{number}");
        let signed = OwnedRequest::signed(&id, NOW, "text");
        let request = match number % 10 {
            // Forged: with another secret, a flipped bit, parts of another message.
            0 => OwnedRequest { signatures: other.sign(&id, &signed.timestamp, b"text"), ..signed },
            1 => OwnedRequest { body: b"test".to_vec(), ..signed },
            2 => OwnedRequest { id: format!("other_{number}"), ..signed },
            3 => OwnedRequest { timestamp: (NOW + 1).to_string(), ..signed },
            4 => OwnedRequest { signatures: valid.signatures.clone(), ..signed },
            5 => {
                let mut signatures = signed.signatures.clone().into_bytes();
                let place = 3 + number as usize / 10 % 43;
                signatures[place] = if signatures[place] == b'A' { b'B' } else { b'A' };
                OwnedRequest { signatures: String::from_utf8(signatures).unwrap(), ..signed }
            }
            6 => OwnedRequest { signatures: String::new(), ..signed },
            // Old.
            7 => OwnedRequest::signed(&id, NOW - 301 - u64::from(number), "text"),
            8 => OwnedRequest::signed(&id, NOW + 301 + u64::from(number), "text"),
            // Replayed, also after restarts.
            _ => {
                if number % 100 == 99 {
                    scene.restart().await;
                }
                valid.clone()
            }
        };
        let reply = scene.send("ci", &request).await;
        let expected = if number % 10 == 9 { HookReply::Replayed } else { HookReply::Unauthorized };
        assert_eq!(reply, expected, "{number}");
    }
    assert_eq!(scene.kernel.lock().calls, 1);
}
