//! Tests of the receipt of messages, with a platform in memory.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use secrecy::SecretString;
use skillhost_control::{ChannelRole, UserMessage};
use skillhost_home::ChannelSettings;
use skillhost_payload::{
    ChannelInfo, ChannelPeer, InboundOutcome, IncomingMessage, OutgoingMessage, ReviewDecision,
    ReviewQuestion, SendOutcome,
};
use skillhost_questions::ReviewLedger;
use skillhost_tasks::{
    ClaimFilter, MemoryQueue, NewWait, Task, TaskAmounts, TaskClaim, TaskFilter, TaskOutcome,
};
use tempfile::TempDir;

use super::*;
use crate::delivery::{DeliveryEnd, DeliveryLog, DeliveryTask};
use crate::environment::FoundMessage;
use crate::secret_detector::tests::planted_secrets;

/// A platform and a kernel in memory.
#[derive(Default)]
pub(crate) struct FakeKernel {
    pub(crate) settings: Mutex<ChannelSettings>,
    pub(crate) secrets: Vec<String>,
    pub(crate) messages: Mutex<BTreeMap<String, UserMessage>>,
    pub(crate) sent: Mutex<Vec<OutgoingMessage>>,
    /// The results of the next attempts to send; then the platform accepts everything.
    pub(crate) results: Mutex<Vec<Result<SendOutcome, CallError>>>,
    pub(crate) info: Mutex<Option<ChannelInfo>>,
    pub(crate) threads: AtomicU64,
}

#[async_trait]
impl ReviewLedger for FakeKernel {
    async fn list_reviews(&self, _known: &[String]) -> Result<Vec<ReviewQuestion>, CallError> {
        Ok(Vec::new())
    }

    async fn decide_review(&self, _decision: ReviewDecision) -> Result<(), CallError> {
        Err(CallError::new(ErrorKind::NotFound, "no proposal"))
    }
}

#[async_trait]
impl ChannelEnvironment for FakeKernel {
    fn list_channels(&self) -> Vec<String> {
        vec!["post".to_owned()]
    }

    fn settings(&self, _channel: &str) -> ChannelSettings {
        self.settings.lock().unwrap().clone()
    }

    fn secrets(&self) -> Vec<SecretString> {
        self.secrets.iter().cloned().map(SecretString::from).collect()
    }

    fn reviews(&self) -> &dyn ReviewLedger {
        self
    }

    async fn fetch_info(&self, _channel: &str) -> Result<ChannelInfo, CallError> {
        let default = ChannelInfo {
            account: "bot".to_owned(),
            text_limit: 200,
            format: "plain text".to_owned(),
            has_buttons: true,
            can_edit: true,
        };
        Ok(self.info.lock().unwrap().clone().unwrap_or(default))
    }

    async fn send_message(
        &self,
        _channel: &str,
        message: &OutgoingMessage,
    ) -> Result<SendOutcome, CallError> {
        let mut results = self.results.lock().unwrap();
        let result = match results.is_empty() {
            true => Ok(SendOutcome::Sent { message_id: Some(format!("m:{}", message.key)) }),
            false => results.remove(0),
        };
        if matches!(result, Ok(SendOutcome::Sent { .. })) {
            self.sent.lock().unwrap().push(message.clone());
        }
        result
    }

    async fn fetch_hint(&self, _: &str, _: &ChannelPeer) -> Result<Option<String>, CallError> {
        Ok(Some("be brief".to_owned()))
    }

    async fn create_thread(&self, _agent: &str) -> Result<String, CallError> {
        Ok(format!("t{}", self.threads.fetch_add(1, Ordering::Relaxed)))
    }

    async fn has_thread(&self, _thread: &str) -> bool {
        true
    }

    async fn store_message(&self, message: UserMessage) -> Result<(), CallError> {
        self.messages.lock().unwrap().insert(message.message_id.clone(), message);
        Ok(())
    }

    async fn find_message(&self, id: &str) -> Result<Option<FoundMessage>, CallError> {
        let found = self.messages.lock().unwrap().get(id).cloned();
        // As the kernel names the turns after tasks.
        let is_wake = id.starts_with("task-");
        Ok(found.map(|message| FoundMessage { message, is_wake }))
    }
}

