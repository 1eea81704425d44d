//! Tests of the protocol with a queue in memory and a worker that each test steers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use skillhost_events::Clock;
use skillhost_home::McpReviewMode;
use skillhost_tasks::{
    ClaimFilter, FailureReason, MemoryQueue, NewQuestion, NewWait, QuestionKind, QuestionState,
    SubmitterOrigin, TaskAmounts, TaskClaim, TaskFilter, TaskOutcome, TaskProgress, TaskQueue,
    TaskSubmitter,
};

use crate::backend::ClientTasks;
use crate::limits::ClientLimits;
use crate::server::tests::Client;
use crate::stub::StubBackend;

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// A client and the queue of its tasks.
struct TaskBench {
    client: Client,
    queue: TaskQueue,
    is_served: Arc<AtomicBool>,
}

impl TaskBench {
    fn new() -> Self {
        let queue = TaskQueue::new(Arc::new(MemoryQueue::new(Clock::system())));
        Self::with_queue(queue, McpReviewMode::Off)
    }

    fn with_queue(queue: TaskQueue, consents: McpReviewMode) -> Self {
        let is_served = Arc::new(AtomicBool::new(true));
        let served = Arc::clone(&is_served);
        let served = Arc::new(move || served.load(Ordering::Relaxed));
        let tasks = ClientTasks::new(queue.clone(), consents, served);
        let backend = StubBackend { tasks: Some(tasks), ..StubBackend::new(0) };
        // No worker answers in these tests before the time is over.
        let task_answer = Duration::ZERO;
        let limits = ClientLimits { task_answer, ..ClientLimits::default() };
        Self { client: Client::with_backend(backend, limits), queue, is_served }
    }

    async fn request(&mut self, method: &str, mut params: Value, capabilities: Value) -> Value {
        let meta = params["_meta"].take();
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        if let Value::Object(meta) = meta {
            params["_meta"].as_object_mut().unwrap().extend(meta);
        }
        self.client.request(method, &params).await
    }

    /// Sends a request of a client that polls tasks and shows forms.
    async fn polling(&mut self, method: &str, params: Value) -> Value {
        let capabilities = json!({ "extensions": { EXTENSION: {} }, "elicitation": {} });
        self.request(method, params, capabilities).await
    }

    /// Submits a call and returns the handle of its task.
    async fn submit(&mut self) -> String {
        let made = self.polling("tools/call", json!({ "name": "must_wait" })).await;
        assert_eq!(made["result"]["resultType"], "task", "{made}");
        made["result"]["taskId"].as_str().unwrap().to_owned()
    }

    async fn get(&mut self, handle: &str) -> Value {
        self.polling("tasks/get", json!({ "taskId": handle })).await["result"].take()
    }

    /// Claims the only task.
    async fn claim(&self) -> TaskClaim {
        let lease = Duration::from_secs(30);
        let claimed = self.queue.claim("w", ClaimFilter::default(), 2, lease).await.unwrap();
        assert_eq!(claimed.len(), 1);
        claimed[0].task.current_claim().unwrap()
    }

    async fn finish(&self, outcome: TaskOutcome) {
        let claim = self.claim().await;
        self.queue.finish(claim, outcome, TaskAmounts::default()).await.unwrap();
    }

    /// Lets the only task wait for questions of a kind, named after the calls.
    async fn ask(&self, kind: QuestionKind, calls: &[&str], options: &[&str]) -> Vec<String> {
        let claim = self.claim().await;
        let ask = |call: &&str| NewQuestion {
            id: format!("id-{call}"),
            thread: None,
            kind,
            asker: "a".to_owned(),
            call: (*call).to_owned(),
            title: String::new(),
            subject: json!({ "question": call }).to_string(),
            options: options.iter().map(ToString::to_string).collect(),
        };
        let questions = calls.iter().map(ask).collect();
        self.queue.wait(claim, NewWait { questions, ..NewWait::default() }).await.unwrap();
        calls.iter().map(|call| format!("id-{call}")).collect()
    }

