//! The turn: the request to the model, and the use of its reply.

use std::sync::Arc;

use serde_json::json;
use skillhost_agents::{RunError, RunRequest};
use skillhost_conversation::{ModelRequest, ModelTool, RunOutcome, ThreadStore};
use skillhost_core::KernelLimits;
use skillhost_payload::ErrorKind;
use skillhost_sdk::CancellationToken;
use tokio::sync::Notify;

use super::stage::{
    Person, Stage, Step, agent, answer, assistant, breaks_off, call, called, calls, cancelled_by,
    failure, is_silent, saying, says, usage, user, worker, written,
};
use crate::fixture::{Gate, SOON, home_with, misbehaving, patient};

fn tool(name: &str) -> ModelTool {
    let (name, description) = (name.to_owned(), "Misbehaves.".to_owned());
    ModelTool { name, description, input_schema: json!({"type": "object"}) }
}

#[tokio::test(flavor = "multi_thread")]
async fn run_uses_tool_before_reply() {
    let home = misbehaving(
        worker("parallel_tool_calls: true, parameters: {temperature: 0}"),
        "b",
        "config: {block: \"[Blocks]\\nfor {prompt}\"}",
    );
    let question = saying("1", "a", "tea");
    let script = vec![calls([question.clone()]), says("It is tea.")];
    let stage = Stage::set(home, vec![("worker", script)]).await;
    let (mut thread, person) = (stage.thread(), Arc::new(Person::default()));
    let outcome = stage.say_as(&mut thread, "What is it?", &person).await.unwrap();

    let first = ModelRequest {
        system: "You are worker.\n\n---\n\n[Blocks]\nfor What is it?".into(),
        messages: vec![user("What is it?")],
        tools: vec![tool("a")],
        parallel_tool_calls: Some(true),
        parameters: json!({"temperature": 0}),
    };
    let messages = vec![user("What is it?"), called([question]), answer("1", "a", "tea")];
    let second = ModelRequest { messages: messages.clone(), ..first.clone() };
    assert_eq!(stage.asked("worker"), [first, second]);
    assert_eq!(thread.messages(), [messages, vec![assistant("It is tea.")]].concat());
    let expected = RunOutcome {
        run_id: outcome.run_id.clone(),
        agent: outcome.agent.clone(),
        model: "script/worker".into(),
        text: "It is tea.".into(),
        turns: 2,
        usage: usage(20, 4),
        cost: Some(0.000_028),
        skills: Vec::new(),
    };
    assert_eq!(outcome, expected);
    let arguments = r#"{"do":"say","text":"tea"}"#;
    assert_eq!(
        person.visible_events(),
        [
            json!({"event": "tool_begun", "agent_id": "worker", "tool": "a",
                   "arguments": arguments}),
            json!({"event": "tool_ended", "agent_id": "worker", "tool": "a", "is_error": false,
                   "summary": "tea"}),
        ]
    );
    let entries: Vec<_> = stage
        .transcript(&outcome.run_id)
        .iter()
        .map(|line| line["entry"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        entries,
        [
            "run", "prompt", "skills", "system", "request", "reply", "call", "answer", "skills",
            "system", "request", "reply", "ended"
        ]
    );
    let ended = stage.transcript(&outcome.run_id).pop().unwrap();
    assert_eq!(
        ended,
        json!({"entry": "ended", "outcome": "done", "cost": 0.000_028,
               "usage": {"input": 20, "output": 4, "cached": 0, "estimated": false}})
    );
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thread_continues_in_another_run() {
    let script = vec![says("one"), says("two")];
    let stage = Stage::set(worker(""), vec![("worker", script)]).await;
    let mut thread = stage.thread();
    stage.say(&mut thread, "1").await.unwrap();
    let id = thread.id().to_owned();
    drop(thread);
    let mut thread = ThreadStore::new(stage.fixture.kernel.home()).open(&id).unwrap();
    assert_eq!(stage.say(&mut thread, "2").await.unwrap().text, "two");
    assert_eq!(stage.asked("worker")[1].messages, [user("1"), assistant("one"), user("2")]);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_calls_keep_result_order() {
    let awaits = |id, topic| call(id, "a", &json!({"do": "await", "topic": topic}));
    let script = vec![calls([awaits("1", "late"), awaits("2", "early")]), says("done")];
    let home = misbehaving(worker(""), "b", "");
    let gate = Gate::open(&home);
    let stage = Stage::set(home, vec![("worker", script)]).await;
    let (mut thread, person) = (stage.thread(), Arc::new(Person::default()));
    let emit = |topic| stage.fixture.done("b", json!({"do": "emit", "topic": topic, "payload": 1}));
    let events = async {
        // Both wait at the same time, and the second gets its result first.
        drop(gate.reached("a a").await);
        drop(gate.reached("a a").await);
        emit("early").await;
        person.until("tool_ended").await;
        emit("late").await;
    };
    let (outcome, ()) = tokio::join!(stage.say_as(&mut thread, "go", &person), events);
    assert_eq!(outcome.unwrap().text, "done");
    assert_eq!(
        thread.messages()[2..4],
        [answer("1", "a", "late from b: 1"), answer("2", "a", "early from b: 1")]
    );
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sequential_calls_run_one_by_one() {
    let hang = call("1", "a", &json!({"do": "act", "act": "hang"}));
    let script = vec![calls([hang, saying("2", "a", "never")])];
    let home = worker("parallel_tool_calls: false");
    let gate = Gate::open(&home);
    let stage = Stage::set(home, vec![("worker", script)]).await;
    let (mut thread, cancel) = (stage.thread(), CancellationToken::new());
    let stop = async {
        let held = gate.reached("a a").await;
        cancel.cancel();
        held.given_up().await;
    };
    let person = Arc::new(Person::default());
    let run = stage.run(&mut thread, cancelled_by("go", &cancel), &person);
    let (ended, ()) = tokio::join!(run, stop);
    assert!(matches!(ended, Err(RunError::Cancelled)), "{ended:?}");
    let begun =
        person.visible_events().iter().filter(|event| event["event"] == "tool_begun").count();
    assert_eq!(begun, 1);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_errors_reach_model() {
    let script = vec![
        calls([
            call("1", "a", &json!({"do": "act", "act": "fail"})),
            call("2", "a", &json!({"do": "act", "act": "panic"})),
            call("3", "a", &json!({"do": "act", "act": "hang"})),
            call("4", "a", &json!({"do": "flood", "bytes": 1_048_576})),
        ]),
        says("sorry"),
    ];
    let home = worker("");
    let gate = Gate::open(&home);
    let limits = KernelLimits { tool: SOON, ..patient() };
    let stage = Stage::set_with(home, vec![("worker", script)], limits, None).await;
    let mut thread = stage.thread();
    let given_up = async { gate.reached("a a").await.given_up().await };
    let (outcome, ()) = tokio::join!(stage.say(&mut thread, "go"), given_up);
    assert_eq!(outcome.unwrap().text, "sorry");
    let flood =
        format!("{}\n(truncated: 65536 of 1048576 bytes; request a part)", "x".repeat(65_536));
    assert_eq!(
        thread.messages()[2..6],
        [
            failure("1", "a", "failed: a failed\nhint: try less"),
            failure("2", "a", "panicked: the extension panicked: a panicked"),
            failure("3", "a", "timeout: `a` timed out after 2000 ms"),
            answer("4", "a", &flood),
        ]
    );
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_call_is_explained_to_model() {
    let schema = "config: {schema: {properties: {do: {type: string}}, required: [do], \
                  type: object}}";
    let home =
        agent(misbehaving(home_with("a", schema), "secret", ""), "worker", "uses_tools: [a]");
    let script = vec![
        calls([
            written("1", "a", "{\"do\": "),
            written("2", "a", "{}"),
            written("3", "aa", "{}"),
            written("4", "secret", "{\"do\": \"build\"}"),
        ]),
        calls([saying("5", "a", "better")]),
        says("done"),
    ];
    let stage = Stage::set(home, vec![("worker", script)]).await;
    let mut thread = stage.thread();
    stage.say(&mut thread, "go").await.unwrap();
    let repair = |mistake: &str| {
        format!(
            "`a` was not called: its arguments are not valid.\n- {mistake}\nIts schema: \
             {{\"properties\":{{\"do\":{{\"type\":\"string\"}}}},\"required\":[\"do\"],\"type\":\
             \"object\"}}\nCall it again with corrected arguments."
        )
    };
    assert_eq!(
        stage.asked("worker")[1].messages[2..],
        [
            failure(
                "1",
                "a",
                &repair("not valid JSON: EOF while parsing a value at line 1 column 7")
            ),
            failure("2", "a", &repair("field `do` is missing")),
            failure("3", "aa", "tool `aa` not found; did you mean a?\nThe tools are: a"),
            failure("4", "secret", "tool `secret` not found\nThe tools are: a"),
        ]
    );
    assert_eq!(stage.last(), answer("5", "a", "better"));
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_reply_is_retried_once() {
    let script = vec![is_silent(false), says("here"), is_silent(false), is_silent(true)];
    let stage = Stage::set(worker(""), vec![("worker", script)]).await;
    let mut thread = stage.thread();
    assert_eq!(stage.say(&mut thread, "hello?").await.unwrap().text, "here");
    let again = "(Your last reply was empty. Answer, or call a tool.)";
    assert_eq!(stage.asked("worker")[1].messages, [user("hello?"), user(again)]);
    assert_eq!(thread.messages(), [user("hello?"), assistant("here")]);

    let error = stage.say(&mut thread, "and now?").await.unwrap_err();
    assert!(matches!(error, RunError::EmptyReply { only_reasoning: true, .. }), "{error:?}");
    assert_eq!(
        (error.kind(), error.to_string()),
        (ErrorKind::Failed, "model `script/worker` returned an empty reply".into())
    );
    assert_eq!(thread.messages().last(), Some(&user("and now?")));
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn truncated_reply_is_reported() {
    let stage = Stage::set(worker(""), vec![("worker", vec![breaks_off("half")])]).await;
    let (mut thread, person) = (stage.thread(), Arc::new(Person::default()));
    let outcome = stage.say_as(&mut thread, "go", &person).await.unwrap();
    assert_eq!(outcome.text, "half");
    assert_eq!(person.notes(), ["reply to request 1 was truncated at the output limit"]);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_run_leaves_usable_thread() {
    let asked = Arc::new(Notify::new());
    let hang = call("2", "a", &json!({"do": "act", "act": "hang"}));
    let script = vec![
        Step::Hang(Arc::clone(&asked)),
        calls([saying("1", "a", "tea"), hang.clone()]),
        says("on we go"),
    ];
    let home = worker("");
    let gate = Gate::open(&home);
    let stage = Stage::set(home, vec![("worker", script)]).await;
    let mut thread = stage.thread();
    let person = Arc::new(Person::default());

    let cancel = CancellationToken::new();
    let stop = async {
        asked.notified().await;
        cancel.cancel();
    };
    let run = stage.run(&mut thread, cancelled_by("one", &cancel), &person);
    let (ended, ()) = tokio::join!(run, stop);
    assert!(matches!(ended, Err(RunError::Cancelled)), "{ended:?}");

    let cancel = CancellationToken::new();
    let stop = async {
        let held = gate.reached("a a").await;
        // The other call has its result by then.
        person.until("tool_ended").await;
        cancel.cancel();
        held.given_up().await;
    };
    let run = stage.run(&mut thread, cancelled_by("two", &cancel), &person);
    let (ended, ()) = tokio::join!(run, stop);
    assert!(matches!(ended, Err(RunError::Cancelled)), "{ended:?}");

    assert_eq!(stage.say(&mut thread, "three").await.unwrap().text, "on we go");
    let cut_off = "the run was cut off before this call was answered; it may have happened";
    assert_eq!(
        stage.asked("worker")[2].messages,
        [
            user("one"),
            user("two"),
            called([saying("1", "a", "tea"), hang]),
            answer("1", "a", "tea"),
            failure("2", "a", cut_off),
            user("three"),
        ]
    );
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn model_choice_follows_precedence() {
    let home = worker("model: own").settings("models: {agents: {other: chosen}}");
    let home = agent(home, "other", "model: own");
    let models = ["own", "wanted", "other"].map(|name| (name, vec![says(name)]));
    let stage = Stage::set(home, models.into()).await;
    let mut thread = stage.thread();
    let person = Arc::default();
    let request = |agent: &str, model: Option<&str>| RunRequest {
        agent: Some(agent.to_owned()),
        model: model.map(str::to_owned),
        prompt: "go".to_owned(),
        ..RunRequest::default()
    };
    let wanted = stage.run(&mut thread, request("worker", Some("wanted")), &person).await.unwrap();
    let own = stage.run(&mut thread, request("worker", None), &person).await.unwrap();
    // The source is queried for this agent's model, and not for the manifest's.
    let chosen = stage.run(&mut thread, request("other", None), &person).await.unwrap();
    let texts = (&*wanted.text, &*own.text, &*chosen.text);
    assert_eq!(texts, ("wanted", "own", "other"));
    let error = stage.run(&mut thread, request("worker", Some("x/y")), &person).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(error.hint(), "see: skillhost model list");
    let error = stage.run(&mut thread, request("wroker", None), &person).await.unwrap_err();
    assert_eq!(error.to_string(), "agent `wroker` not found");
    // A run that cannot start leaves no file: these are of the three runs that could.
    assert_eq!(thread.messages().len(), 6);
    stage.end().await;
}