/// A hub with its surroundings.
pub(crate) struct Scene {
    pub(crate) hub: ChannelHub,
    pub(crate) kernel: Arc<FakeKernel>,
    pub(crate) directory: TempDir,
    pub(crate) now_ms: Arc<AtomicU64>,
}

/// The log of a claimed task.
struct QueueLog<'a>(&'a TaskQueue, TaskClaim);

#[async_trait]
impl DeliveryLog for QueueLog<'_> {
    async fn check_claim(&self) -> Result<(), CallError> {
        Ok(())
    }

    async fn append_line(&self, line: String) -> Result<(), CallError> {
        let spent = TaskAmounts::default();
        Ok(self.0.record(self.1.clone(), vec![line], spent, None).await?)
    }
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::with_kernel(FakeKernel::default())
    }

    pub(crate) fn with_kernel(kernel: FakeKernel) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let now_ms = Arc::new(AtomicU64::new(1_000_000));
        let shared = Arc::clone(&now_ms);
        let clock = Clock::new(move || shared.load(Ordering::SeqCst));
        let queue = TaskQueue::new(Arc::new(MemoryQueue::new(clock.clone())));
        let questions = Arc::new(QuestionTable::new(queue.clone()));
        let kernel = Arc::new(kernel);
        let environment = Arc::clone(&kernel) as Arc<dyn ChannelEnvironment>;
        let store = ChannelStore::in_directory(directory.path());
        let hub = ChannelHub::new(store, queue, questions, environment, clock);
        Self { hub, kernel, directory, now_ms }
    }

    /// Pairs a person by a code; the direct conversation has the id of the person.
    pub(crate) async fn pair(&self, id: &str, role: ChannelRole, agents: &[&str]) {
        let agents = agents.iter().map(|agent| (*agent).to_owned()).collect();
        let created = self.hub.store.create_code("post", role, agents, 1_000_000).await.unwrap();
        let outcome = self.receive(message(&format!("pair-{id}"), id, id, &created.code)).await;
        assert_eq!(outcome, InboundOutcome::Accepted);
    }

    pub(crate) async fn receive(&self, message: IncomingMessage) -> InboundOutcome {
        self.hub.receive_message("post", message).await.unwrap()
    }

    pub(crate) fn advance(&self, ms: u64) {
        self.now_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// Executes the deliveries that are due, one after the other; returns their tasks.
    pub(crate) async fn deliver(&self) -> Vec<Task> {
        let queue = &self.hub.queue;
        let mut ended = Vec::new();
        loop {
            queue.sweep(skillhost_tasks::LostWorkers::Expired).await.unwrap();
            let lease = std::time::Duration::from_secs(30);
            let claimed = queue.claim("w", ClaimFilter::default(), 1, lease).await.unwrap();
            let Some(claimed) = claimed.into_iter().next() else { return ended };
            let claim = claimed.task.current_claim().unwrap();
            let lines = queue.lines(&claim.task, 0, 100).await.unwrap();
            let lines: Vec<String> = lines.into_iter().map(|line| line.line).collect();
            let task = DeliveryTask {
                id: claim.task.as_str(),
                target: &claimed.task.target,
                input: &claimed.input,
                lines: &lines,
                is_repeated: false,
            };
            let end = self.hub.deliver(task, &QueueLog(queue, claim.clone())).await;
            let outcome = match end {
                DeliveryEnd::Sent { summary } => {
                    TaskOutcome::Completed { text: summary, structured: None, is_error: false }
                }
                DeliveryEnd::Failed { message, .. } => {
                    TaskOutcome::failed(skillhost_tasks::FailureReason::Error, message)
                }
                DeliveryEnd::Later { until_ms } => {
                    let wait = NewWait { until_ms: Some(until_ms), ..NewWait::default() };
                    queue.wait(claim, wait).await.unwrap();
                    continue;
                }
                DeliveryEnd::Stopped => panic!("the log works"),
            };
            ended.push(queue.finish(claim, outcome, TaskAmounts::default()).await.unwrap());
        }
    }

    /// Returns the texts that were sent since the last call.
    pub(crate) async fn take_sent(&self) -> Vec<String> {
        self.deliver().await;
        let sent = std::mem::take(&mut *self.kernel.sent.lock().unwrap());
        sent.into_iter().map(|message| message.text).collect()
    }

    /// Returns the texts that agents got.
    fn received_texts(&self) -> Vec<String> {
        self.kernel.messages.lock().unwrap().values().map(|it| it.text.clone()).collect()
    }
}