    async fn state_of(&self, question: &str) -> (QuestionState, Option<String>) {
        let found = self.queue.question(question).await.unwrap().unwrap();
        (found.state, found.choice)
    }
}

fn completed(text: &str, is_error: bool) -> TaskOutcome {
    TaskOutcome::Completed { text: text.to_owned(), structured: None, is_error }
}

fn accept(answer: &str) -> Value {
    json!({ "action": "accept", "content": { "answer": answer } })
}

#[tokio::test]
async fn undeclared_client_gets_plain_results() {
    let mut bench = TaskBench::new();
    let call = |name: &str| json!({ "name": name });
    let plain = bench.request("tools/call", call("may_wait"), json!({})).await;
    assert_eq!(plain["result"]["content"][0]["text"], "routed", "{plain}");
    let missing = bench.request("tools/call", call("must_wait"), json!({})).await;
    assert_eq!(missing["error"]["code"], -32021, "{missing}");
    let required = &missing["error"]["data"]["requiredCapabilities"]["extensions"];
    assert_eq!(required, &json!({ EXTENSION: {} }));
    for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
        let params = json!({ "taskId": "x", "inputResponses": {} });
        let missing = bench.request(method, params, json!({})).await;
        assert_eq!(missing["error"]["code"], -32021, "{method} {missing}");
    }
    // A tool that never becomes a task answers in the request, whatever the client can.
    let plain = bench.polling("tools/call", call("route")).await;
    assert_eq!(plain["result"]["resultType"], "complete", "{plain}");
}

