//! An MCP server with the fixture tools of the conformance suite's scenarios `tasks-*`.
//!
//! The tools run in this process over a queue in memory, so that the suite checks the protocol
//! alone. The argument is the address to listen on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use skillhost_events::Clock;
use skillhost_home::McpReviewMode;
use skillhost_mcp::http::{AccessPolicy, serve_http};
use skillhost_mcp::{
    Backend, BackendError, ChangeCounter, ClientLimits, ClientSession, ClientTasks, McpServer,
    PromptArguments,
};
use skillhost_payload::{
    PublishedBody, PublishedDetails, PublishedEntry, PublishedSkills, ToolOutput, ToolSpec,
};
use skillhost_tasks::{
    ClaimFilter, ClaimedTask, FailureReason, HeartbeatStatus, MemoryQueue, NewQuestion, NewWait,
    QuestionKind, TaskAmounts, TaskId, TaskOutcome, TaskQuery, TaskQueue,
};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The length of a lease; the worker lives as long as the queue.
const LEASE: Duration = Duration::from_secs(3_600);

/// The backend with the fixture tools.
struct FixtureBackend {
    tasks: ClientTasks,
    changes: watch::Sender<ChangeCounter>,
}

#[async_trait]
impl Backend for FixtureBackend {
    fn instructions(&self) -> String {
        String::new()
    }

    async fn tools(&self, _: &ClientSession) -> Result<Vec<ToolSpec>, BackendError> {
        let tool = |name: &str, task: &str, properties: Value| {
            json!({
                "name": name, "description": name, "task": task,
                "input_schema": { "type": "object", "properties": properties },
            })
        };
        let seconds = json!({ "seconds": { "type": "number" }, "label": { "type": "string" } });
        let asked = json!({ "name": { "type": "string", "x-skillhost-ask": "Your name?" } });
        let all = [
            tool("greet", "never", json!({ "name": { "type": "string" } })),
            tool("slow_compute", "may", seconds),
            tool("failing_job", "must", json!({})),
            tool("protocol_error_job", "may", json!({})),
            tool("confirm_delete", "may", json!({ "filename": { "type": "string" } })),
            tool("multi_input", "may", json!({})),
            tool("test_tool_with_task", "must", asked),
        ];
        let specs = all.into_iter().map(serde_json::from_value).collect::<Result<_, _>>();
        specs.map_err(|error| BackendError::not_found(error.to_string()))
    }

    async fn call(
        &self,
        _: &ClientSession,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Result<Option<ToolOutput>, BackendError> {
        Ok(match run_tool(name, arguments).await {
            TaskOutcome::Completed { text, is_error, .. } => {
                Some(ToolOutput { text, is_error, ..ToolOutput::default() })
            }
            _ => None,
        })
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
        Ok(Vec::new())
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

    fn tasks(&self) -> Option<&ClientTasks> {
        Some(&self.tasks)
    }

    fn changes(&self) -> watch::Receiver<ChangeCounter> {
        self.changes.subscribe()
    }
}

/// Executes a tool that asks nothing.
async fn run_tool(name: &str, arguments: &Map<String, Value>) -> TaskOutcome {
    let completed =
        |text: String, is_error| TaskOutcome::Completed { text, structured: None, is_error };
    let text = |key: &str| arguments.get(key).and_then(Value::as_str).unwrap_or_default();
    match name {
        "test_tool_with_task" => {
            // Longer than the time in which the result would be the answer.
            tokio::time::sleep(Duration::from_secs(1)).await;
            completed(format!("Hello, {}!", text("name")), false)
        }
        "greet" => completed(format!("Hello, {}!", text("name")), false),
        "slow_compute" => {
            let seconds = arguments.get("seconds").and_then(Value::as_f64).unwrap_or_default();
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
            completed(format!("computed {}", text("label")), false)
        }
        "failing_job" => {
            tokio::time::sleep(Duration::from_secs(1)).await;
            completed("the job failed".to_owned(), true)
        }
        _ => {
            tokio::time::sleep(Duration::from_secs(1)).await;
            TaskOutcome::failed(FailureReason::Crash, "the job panicked")
        }
    }
}

/// Claims tasks and executes each one on its own.
async fn work(queue: TaskQueue) {
    loop {
        let claimed = queue.claim("fixture", ClaimFilter::default(), 64, LEASE).await;
        for task in claimed.unwrap_or_default() {
            tokio::spawn(execute(queue.clone(), task));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn execute(queue: TaskQueue, claimed: ClaimedTask) {
    let ClaimedTask { task, input } = claimed;
    let Some(claim) = task.current_claim() else { return };
    let questions: &[&str] = match &*task.target {
        "confirm_delete" => &["confirm"],
        "multi_input" => &["first", "second"],
        _ => &[],
    };
    let answers = answers(&queue, &task.id).await;
    let outcome = if answers.len() < questions.len() {
        let questions = questions.iter().map(|call| new_question(call)).collect();
        // Parked: the answer makes the task due again.
        let _ = queue.wait(claim, NewWait { questions, ..NewWait::default() }).await;
        return;
    } else if questions.is_empty() {
        let arguments: Map<String, Value> = serde_json::from_str(&input).unwrap_or_default();
        let cancelled = async {
            loop {
                tokio::time::sleep(Duration::from_millis(50)).await;
                let beats = queue.heartbeat(vec![claim.clone()], LEASE).await.unwrap_or_default();
                if beats.first() != Some(&HeartbeatStatus::Kept) {
                    return;
                }
            }
        };
        tokio::select! {
            outcome = run_tool(&task.target, &arguments) => outcome,
            () = cancelled => TaskOutcome::Cancelled { by: "the client".to_owned() },
        }
    } else {
        let text = format!("answers: {answers:?}");
        TaskOutcome::Completed { text, structured: None, is_error: false }
    };
    let _ = queue.finish(claim, outcome, TaskAmounts::default()).await;
}

/// Returns the answers to the questions of a task.
async fn answers(queue: &TaskQueue, task: &TaskId) -> BTreeMap<String, Option<String>> {
    let task = Some(task.clone());
    let query = TaskQuery::Questions { state: None, kind: None, task, thread: None, limit: 10 };
    let questions = queue.questions(query).await.unwrap_or_default();
    questions.into_iter().map(|question| (question.call, question.choice)).collect()
}

fn new_question(call: &str) -> NewQuestion {
    let form = json!({ "type": "object", "properties": { "confirm": { "type": "boolean" } } });
    NewQuestion {
        id: TaskId::generate().to_string(),
        thread: None,
        kind: QuestionKind::Choice,
        asker: "fixture".to_owned(),
        call: call.to_owned(),
        title: call.to_owned(),
        subject: json!({ "question": format!("{call}?"), "form": form }).to_string(),
        options: Vec::new(),
    }
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let queue = TaskQueue::new(Arc::new(MemoryQueue::new(Clock::system())));
    tokio::spawn(work(queue.clone()));
    let tasks = ClientTasks::new(queue, McpReviewMode::Off, Arc::new(|| true));
    let backend = FixtureBackend { tasks, changes: watch::Sender::default() };
    let server = McpServer::new(Arc::new(backend), ClientLimits::default(), "0");
    let listener = TcpListener::bind(address).await?;
    let access = AccessPolicy::default();
    serve_http(&server, listener, access, CancellationToken::new()).await
}