pub(crate) fn direct(chat: &str) -> ChannelConversation {
    ChannelConversation { id: chat.to_owned(), topic: None, is_group: false }
}

pub(crate) fn message(external_id: &str, chat: &str, peer: &str, text: &str) -> IncomingMessage {
    IncomingMessage {
        external_id: external_id.to_owned(),
        conversation: direct(chat),
        peer: ChannelPeer { id: peer.to_owned(), name: format!("Person {peer}") },
        text: text.to_owned(),
    }
}

pub(crate) fn in_group(message: IncomingMessage) -> IncomingMessage {
    let id = "g".to_owned();
    IncomingMessage {
        conversation: ChannelConversation { id, topic: None, is_group: true },
        ..message
    }
}

#[tokio::test]
async fn stranger_leaves_no_trace() {
    let scene = Scene::new();
    for text in ["hello", "/start", "/start AAAAA-AAAAA", "/new", "AAAAA-AAAAA"] {
        assert_eq!(scene.receive(message("1", "9", "9", text)).await, InboundOutcome::Refused);
    }
    assert!(fs::read_dir(scene.directory.path()).unwrap().next().is_none());
    // Nor in a home in which others are paired.
    scene.pair("1", ChannelRole::Owner, &[]).await;
    scene.take_sent().await;
    assert_eq!(scene.receive(message("1", "9", "9", "hello")).await, InboundOutcome::Refused);
    let group = in_group(message("2", "g", "9", "hello"));
    assert_eq!(scene.receive(group).await, InboundOutcome::Refused);
    assert_eq!((scene.take_sent().await, scene.received_texts()), (Vec::new(), Vec::new()));
}

#[tokio::test]
async fn code_is_ignored_in_groups() {
    let scene = Scene::new();
    let store = &scene.hub.store;
    let code = store.create_code("post", ChannelRole::Owner, Vec::new(), 1_000_000).await.unwrap();
    let start = format!("/start {}", code.code);
    let group = in_group(message("1", "g", "1", &start));
    assert_eq!(scene.receive(group).await, InboundOutcome::Refused);
    assert_eq!(scene.receive(message("2", "1", "1", &start)).await, InboundOutcome::Accepted);
    // Repeated, it is neither used again nor a message for the agent.
    assert_eq!(scene.receive(message("2", "1", "1", &start)).await, InboundOutcome::Duplicate);
    let sent = scene.take_sent().await;
    assert!(sent.len() == 1 && sent[0].starts_with("You are paired as owner."), "{sent:?}");
    assert_eq!(scene.received_texts(), Vec::<String>::new());
}

#[tokio::test]
async fn repeated_message_is_stored_once() {
    let scene = Scene::new();
    scene.pair("1", ChannelRole::Owner, &[]).await;
    let first = message("7", "1", "1", "Hello");
    assert_eq!(scene.receive(first.clone()).await, InboundOutcome::Accepted);
    assert_eq!(scene.receive(first).await, InboundOutcome::Duplicate);
    // The same id in another conversation is another message.
    let other = in_group(message("7", "g", "1", "Hello"));
    assert_eq!(scene.receive(other).await, InboundOutcome::Accepted);
    let messages: Vec<_> = scene.kernel.messages.lock().unwrap().values().cloned().collect();
    assert_eq!(messages.len(), 2);
    let group = messages.iter().find(|it| it.channel.as_ref().unwrap().is_group).unwrap();
    assert_eq!(group.text, "Person 1 (owner): Hello");
    assert_ne!(messages[0].thread, messages[1].thread);
    assert!(messages.iter().all(|it| it.workspaces.is_empty() && it.agent == "orchestrator_agent"));
}