#[tokio::test]
async fn call_without_kernel_is_honest() {
    let mut bench = TaskBench::new();
    bench.is_served.store(false, Ordering::Relaxed);
    let plain = bench.polling("tools/call", json!({ "name": "may_wait" })).await;
    assert_eq!(plain["result"]["resultType"], "complete", "{plain}");
    let failed = bench.polling("tools/call", json!({ "name": "must_wait" })).await;
    assert_eq!(failed["result"]["isError"], true, "{failed}");
    let text = failed["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("run: skillhost run"), "{text}");
    assert!(bench.queue.counts().await.unwrap().is_empty());
}

#[tokio::test]
async fn task_is_polled_until_completed() {
    let mut bench = TaskBench::new();
    let call = json!({ "name": "may_wait", "arguments": { "n": 1 } });
    let made = bench.polling("tools/call", call).await["result"].take();
    let seed = (&made["resultType"], &made["status"], &made["ttlMs"], &made["pollIntervalMs"]);
    assert_eq!(seed, (&json!("task"), &json!("working"), &json!(null), &json!(1000)), "{made}");
    let handle = made["taskId"].as_str().unwrap();
    assert_eq!(bench.get(handle).await["statusMessage"], "waits for a worker");
    let claim = bench.claim().await;
    let task = bench.queue.find(&claim.task).await.unwrap().unwrap();
    assert_eq!((&*task.target, &*task.scope), ("may_wait", "mcp:stdio"));
    assert_eq!(bench.queue.input(&task.id).await.unwrap().unwrap(), "{\"n\":1}");
    let progress = TaskProgress { done: 1.0, total: Some(2.0), text: "tests".to_owned() };
    let spent = TaskAmounts::default();
    bench.queue.record(claim.clone(), Vec::new(), spent, Some(progress)).await.unwrap();
    assert_eq!(bench.get(handle).await["statusMessage"], "1 of 2: tests");
    bench.queue.finish(claim, completed("done", false), spent).await.unwrap();
    let done = bench.get(handle).await;
    assert_eq!((&done["status"], &done["resultType"]), (&json!("completed"), &json!("complete")));
    assert_eq!(done["result"]["content"][0]["text"], "done");
    let ttl = done["ttlMs"].as_u64().unwrap();
    assert!((2_592_000_000..2_592_600_000).contains(&ttl), "{ttl}");
    assert_eq!(done.get("pollIntervalMs"), None);
}

#[tokio::test]
async fn only_protocol_errors_fail_tasks() {
    for (reason, status) in [
        (FailureReason::Error, "completed"),
        (FailureReason::Budget, "completed"),
        (FailureReason::Deadline, "completed"),
        (FailureReason::Dependency, "completed"),
        (FailureReason::Lost, "failed"),
        (FailureReason::Crash, "failed"),
        (FailureReason::Target, "failed"),
    ] {
        let mut bench = TaskBench::new();
        let handle = bench.submit().await;
        bench.finish(TaskOutcome::failed(reason, "why")).await;
        let ended = bench.get(&handle).await;
        assert_eq!(ended["status"], status, "{reason:?} {ended}");
        if status == "completed" {
            assert_eq!(ended["result"]["isError"], true);
            assert_eq!(ended["result"]["content"][0]["text"], "why");
            assert_eq!(ended.get("error"), None);
        } else {
            let code = if reason == FailureReason::Target { -32602 } else { -32603 };
            assert_eq!(
                (&ended["error"]["code"], &ended["error"]["message"]),
                (&json!(code), &json!("why"))
            );
            assert_eq!(ended.get("result"), None);
        }
    }
    let mut bench = TaskBench::new();
    let handle = bench.submit().await;
    bench.finish(completed("no", true)).await;
    let ended = bench.get(&handle).await;
    assert_eq!(
        (&ended["status"], &ended["result"]["isError"]),
        (&json!("completed"), &json!(true))
    );
}

#[tokio::test]
async fn answers_are_taken_in_parts() {
    let mut bench = TaskBench::new();
    let handle = bench.submit().await;
    let ids = bench.ask(QuestionKind::Choice, &["one", "two"], &[]).await;
    let asked = bench.get(&handle).await;
    assert_eq!(asked["status"], "input_required", "{asked}");
    assert_eq!(asked["inputRequests"].as_object().unwrap().len(), 2);
    // A client that cannot show forms waits for the answer of another person.
    let capabilities = json!({ "extensions": { EXTENSION: {} } });
    let other = bench.request("tasks/get", json!({ "taskId": handle }), capabilities).await;
    assert_eq!(other["result"]["status"], "working", "{other}");
    let message = other["result"]["statusMessage"].as_str().unwrap();
    assert_eq!(message, "waits for an answer of the operator");
    let update = |responses: Value| json!({ "taskId": handle, "inputResponses": responses });
    // One invalid answer stores none.
    let invalid = update(json!({ &*ids[0]: accept("a"), &*ids[1]: { "action": "accept" } }));
    let refused = bench.polling("tasks/update", invalid).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert_eq!(bench.state_of(&ids[0]).await.0, QuestionState::Open);
    let part = update(json!({ &*ids[0]: accept("a"), "unknown": { "x": 1 } }));
    let stored = bench.polling("tasks/update", part).await;
    assert_eq!(stored["result"], json!({ "resultType": "complete" }));
    let asked = bench.get(&handle).await;
    let open: Vec<_> = asked["inputRequests"].as_object().unwrap().keys().collect();
    assert_eq!((&asked["status"], open), (&json!("input_required"), vec![&ids[1]]));
    // An answered key and a dismissed form change nothing.
    let again = update(json!({ &*ids[0]: accept("b"), &*ids[1]: { "action": "cancel" } }));
    bench.polling("tasks/update", again).await;
    assert_eq!(bench.state_of(&ids[0]).await, (QuestionState::Decided, Some("a".to_owned())));
    assert_eq!(bench.state_of(&ids[1]).await.0, QuestionState::Open);
    bench.polling("tasks/update", update(json!({ &*ids[1]: { "action": "decline" } }))).await;
    assert_eq!(bench.state_of(&ids[1]).await.0, QuestionState::Withdrawn);
    assert_eq!(bench.get(&handle).await["status"], "working");
    let decider = bench.queue.question(&ids[0]).await.unwrap().unwrap().decider.unwrap();
    assert_eq!((&*decider.name, &*decider.surface), ("mcp:test", "mcp"));
}

#[tokio::test]
async fn consent_requires_setting() {
    let decide = |id: &str, decision: &str| {
        let content = json!({ "decision": decision });
        json!({ id: { "action": "accept", "content": content } })
    };
    for (mode, status, choice) in [
        (McpReviewMode::Off, "working", None),
        (McpReviewMode::Elicitation, "input_required", Some("approve".to_owned())),
    ] {
        let queue = TaskQueue::new(Arc::new(MemoryQueue::new(Clock::system())));
        let mut bench = TaskBench::with_queue(queue, mode);
        let handle = bench.submit().await;
        let ids = bench.ask(QuestionKind::Consent, &["c"], &["approve", "refuse"]).await;
        assert_eq!(bench.get(&handle).await["status"], status);
        let update = json!({ "taskId": handle, "inputResponses": decide(&ids[0], "approve") });
        let stored = bench.polling("tasks/update", update).await;
        assert_eq!(stored["result"]["resultType"], "complete", "{stored}");
        assert_eq!(bench.state_of(&ids[0]).await.1, choice);
    }
    let queue = TaskQueue::new(Arc::new(MemoryQueue::new(Clock::system())));
    let mut bench = TaskBench::with_queue(queue, McpReviewMode::Elicitation);
    let handle = bench.submit().await;
    let ids = bench.ask(QuestionKind::Consent, &["c"], &["approve", "refuse"]).await;
    let declined = json!({ &*ids[0]: { "action": "decline" } });
    let update = json!({ "taskId": handle, "inputResponses": declined });
    bench.polling("tasks/update", update).await;
    assert_eq!(bench.state_of(&ids[0]).await.1.as_deref(), Some("refuse"));
}

#[tokio::test]
async fn cancelled_task_stays_cancelled() {
    let mut bench = TaskBench::new();
    let handle = bench.submit().await;
    for _ in 0..2 {
        let stored = bench.polling("tasks/cancel", json!({ "taskId": handle })).await;
        assert_eq!(stored["result"], json!({ "resultType": "complete" }));
        let ended = bench.get(&handle).await;
        assert_eq!(
            (&ended["status"], &ended["statusMessage"]),
            (&json!("cancelled"), &json!("cancelled by mcp:test"))
        );
    }
}

#[tokio::test]
async fn foreign_handle_is_unknown() {
    let mut bench = TaskBench::new();
    let own = bench.submit().await;
    let task = bench.claim().await.task;
    let sha256 = hash_handle("stolen");
    bench.queue.bind_handle(sha256, task, "mcp:http".to_owned()).await.unwrap();
    let mut errors = Vec::new();
    for handle in ["stolen", "unknown", "", &"x".repeat(100_000), &own.to_uppercase()] {
        for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
            let params = json!({ "taskId": handle, "inputResponses": {} });
            errors.push(bench.polling(method, params).await["error"].take());
        }
    }
    assert_eq!(errors[0]["code"], -32602);
    assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
    assert_eq!(bench.get(&own).await["status"], "working");
}

