//! Calls that a crash interrupts: made again, decided by a person, or parked.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use skillhost_agents::{RunError, RunRequest};
use skillhost_conversation::{
    ApprovalDecision, Message, MessageStatus, ModelErrorKind, ModelToolCall, PersonReply, Thread,
    ThreadStore, UncertainDecision,
};
use skillhost_payload::{CallContext, ErrorKind};
use test_support::TestHome;

use super::stage::{
    Person, Stage, Step, agent, answer, call, calls, failure, limits, saying, says, user, worker,
};
use crate::fixture::{Gate, home_with, misbehaving};

const CUT_OFF: &str = "the run was cut off before this call was answered; it may have happened";

/// A worker whose tool `a` has an effect.
fn effective(effect: &str, rest: &str) -> TestHome {
    let config = format!("config: {{effect: {effect}, {rest}}}");
    agent(home_with("a", &config), "worker", "uses_tools: [a], parallel_tool_calls: false")
}

/// A call that hangs at its first attempt.
fn hanging(id: &str) -> ModelToolCall {
    call(id, "a", &json!({"do": "key", "hang": true}))
}

fn message() -> RunRequest {
    let (prompt, message_id) = ("Do it".to_owned(), Some("m1".to_owned()));
    RunRequest { prompt, message_id, ..RunRequest::default() }
}

/// Runs the message until its call hangs, and drops the run as a crash does. Returns the thread as
/// the next process opens it.
async fn crash(stage: &Stage, gate: &Gate, mut thread: Thread, person: &Arc<Person>) -> Thread {
    let held = tokio::select! {
        ended = stage.run(&mut thread, message(), person) => panic!("it ended: {ended:?}"),
        held = gate.reached("a a") => held,
    };
    held.given_up().await;
    reopen(stage, thread)
}

fn reopen(stage: &Stage, thread: Thread) -> Thread {
    let id = thread.id().to_owned();
    drop(thread);
    let threads = ThreadStore::new(stage.fixture.kernel.home());
    tokio::task::block_in_place(|| threads.open(&id)).expect("the thread opens again")
}

/// Returns the keys of all calls so far, in order.
fn keys(stage: &Stage) -> Vec<String> {
    let record = stage.fixture.record();
    record.iter().filter_map(|line| line.strip_prefix("a a ")).map(str::to_owned).collect()
}