#[tokio::test]
async fn revoked_person_is_a_stranger() {
    let scene = Scene::new();
    scene.pair("1", ChannelRole::Owner, &[]).await;
    scene.take_sent().await;
    assert!(scene.hub.store.revoke_peer("post", "1").await.unwrap());
    assert_eq!(scene.receive(message("8", "1", "1", "Hello")).await, InboundOutcome::Refused);
    assert_eq!((scene.take_sent().await, scene.received_texts()), (Vec::new(), Vec::new()));
}

#[tokio::test]
async fn planted_secrets_reach_no_store() {
    let scene = Scene::with_kernel(FakeKernel {
        secrets: vec!["swordfish-of-the-home".to_owned()],
        ..FakeKernel::default()
    });
    scene.kernel.settings.lock().unwrap().messages_per_minute = std::num::NonZeroU32::new(1_000);
    scene.pair("1", ChannelRole::Owner, &[]).await;
    let mut secrets = planted_secrets(300);
    secrets.push("swordfish-of-the-home".to_owned());
    for (number, secret) in secrets.iter().enumerate() {
        let texts =
            [format!("my key is {secret}"), format!("/answer 01k0000000000000000000000q {secret}")];
        for (part, text) in texts.iter().enumerate() {
            let external_id = format!("{number}-{part}");
            let mut planted = message(&external_id, "1", "1", text);
            planted.peer.name = secret.clone();
            assert_eq!(scene.receive(planted).await, InboundOutcome::Refused, "{text}");
        }
    }
    let tasks = TaskFilter { limit: 10_000, ..TaskFilter::default() };
    let tasks = scene.hub.queue.list(tasks).await.unwrap();
    let mut stored = String::new();
    for task in &tasks {
        stored.push_str(&scene.hub.queue.input(&task.id).await.unwrap().unwrap());
    }
    for entry in fs::read_dir(scene.directory.path()).unwrap() {
        stored.push_str(&String::from_utf8_lossy(&fs::read(entry.unwrap().path()).unwrap()));
    }
    stored.push_str(&format!("{:?}", scene.kernel.messages.lock().unwrap()));
    // Each secret without the name of a key in front of it.
    let bare = |secret: &str| secret.rsplit([' ', '=']).next().unwrap().to_owned();
    let found: Vec<_> = secrets.iter().filter(|secret| stored.contains(&bare(secret))).collect();
    assert_eq!(found, Vec::<&String>::new());
    let sent = scene.take_sent().await;
    let answers = sent.iter().filter(|text| text.contains("seems to contain a secret")).count();
    assert_eq!(answers, 2 * secrets.len(), "{:?}", sent.first());
}

#[tokio::test]
async fn flood_is_answered_once_per_minute() {
    let scene = Scene::new();
    scene.kernel.settings.lock().unwrap().messages_per_minute = std::num::NonZeroU32::new(5);
    scene.pair("1", ChannelRole::Owner, &[]).await;
    scene.take_sent().await;
    for number in 0..100 {
        scene.receive(message(&format!("f{number}"), "1", "1", "Hello")).await;
    }
    assert_eq!(scene.received_texts().len(), 5);
    let sent = scene.take_sent().await;
    assert!(sent.len() == 1 && sent[0].contains("more than 5 messages per minute"), "{sent:?}");
    let late = scene.receive(message("late", "1", "1", "Hello")).await;
    assert_eq!(late, InboundOutcome::Throttled { retry_after_ms: 12_000 });
    // A repeated message is a duplicate, also over the limit.
    let repeated = scene.receive(message("f0", "1", "1", "Hello")).await;
    assert_eq!(repeated, InboundOutcome::Duplicate);
    scene.advance(60_000);
    assert_eq!(scene.receive(message("g", "1", "1", "Hi")).await, InboundOutcome::Accepted);
}

#[tokio::test]
async fn large_text_is_answered_and_dropped() {
    let scene = Scene::new();
    scene.pair("1", ChannelRole::Owner, &[]).await;
    scene.take_sent().await;
    for (id, size) in [("a", 32 * 1024 + 1), ("b", 4 << 20)] {
        let large = message(id, "1", "1", &"x ".repeat(size / 2 + 1));
        assert_eq!(scene.receive(large).await, InboundOutcome::Refused);
        let sent = scene.take_sent().await;
        assert!(sent.len() == 1 && sent[0].contains("was not read"), "{sent:?}");
    }
    let fitting = message("c", "1", "1", &"x ".repeat(16 * 1024));
    assert_eq!(scene.receive(fitting).await, InboundOutcome::Accepted);
    assert_eq!(scene.received_texts().len(), 1);
}