#[tokio::test]
async fn key_returns_the_same_task() {
    let mut bench = TaskBench::new();
    let call = |n: u64| {
        let meta = json!({ "skillhost/key": "k" });
        json!({ "name": "must_wait", "arguments": { "n": n }, "_meta": meta })
    };
    let first = bench.polling("tools/call", call(1)).await["result"].take();
    let second = bench.polling("tools/call", call(1)).await["result"].take();
    assert_ne!(first["taskId"], second["taskId"]);
    let conflict = bench.polling("tools/call", call(2)).await;
    assert_eq!(conflict["error"]["code"], -32602, "{conflict}");
    assert!(conflict["error"]["message"].as_str().unwrap().starts_with("key `k` belongs"));
    bench.finish(completed("once", false)).await;
    for made in [first, second] {
        let ended = bench.get(made["taskId"].as_str().unwrap()).await;
        assert_eq!(ended["result"]["content"][0]["text"], "once");
    }
    // The result of the earlier call is the answer of a repeated one.
    let repeated = bench.polling("tools/call", call(1)).await;
    assert_eq!(repeated["result"]["resultType"], "complete", "{repeated}");
    let mut invalid = call(1);
    invalid["_meta"]["skillhost/key"] = json!(7);
    assert_eq!(bench.polling("tools/call", invalid).await["error"]["code"], -32602);
    let mut large = call(1);
    large["arguments"]["text"] = "x".repeat(300_000).into();
    let large = bench.polling("tools/call", large).await;
    assert_eq!(large["error"]["code"], -32602, "{large}");
}