fn last_result(thread: &Thread) -> Message {
    let is_result = |message: &&Message| matches!(message, Message::Tool { .. });
    thread.messages().iter().rev().find(is_result).expect("a result").clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn repeatable_call_is_made_again_with_same_key() {
    for effect in ["read", "keyed"] {
        let home = effective(effect, "");
        let gate = Gate::open(&home);
        // The second call has not started when the process ends.
        let both = calls([hanging("1"), call("2", "a", &json!({"do": "key"}))]);
        let stage = Stage::set(home, vec![("worker", vec![both, says("Done.")])]).await;
        let person = Arc::default();
        let mut thread = crash(&stage, &gate, stage.thread(), &person).await;
        let outcome = stage.run(&mut thread, message(), &person).await.unwrap();
        assert_eq!((outcome.text.as_str(), outcome.turns), ("Done.", 1));
        let keys = keys(&stage);
        assert_eq!(keys.len(), 3, "{effect}: {keys:?}");
        assert_eq!(keys[0], keys[1], "each attempt of a call has the same key");
        assert_ne!(keys[1], keys[2], "each call has its own");
        assert_eq!(
            thread.messages()[2..4],
            [answer("1", "a", &keys[0]), answer("2", "a", &keys[2])]
        );
        assert_eq!(person.asked_uncertain.lock().unwrap().len(), 0);
        stage.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn person_decides_about_interrupted_once_call() {
    for (decision, is_made) in [
        (UncertainDecision::Happened, false),
        (UncertainDecision::Again, true),
        (UncertainDecision::Stop, false),
    ] {
        let home = effective("once", "");
        let gate = Gate::open(&home);
        let script = vec![calls([hanging("1")]), says("Done.")];
        let stage = Stage::set(home, vec![("worker", script)]).await;
        let person = Person::resolving([decision]);
        let mut thread = crash(&stage, &gate, stage.thread(), &person).await;
        let outcome = stage.run(&mut thread, message(), &person).await.unwrap();
        assert_eq!(outcome.text, "Done.");
        let keys = keys(&stage);
        assert_eq!(keys.len(), if is_made { 2 } else { 1 }, "{decision:?}");
        let asked = person.asked_uncertain.lock().unwrap().clone();
        assert_eq!(asked.len(), 1);
        let facts = (&*asked[0].tool, &*asked[0].extension, asked[0].attempts);
        assert_eq!((facts, &asked[0].call_key), (("a", "a", 1), &keys[0]));
        let expected = match decision {
            UncertainDecision::Happened => answer(
                "1",
                "a",
                "the run was cut off before this call was answered; a person confirmed that it \
                 happened, but its result is not known",
            ),
            UncertainDecision::Again => answer("1", "a", &keys[0]),
            _ => failure("1", "a", CUT_OFF),
        };
        assert_eq!(last_result(&thread), expected);
        let transcript = stage.transcript(&outcome.run_id);
        let recorded: Vec<_> =
            transcript.iter().filter(|line| line["entry"] == "uncertain").collect();
        assert_eq!(recorded, [&json!({"entry": "uncertain", "tool": "a", "decision": decision})]);
        stage.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn once_call_without_person_is_not_repeated() {
    let home = effective("once", "");
    let gate = Gate::open(&home);
    let script = vec![calls([hanging("1")]), says("Done.")];
    let limits = limits(Duration::from_millis(1));
    let stage = Stage::set_with(home, vec![("worker", script)], limits, None).await;
    let person = Arc::default();
    let mut thread = crash(&stage, &gate, stage.thread(), &person).await;
    stage.run(&mut thread, message(), &person).await.unwrap();
    assert_eq!(keys(&stage).len(), 1);
    assert_eq!(last_result(&thread), failure("1", "a", CUT_OFF));
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_uncertain_call_requires_decision() {
    let home = effective("once", "");
    let gate = Gate::open(&home);
    // The same arguments, written differently, then other ones.
    let same = super::stage::written("2", "a", r#"{"hang": true,  "do": "key"}"#);
    let other = call("4", "a", &json!({"do": "key"}));
    let again = ModelToolCall { id: "3".into(), ..same.clone() };
    let script = [hanging("1"), same, again, other].map(|call| calls([call]));
    let script = script.into_iter().chain([says("Done.")]).collect();
    let stage = Stage::set(home, vec![("worker", script)]).await;
    let (stop, happened) = (UncertainDecision::Stop, UncertainDecision::Happened);
    let person = Person::resolving([stop, stop, happened]);
    let mut thread = crash(&stage, &gate, stage.thread(), &person).await;
    stage.run(&mut thread, message(), &person).await.unwrap();
    let asked = person.asked_uncertain.lock().unwrap().clone();
    let attempts: Vec<_> = asked.iter().map(|asked| asked.attempts).collect();
    assert_eq!(attempts, [1, 0, 0]);
    assert_ne!(asked[1].call_key, asked[2].call_key);
    assert_eq!(keys(&stage).len(), 2, "the first call, and the one with other arguments");
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn second_crash_asks_with_other_request() {
    let home = effective("once", "");
    let gate = Gate::open(&home);
    let hang = call("1", "a", &json!({"do": "act", "act": "hang"}));
    let script = vec![calls([hang]), says("Done.")];
    let stage = Stage::set(home, vec![("worker", script)]).await;
    let person = Person::parking([], [UncertainDecision::Again, UncertainDecision::Happened]);
    let thread = crash(&stage, &gate, stage.thread(), &person).await;
    let mut thread = crash(&stage, &gate, thread, &person).await;
    stage.run(&mut thread, message(), &person).await.unwrap();
    let asked = person.asked_uncertain.lock().unwrap().clone();
    // The decision about one attempt is none about the next.
    assert_eq!(asked.iter().map(|asked| asked.attempts).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(asked[0].call_key, asked[1].call_key);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn journal_of_earlier_kernel_asks() {
    let home = effective("keyed", "");
    let gate = Gate::open(&home);
    let script = vec![calls([hanging("1")]), says("Done.")];
    let stage = Stage::set(home, vec![("worker", script)]).await;
    let person = Person::resolving([UncertainDecision::Stop]);
    let thread = crash(&stage, &gate, stage.thread(), &person).await;
    let id = thread.id().to_owned();
    drop(thread);
    // As an earlier kernel wrote it: no records of starts, and no checksums.
    let path = stage.fixture.home.path(format!("sandbox/data/kernel/threads/{id}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut earlier = String::new();
    for mut line in lines.filter(|line| line["entry"] != "call_begun") {
        line.as_object_mut().unwrap().retain(|key, _| key != "records_starts" && key != "sum");
        earlier.push_str(&format!("{line}\n"));
    }
    std::fs::write(&path, earlier).unwrap();
    let threads = ThreadStore::new(stage.fixture.kernel.home());
    let mut thread = tokio::task::block_in_place(|| threads.open(&id)).unwrap();
    stage.run(&mut thread, message(), &person).await.unwrap();
    assert_eq!(person.asked_uncertain.lock().unwrap().len(), 1);
    assert_eq!((keys(&stage).len(), last_result(&thread)), (1, failure("1", "a", CUT_OFF)));
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_arguments_survive_crash() {
    let home = effective("keyed", "approval: always");
    let gate = Gate::open(&home);
    let script = vec![calls([saying("1", "a", "as the model wrote it")]), says("Done.")];
    let stage = Stage::set(home, vec![("worker", script)]).await;
    let changed = json!({"do": "key", "hang": true}).to_string();
    let edited = ApprovalDecision::Edited { arguments: changed.clone() };
    let once = ApprovalDecision::Once;
    let person = Person::saying([edited, once.clone(), once]);
    let mut thread = crash(&stage, &gate, stage.thread(), &person).await;
    stage.run(&mut thread, message(), &person).await.unwrap();
    let asked = person.asked.lock().unwrap().clone();
    assert_eq!(asked[2], asked[1], "the second attempt has the arguments of the first");
    let keys = keys(&stage);
    assert_eq!((keys.len(), &keys[0]), (2, &keys[1]));
    let Message::Tool { text, .. } = last_result(&thread) else { panic!("a result") };
    let note = format!("{}\n(The user changed the arguments of this call to: {changed})", keys[0]);
    assert_eq!(text, note);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parked_call_continues_next_to_finished_one() {
    let home = misbehaving(home_with("a", "config: {approval: always}"), "b", "");
    let home = agent(home, "worker", "uses_tools: [a, b]");
    let key = |id, tool| call(id, tool, &json!({"do": "key"}));
    let script = vec![calls([key("1", "a"), key("2", "b")]), says("Done.")];
    let stage = Stage::set(home, vec![("worker", script)]).await;
    let person = Person::parking([ApprovalDecision::Parked, ApprovalDecision::Once], []);
    let mut thread = stage.thread();
    let ended = stage.run(&mut thread, message(), &person).await.unwrap_err();
    assert!(matches!(ended, RunError::Parked), "{ended}");
    assert_eq!((ended.kind(), ended.hint()), (ErrorKind::Unavailable, String::new()));
    let called = |tool: &str| {
        let record = stage.fixture.record();
        let prefix = format!("{tool} {tool} ");
        record.iter().filter(|line| line.starts_with(&prefix)).count()
    };
    assert_eq!((called("a"), called("b")), (0, 1));
    let mut thread = reopen(&stage, thread);
    assert_eq!(thread.message_status("m1"), Some(MessageStatus::Open));
    let open: Vec<_> = thread.open_calls().into_iter().map(|open| open.call.id).collect();
    assert_eq!((open.as_slice(), thread.messages().len()), (&["1".to_owned()][..], 3));

    let outcome = stage.run(&mut thread, message(), &person).await.unwrap();
    assert_eq!((outcome.text.as_str(), stage.asked("worker").len()), ("Done.", 2));
    assert_eq!((called("a"), called("b")), (1, 1));
    let asked = person.asked.lock().unwrap().clone();
    assert!(asked[0] == asked[1] && asked[0].can_park, "{asked:?}");
    assert!(
        matches!(&thread.messages()[3], Message::Tool { call_id, is_error: false, .. } if call_id == "1")
    );
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parked_uncertain_call_keeps_waiting() {
    let home = effective("once", "");
    let gate = Gate::open(&home);
    let script = vec![calls([hanging("1")]), says("Done.")];
    let stage = Stage::set(home, vec![("worker", script)]).await;
    let parked = UncertainDecision::Parked;
    let person = Person::parking([], [parked, parked, UncertainDecision::Again]);
    let mut thread = crash(&stage, &gate, stage.thread(), &person).await;
    for _ in 0..2 {
        let ended = stage.run(&mut thread, message(), &person).await.unwrap_err();
        assert!(matches!(ended, RunError::Parked), "{ended}");
        thread = reopen(&stage, thread);
    }
    stage.run(&mut thread, message(), &person).await.unwrap();
    let asked = person.asked_uncertain.lock().unwrap().clone();
    assert!(asked[0] == asked[1] && asked[1] == asked[2], "{asked:?}");
    assert_eq!(keys(&stage).len(), 2);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_message_closes_parked_call() {
    let home = home_with("a", "config: {approval: always}");
    let home = agent(home, "worker", "uses_tools: [a]");
    let script = vec![calls([saying("1", "a", "x")]), says("Something else.")];
    let stage = Stage::set(home, vec![("worker", script)]).await;
    let person = Person::parking([ApprovalDecision::Parked], []);
    let mut thread = stage.thread();
    stage.run(&mut thread, message(), &person).await.unwrap_err();
    stage.say(&mut thread, "Leave it").await.unwrap();
    let unmade = "the run was cut off before this call was answered; it had no effect";
    assert_eq!(thread.messages()[2..4], [failure("1", "a", unmade), user("Leave it")]);
    assert_eq!(thread.message_status("m1"), Some(MessageStatus::Superseded));
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn compaction_keeps_parked_call_open() {
    let home = home_with("a", "config: {approval: always}");
    let home = agent(home, "worker", "uses_tools: [a]");
    let script = vec![
        says("Before."),
        calls([saying("1", "a", "x")]),
        Step::Fail(ModelErrorKind::Busy),
        says("They greeted."),
        says("Done."),
    ];
    let stage = Stage::set(home, vec![("worker", script)]).await;
    let person = Person::parking([ApprovalDecision::Parked, ApprovalDecision::Once], []);
    let mut thread = stage.thread();
    stage.say(&mut thread, "Hi").await.unwrap();
    stage.run(&mut thread, message(), &person).await.unwrap_err();
    let mut thread = reopen(&stage, thread);
    let key = thread.open_calls()[0].key.clone();
    let agents = stage.fixture.kernel.agents();
    // A summary that fails closes the call as little as one that is made.
    agents.compact_thread(&mut thread, None).await.unwrap_err();
    let compacted = agents.compact_thread(&mut thread, None).await.unwrap();
    assert!(compacted.text.starts_with("3 older messages"), "{}", compacted.text);
    let mut thread = reopen(&stage, thread);
    let open = thread.open_calls();
    assert_eq!((open.len(), &open[0].key), (1, &key));
    assert_eq!(thread.message_status("m1"), Some(MessageStatus::Open));
    let outcome = stage.run(&mut thread, message(), &person).await.unwrap();
    assert_eq!(outcome.text, "Done.");
    let asked = person.asked.lock().unwrap().clone();
    assert_eq!(asked[0], asked[1]);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn call_that_cannot_wait_is_refused() {
    let home = home_with("a", "config: {approval: always}");
    let home = agent(home, "worker", "uses_tools: [a, list_agents, delegate_task]");
    let home = agent(home, "helper", "uses_tools: [a]");
    let delegate = call("1", "delegate_task", &json!({"agent_id": "helper", "task": "Do it"}));
    let script = vec![
        (
            "worker",
            vec![calls([delegate]), says("Done."), calls([saying("1", "a", "x")]), says("")],
        ),
        ("helper", vec![calls([saying("1", "a", "x")]), says("It was refused.")]),
    ];
    let stage = Stage::set(home, script).await;
    let parked = ApprovalDecision::Parked;
    let person = Person::parking([parked.clone(), parked], []);
    let mut thread = stage.thread();
    let outcome = stage.run(&mut thread, message(), &person).await.unwrap();
    assert_eq!(outcome.text, "Done.");
    let refused = "denied: call of `a` was not approved: this call cannot wait for it\nhint: do not \
                   make the same call again; find another way or ask the user";
    let of_helper = stage.asked("helper")[1].messages.last().cloned();
    assert_eq!(of_helper, Some(failure("1", "a", refused)));
    assert!(!person.asked.lock().unwrap()[0].can_park);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kernel_tool_asks_and_parks() {
    let home = worker("");
    let gate = Gate::open(&home);
    let hang = call("1", "a", &json!({"do": "act", "act": "hang"}));
    let stage = Stage::set(home, vec![("worker", vec![calls([hang])])]).await;
    let replies = [
        PersonReply::Answer("red".into()),
        PersonReply::Refused { reason: "not now".into() },
        PersonReply::Parked,
    ];
    let person = Person::replying(replies);
    let mut thread = stage.thread();
    let context = |key: Option<&str>| CallContext {
        session_id: thread.id().to_owned(),
        agent_id: "worker".into(),
        idempotency_key: key.map(str::to_owned),
        ..CallContext::default()
    };
    let (keyed, nested) = (context(Some("k")), context(None));
    let asking = async {
        let held = gate.reached("a a").await;
        let agents = stage.fixture.kernel.agents();
        let ask =
            |context| agents.ask_person(context, "Which one?".to_owned(), vec!["red".to_owned()]);
        assert_eq!(ask(&keyed).await.unwrap(), "red");
        let refused = ask(&keyed).await.unwrap_err();
        assert_eq!(refused.message, "the question was not answered: not now");
        let parked = ask(&keyed).await.unwrap_err();
        assert_eq!(parked.kind, ErrorKind::Unavailable);
        // The calls that a tool makes in turn cannot be parked.
        let nested = agents.park_call(&nested);
        assert_eq!(nested.kind, ErrorKind::Denied);
        drop(held);
    };
    tokio::select! {
        ended = stage.run(&mut thread, message(), &person) => panic!("it ended: {ended:?}"),
        () = asking => {}
    }
    let questions = person.questions.lock().unwrap().clone();
    assert_eq!((questions.len(), questions[0].call_key.as_deref()), (3, Some("k")));
    assert!(questions[0].can_park && questions[0] == questions[2]);
    stage.end().await;
}
