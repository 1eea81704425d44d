//! Messages of people across restarts: accepted once, answered once.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use skillhost_agents::{RunError, RunRequest};
use skillhost_conversation::{MessageStatus, Thread, ThreadStore};
use skillhost_core::KernelLimits;
use skillhost_events::topic;
use skillhost_payload::Event;
use tokio::sync::Notify;

use super::stage::{
    Person, Stage, Step, answer, assistant, called, calls, saying, says, user, worker,
};
use crate::fixture::{next, patient};

fn message(id: &str, prompt: &str) -> RunRequest {
    let (prompt, message_id) = (prompt.to_owned(), Some(id.to_owned()));
    RunRequest { prompt, message_id, ..RunRequest::default() }
}

/// Limits without time for endless operations.
fn hurried() -> KernelLimits {
    KernelLimits { rest: Duration::ZERO, drain: Duration::ZERO, ..patient() }
}

fn silent_user() -> Arc<Person> {
    Arc::default()
}

/// Waits until the kernel drains a run that never ends.
async fn made_to_rest(stage: &Stage, request: RunRequest, asked: &Notify) -> (Thread, RunError) {
    let mut thread = stage.thread();
    let person = silent_user();
    let run = stage.run(&mut thread, request, &person);
    let rest = async {
        asked.notified().await;
        stage.fixture.kernel.drain_runs().await;
    };
    let (ended, ()) = tokio::join!(run, rest);
    (thread, ended.expect_err("it stops"))
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_message_gets_one_reply() {
    let stage = Stage::set(worker(""), vec![("worker", vec![says("Tea."), says("Milk.")])]).await;
    let mut thread = stage.thread();
    let first = stage.run(&mut thread, message("m1", "What is it?"), &silent_user()).await.unwrap();
    let again = stage.run(&mut thread, message("m1", "What is it?"), &silent_user()).await.unwrap();
    assert_eq!((first.text, first.turns), ("Tea.".to_owned(), 1));
    assert_eq!((again.text, again.turns), ("Tea.".to_owned(), 0));
    stage.run(&mut thread, message("m2", "And this?"), &silent_user()).await.unwrap();
    let said = [user("What is it?"), assistant("Tea."), user("And this?"), assistant("Milk.")];
    assert_eq!(thread.messages(), said);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn superseded_message_gets_no_reply() {
    let stage = Stage::set(worker(""), vec![("worker", vec![says("Milk.")])]).await;
    let mut thread = stage.thread();
    thread.push_user_message("What is it?".into(), "m1".into()).await.unwrap();
    stage.say(&mut thread, "And this?").await.unwrap();
    let late =
        stage.run(&mut thread, message("m1", "What is it?"), &silent_user()).await.unwrap_err();
    assert!(matches!(late, RunError::Superseded), "{late}");
    assert_eq!(stage.asked("worker").len(), 1);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn drained_run_resumes_in_next_kernel() {
    let asked = Arc::new(Notify::new());
    let question = saying("1", "a", "tea");
    let script = vec![calls([question.clone()]), Step::Hang(Arc::clone(&asked))];
    let stage = Stage::set_with(worker(""), vec![("worker", script)], hurried(), None).await;
    let (thread, ended) = made_to_rest(&stage, message("m1", "What is it?"), &asked).await;
    assert!(matches!(ended, RunError::Restarting), "{ended}");
    let before = [user("What is it?"), called([question]), answer("1", "a", "tea")];
    assert_eq!(
        (thread.messages(), thread.message_status("m1")),
        (&before[..], Some(MessageStatus::Open))
    );
    // A new message is accepted, and has to wait as well.
    let mut other = stage.thread();
    let late = stage.run(&mut other, message("m2", "And I?"), &silent_user()).await.unwrap_err();
    assert!(matches!(late, RunError::Restarting), "{late}");
    let id = thread.id().to_owned();
    drop(thread);
    let (kernel, home) = (stage.fixture.kernel, stage.fixture.home);
    kernel.shutdown().await;

    let stage = Stage::set(home, vec![("worker", vec![says("It is tea.")])]).await;
    let mut thread = ThreadStore::new(stage.fixture.kernel.home()).open(&id).unwrap();
    let person = silent_user();
    let outcome = stage.run(&mut thread, message("m1", "What is it?"), &person).await.unwrap();
    assert_eq!((outcome.text.as_str(), outcome.turns), ("It is tea.", 1));
    assert_eq!(thread.messages(), [&before[..], &[assistant("It is tea.")]].concat());
    let note = "run continues where it stopped";
    assert_eq!(person.notes(), [note]);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unresumable_run_is_cancelled_at_shutdown() {
    let asked = Arc::new(Notify::new());
    let script = vec![Step::Hang(Arc::clone(&asked))];
    let stage = Stage::set_with(worker(""), vec![("worker", script)], hurried(), None).await;
    let request = RunRequest { prompt: "What is it?".into(), ..RunRequest::default() };
    let (thread, ended) = made_to_rest(&stage, request, &asked).await;
    assert!(matches!(ended, RunError::Cancelled), "{ended}");
    assert_eq!(thread.messages(), [user("What is it?")]);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redelivered_message_gets_one_reply() {
    let stage = Stage::set(worker(""), vec![("worker", vec![says("Tea."), says("No.")])]).await;
    let kernel = &stage.fixture.kernel;
    let mut events = kernel.events().subscribe_all();
    kernel.start_event_delivery().await.unwrap();
    let thread = stage.thread().id().to_owned();
    let publish = async |key: &str, message_id: &str| {
        let payload = json!({
            "message_id": message_id, "thread": thread, "agent": "worker", "text": "What is it?",
        });
        let payload = serde_json::value::to_raw_value(&payload).unwrap();
        let event = Event::new(topic::USER_MESSAGE, "operator", payload);
        kernel.events().publish(Event { key: Some(key.to_owned()), ..event }).await.unwrap();
    };
    // The same message as two events, as if the first had not been acknowledged.
    publish("m1", "m1").await;
    publish("m1-again", "m1").await;
    publish("m2", "m2").await;
    let mut replies = Vec::new();
    for _ in 0..2 {
        let replied = next(&mut events, topic::AGENT_REPLIED).await;
        let reported: serde_json::Value = serde_json::from_str(replied.payload.get()).unwrap();
        assert_eq!(replied.correlation_id.as_deref(), reported["message_id"].as_str());
        replies.push((reported["message_id"].clone(), reported["outcome"]["text"].clone()));
    }
    assert_eq!(replies, [(json!("m1"), json!("Tea.")), (json!("m2"), json!("No."))]);
    assert_eq!(stage.asked("worker").len(), 2);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn event_of_extension_names_no_workspace() {
    let stage = Stage::set(worker(""), vec![("worker", vec![says("One."), says("Two.")])]).await;
    let kernel = &stage.fixture.kernel;
    let mut events = kernel.events().subscribe_all();
    kernel.start_event_delivery().await.unwrap();
    stage.fixture.home.write("docs/a.md", "text");
    for (id, source) in [("m1", "operator"), ("m2", "worker")] {
        let payload = json!({
            "message_id": id, "thread": stage.thread().id(), "agent": "worker", "text": "Look",
            "workspaces": [{"label": "project", "path": "docs", "access": "write"}],
        });
        let payload = serde_json::value::to_raw_value(&payload).unwrap();
        kernel.events().publish(Event::new(topic::USER_MESSAGE, source, payload)).await.unwrap();
        next(&mut events, topic::AGENT_REPLIED).await;
    }
    let requests = stage.asked("worker");
    let names = |number: usize| requests[number].system.contains("workspace:project");
    assert_eq!((requests.len(), names(0), names(1)), (2, true, false));
    stage.end().await;
}