#[tokio::test]
async fn client_cannot_name_the_submitter() {
    let mut bench = TaskBench::new();
    let forged = json!({
        "origin": "operator", "agent": "worker", "thread": "t", "principal": "mcp:http",
        "correlation_id": "event-1",
    });
    let call = json!({
        "name": "must_wait",
        "arguments": { "submitter": forged, "origin": "operator", "scope": "event" },
        "submitter": forged,
        "origin": "operator",
        "_meta": {
            "skillhost/key": "k",
            "skillhost/origin": "operator",
            "skillhost/submitter": forged,
            "skillhost/principal": "mcp:http",
            "origin": "operator",
            "submitter": forged,
            "io.modelcontextprotocol/clientInfo": { "name": "operator", "version": "1" },
        },
    });
    let made = bench.polling("tools/call", call).await;
    assert_eq!(made["result"]["resultType"], "task", "{made}");
    let task = bench.queue.list(TaskFilter::default()).await.unwrap().remove(0);
    let submitter = TaskSubmitter {
        origin: SubmitterOrigin::Mcp,
        agent: Some("mcp:operator".to_owned()),
        principal: Some("mcp:stdio".to_owned()),
        ..TaskSubmitter::default()
    };
    assert_eq!(task.submitter, submitter);
    let places = (task.scope.as_str(), task.key.as_deref(), task.lane, task.parent);
    assert_eq!(places, ("mcp:stdio", Some("k"), None, None));
}

#[tokio::test]
async fn missing_argument_is_asked_before_the_task() {
    let mut bench = TaskBench::new();
    let call = json!({ "name": "asks", "arguments": { "n": 1 } });
    let asked = bench.polling("tools/call", call.clone()).await["result"].take();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let form = &asked["inputRequests"]["arguments"]["params"];
    assert_eq!(form["message"], "Your name?");
    assert_eq!(form["requestedSchema"]["properties"], json!({ "name": { "type": "string" } }));
    assert!(bench.queue.counts().await.unwrap().is_empty());
    let mut answered = call.clone();
    let content = json!({ "name": "Ada", "n": 2 });
    answered["inputResponses"] = json!({ "arguments": { "action": "accept", "content": content } });
    let made = bench.polling("tools/call", answered).await["result"].take();
    assert_eq!(made["resultType"], "task", "{made}");
    let task = bench.claim().await.task;
    let input = bench.queue.input(&task).await.unwrap().unwrap();
    assert_eq!(input, "{\"n\":1,\"name\":\"Ada\"}");
    // Without an answer or a form, the tool decides about its arguments.
    let mut declined = call.clone();
    declined["inputResponses"] = json!({ "arguments": { "action": "decline" } });
    let made = bench.polling("tools/call", declined).await;
    assert_eq!(made["result"]["resultType"], "task", "{made}");
    let capabilities = json!({ "extensions": { EXTENSION: {} } });
    let made = bench.request("tools/call", call, capabilities).await;
    assert_eq!(made["result"]["resultType"], "task", "{made}");
}

fn hash_handle(text: &str) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}