#[tokio::test]
async fn guest_reaches_listed_agents_only() {
    let scene = Scene::new();
    scene.pair("1", ChannelRole::Guest, &["guide"]).await;
    scene.pair("2", ChannelRole::Guest, &[]).await;
    scene.take_sent().await;
    scene.receive(message("a", "1", "1", "Hello")).await;
    // No agent is listed in the settings.
    assert_eq!(scene.receive(message("b", "2", "2", "Hello")).await, InboundOutcome::Refused);
    assert!(scene.take_sent().await[0].contains("No agent is available to guests"));
    scene.kernel.settings.lock().unwrap().guests = vec!["host".to_owned()];
    scene.receive(message("c", "2", "2", "Hello")).await;
    // In the thread that an owner began with another agent, too.
    scene.pair("3", ChannelRole::Owner, &[]).await;
    scene.receive(in_group(message("d", "g", "3", "Hello"))).await;
    scene.receive(in_group(message("e", "g", "1", "Hello"))).await;
    let agents = |peer: &str| -> Vec<String> {
        let messages = scene.kernel.messages.lock().unwrap();
        let of_peer = messages.values().filter(|it| it.channel.as_ref().unwrap().peer.id == peer);
        of_peer.map(|it| it.agent.clone()).collect()
    };
    assert_eq!(agents("1"), ["guide", "guide"]);
    assert_eq!(
        (agents("2"), agents("3")),
        (vec!["host".into()], vec!["orchestrator_agent".into()])
    );
    // Commands about tasks and questions are for owners.
    scene.take_sent().await;
    for (id, text) in [("f", "/tasks"), ("h", "/inbox"), ("i", "/cancel 01k")] {
        scene.receive(message(id, "1", "1", text)).await;
        assert_eq!(scene.take_sent().await, ["This command is for owners."]);
    }
}

#[tokio::test]
async fn new_thread_begins_once() {
    let scene = Scene::new();
    scene.pair("1", ChannelRole::Owner, &[]).await;
    scene.receive(message("a", "1", "1", "Hello")).await;
    assert_eq!(scene.receive(message("b", "1", "1", "/new")).await, InboundOutcome::Accepted);
    scene.receive(message("c", "1", "1", "Hello")).await;
    // The platform repeats everything after a kill.
    for (id, text) in [("a", "Hello"), ("b", "/new"), ("c", "Hello")] {
        assert_eq!(scene.receive(message(id, "1", "1", text)).await, InboundOutcome::Duplicate);
    }
    scene.receive(message("d", "1", "1", "Hello")).await;
    let messages = scene.kernel.messages.lock().unwrap().clone();
    let mut threads: Vec<_> = messages.values().map(|it| it.thread.as_str()).collect();
    threads.sort_unstable();
    assert_eq!(threads, ["t0", "t1", "t1"]);
    let sent = scene.take_sent().await;
    assert_eq!(sent.iter().filter(|text| text.contains("new thread")).count(), 1, "{sent:?}");
}

#[tokio::test]
async fn invalid_ids_are_rejected() {
    let scene = Scene::new();
    let long = "x".repeat(257);
    for (external_id, chat, peer) in [("", "1", "1"), ("1", "", "1"), ("1", "1", &*long)] {
        let error = scene.hub.receive_message("post", message(external_id, chat, peer, "Hi")).await;
        assert_eq!(error.unwrap_err().kind, ErrorKind::InvalidArgument);
    }
}

#[tokio::test]
async fn damaged_file_turns_channels_off() {
    let scene = Scene::new();
    let path = scene.directory.path().join("channels.db");
    fs::write(&path, "damaged ".repeat(200)).unwrap();
    let error = scene.hub.receive_message("post", message("1", "1", "1", "Hi")).await.unwrap_err();
    // The platform keeps the message.
    assert_eq!(error.kind, ErrorKind::Io);
    assert_eq!(fs::read_to_string(&path).unwrap(), "damaged ".repeat(200));
}
