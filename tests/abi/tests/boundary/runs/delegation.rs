//! Delegation between agents, and the creation of agents.

use std::sync::Arc;

use serde_json::{Value, json};
use skillhost_agents::{ExhaustedLimit, RunError};
use skillhost_conversation::{ApprovalDecision, ModelToolCall};
use skillhost_sdk::CancellationToken;
use test_support::TestHome;
use tokio::sync::Notify;

use super::stage::{
    Person, Stage, Step, agent, answer, call, calls, cancelled_by, failure, registry, saying, says,
    user,
};
use crate::fixture::{Gate, KernelFixture, home_with, misbehaving, operator};

fn delegates(id: &str, to: &str, task: &str) -> ModelToolCall {
    call(id, "delegate_task", &json!({"agent_id": to, "task": task}))
}

/// A worker that may delegate tasks, and a helper with the tool of `a`.
fn pair(worker: &str, helper: &str) -> TestHome {
    let home = agent(home_with("a", ""), "worker", &format!("uses_tools: [kernel], {worker}"));
    agent(home, "helper", &format!("uses_tools: [a, kernel], {helper}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn specialist_gets_only_task_and_skills() {
    let home = misbehaving(registry("skills: {tea: Boil water.}"), "a", "");
    let home = agent(home, "worker", "uses_tools: [kernel]");
    let home = agent(home, "helper", "uses_tools: [a], uses_skills: [tea]");
    let worker = vec![calls([delegates("1", "helper", "Make tea.")]), says("Tea is ready.")];
    let helper = vec![calls([saying("1", "a", "hot")]), says("It is hot.")];
    let stage = Stage::set(home, vec![("worker", worker), ("helper", helper)]).await;
    let (mut thread, person) = (stage.thread(), Arc::new(Person::default()));
    let outcome = stage.say_as(&mut thread, "I want tea.", &person).await.unwrap();

    let helper = stage.asked("helper");
    assert_eq!(helper[0].system, "Boil water. (misbehave)\n\nYou are helper.");
    assert_eq!(helper[0].messages, [user("Make tea.")]);
    assert_eq!(stage.last(), answer("1", "delegate_task", "It is hot."));
    // Each run reports its own usage.
    assert_eq!((outcome.turns, outcome.usage.input), (2, 20));
    let events: Vec<_> = person
        .visible_events()
        .iter()
        .map(|event| {
            format!("{} {}", event["agent_id"].as_str().unwrap(), event["event"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        events,
        [
            "worker tool_begun",
            "worker delegated",
            "helper tool_begun",
            "helper tool_ended",
            "worker tool_ended"
        ]
    );
    let delegated = stage.transcript(&outcome.run_id);
    let delegated = delegated.iter().find(|line| line["entry"] == "delegated").unwrap();
    assert_eq!(delegated["to"], "helper");
    let header = stage.transcript(delegated["run_id"].as_str().unwrap()).remove(0);
    assert_eq!(
        (&header["parent"], &header["thread"], &header["origin"]),
        (&json!(outcome.run_id), &Value::Null, &json!("agent"))
    );
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_is_tool_under_its_id() {
    let home = agent(home_with("a", ""), "helper", "integration_mode: tool");
    let home = agent(home, "worker", "uses_tools: [helper]");
    let asks = call("1", "helper", &json!({"task": "Make tea."}));
    let worker = vec![calls([asks]), says("done")];
    let scripts = vec![("worker", worker), ("helper", vec![says("It is hot.")])];
    let stage = Stage::set(home, scripts).await;
    stage.say(&mut stage.thread(), "go").await.unwrap();
    let tool = &stage.asked("worker")[0].tools[0];
    assert_eq!(
        (tool.name.as_str(), tool.description.as_str()),
        (
            "helper",
            "Delegates a task to the agent `helper` and waits for its reply. Does the work of helper."
        )
    );
    assert_eq!(stage.last(), answer("1", "helper", "It is hot."));
    assert_eq!(stage.asked("helper")[0].tools, []);
    // It acts for a run, so operators do not have it as a tool.
    let (tools, _) = stage.fixture.kernel.agents().list_tools(None).await.unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool.spec.name.as_str()).collect();
    assert_eq!(names, ["a"]);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cyclic_or_busy_delegation_is_rejected() {
    let hang = call("1", "a", &json!({"do": "await", "topic": "go"}));
    let worker = vec![
        calls([delegates("1", "helper", "one"), delegates("2", "helper", "two")]),
        calls([delegates("3", "nobody", "x"), delegates("4", "worker", "x")]),
        says("done"),
    ];
    let helper = vec![calls([delegates("1", "worker", "back"), hang]), says("helped")];
    let home = pair("", "");
    let gate = Gate::open(&home);
    let home = misbehaving(home, "b", "");
    let stage = Stage::set(home, vec![("worker", worker), ("helper", helper)]).await;
    let (mut thread, person) = (stage.thread(), Arc::new(Person::default()));
    let go = async {
        drop(gate.reached("a a").await);
        person.until("tool_ended").await;
        stage.fixture.done("b", json!({"do": "emit", "topic": "go", "payload": 1})).await;
    };
    let (outcome, ()) = tokio::join!(stage.say_as(&mut thread, "go", &person), go);
    outcome.unwrap();
    let refused = |id: &str, text: &str| failure(id, "delegate_task", text);
    assert_eq!(
        stage.asked("helper")[1].messages[2],
        refused(
            "1",
            "`worker` failed: task came from `worker` and cannot be delegated back to it\nhint: \
             reply with the results so far"
        )
    );
    assert_eq!(
        thread.messages()[2..4],
        [
            answer("1", "delegate_task", "helped"),
            refused(
                "2",
                "`helper` failed: agent `helper` is busy with another task of this \
                 thread\nhint: delegate the task after it has replied"
            ),
        ]
    );
    assert_eq!(
        thread.messages()[5..7],
        [
            refused(
                "3",
                "`nobody` failed: agent `nobody` not found\nhint: see: skillhost agent list"
            ),
            refused(
                "4",
                "`worker` failed: task came from `worker` and cannot be delegated back to it\nhint: \
             reply with the results so far"
            ),
        ]
    );
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn delegation_depth_is_limited_to_four() {
    let mut home = agent(home_with("a", ""), "worker", "uses_tools: [kernel]");
    for id in ["one", "two", "three", "four", "five"] {
        home = agent(home, id, "uses_tools: [kernel]");
    }
    let chain = ["worker", "one", "two", "three", "four", "five"];
    let scripts = chain
        .windows(2)
        .map(|pair| (pair[0], vec![calls([delegates("1", pair[1], "on")]), says(pair[0])]));
    let scripts: Vec<_> = scripts.collect();
    let stage = Stage::set(home, scripts).await;
    stage.say(&mut stage.thread(), "go").await.unwrap();
    assert_eq!(
        stage.asked("four")[1].messages[2],
        failure(
            "1",
            "delegate_task",
            "`five` failed: calls of programs and delegations are 4 levels deep, the limit\nhint: do it \
             yourself, or reply with the results so far"
        )
    );
    assert_eq!(stage.last(), answer("1", "delegate_task", "one"));
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn helper_usage_counts_for_caller() {
    let worker = vec![calls([delegates("1", "helper", "x")])];
    let helper = vec![calls([saying("1", "a", "x")]), calls([saying("2", "a", "y")])];
    let home = pair("limits: {max_tokens_per_invocation: 30}", "");
    let stage = Stage::set(home, vec![("worker", worker), ("helper", helper)]).await;
    let mut thread = stage.thread();
    let error = stage.say(&mut thread, "go").await.unwrap_err();
    assert!(matches!(error, RunError::Budget { which: ExhaustedLimit::Tokens(30) }), "{error:?}");
    assert_eq!(stage.asked("helper").len(), 2);
    let reported = "`helper` failed: budget of 30 tokens is exhausted\nhint: continue in the same \
                thread, or raise agent.limits.max_tokens_per_invocation in the manifest";
    assert_eq!(thread.messages().last(), Some(&failure("1", "delegate_task", reported)));
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancellation_reaches_delegated_runs() {
    let asked = Arc::new(Notify::new());
    let worker = vec![calls([delegates("1", "helper", "x")]), says("on we go")];
    let helper = vec![Step::Hang(Arc::clone(&asked)), says("free again")];
    let stage = Stage::set(pair("", ""), vec![("worker", worker), ("helper", helper)]).await;
    let (mut thread, cancel) = (stage.thread(), CancellationToken::new());
    let stop = async {
        asked.notified().await;
        cancel.cancel();
    };
    let person = Arc::new(Person::default());
    let run = stage.run(&mut thread, cancelled_by("go", &cancel), &person);
    let (ended, ()) = tokio::join!(run, stop);
    assert!(matches!(ended, Err(RunError::Cancelled)), "{ended:?}");
    assert_eq!(stage.say(&mut thread, "and now?").await.unwrap().text, "on we go");
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn approvals_of_agents_share_channel() {
    let home = home_with("a", "config: {approval: unless_granted}");
    let home = agent(home, "worker", "uses_tools: [kernel, a]");
    let home = agent(home, "helper", "uses_tools: [a]");
    let worker = vec![
        calls([saying("1", "a", "x")]),
        calls([delegates("2", "helper", "x")]),
        calls([delegates("3", "helper", "y")]),
        says("done"),
    ];
    let helper = ["x", "y"].map(|text| [calls([saying("1", "a", text)]), says(text)]);
    let helper = helper.into_iter().flatten().collect();
    let stage = Stage::set(home, vec![("worker", worker), ("helper", helper)]).await;
    let person = Person::saying([ApprovalDecision::Session, ApprovalDecision::Session]);
    stage.say_as(&mut stage.thread(), "go", &person).await.unwrap();
    let asked: Vec<_> = person.asked.lock().unwrap().iter().map(|a| a.agent_id.clone()).collect();
    assert_eq!(asked, ["worker", "helper"]);
    assert_eq!(stage.last(), answer("3", "delegate_task", "y"));
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_list_shows_purpose_and_state() {
    let list = || calls([call("1", "list_agents", &json!({}))]);
    let worker = vec![calls([delegates("1", "helper", "x")]), says("done")];
    let helper = vec![list(), says("listed")];
    let home = misbehaving(registry("skills: {tea: Boil water.}"), "a", "");
    let home = agent(home, "worker", "uses_tools: [kernel]");
    let home = agent(home, "helper", "uses_tools: [kernel]");
    let home = agent(home, "tea_agent", "uses_skills: [tea]");
    let stage = Stage::set(home, vec![("worker", worker), ("helper", helper)]).await;
    stage.say(&mut stage.thread(), "go").await.unwrap();
    let expected = "- tea_agent (free): tea_agent. Does the work of tea_agent. Skills: tea.\n- \
                    worker (busy): worker. Does the work of worker.";
    assert_eq!(stage.asked("helper")[1].messages[2], answer("1", "list_agents", expected));
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn extension_delegates_to_agent() {
    let home = home_with("a", "config: {approval: never}");
    let home = misbehaving(home, "b", "config: {approval: always}");
    let home = agent(home, "helper", "uses_tools: [b]");
    let home = agent(home, "worker", "uses_tools: [a]");
    let run = json!({"do": "run", "agent": "helper", "task": "x"});
    let worker = vec![calls([call("1", "a", &run)]), says("done")];
    let helper = || vec![calls([saying("1", "b", "x")]), says("refused"), says("and again")];
    let scripts = vec![("worker", worker), ("helper", helper())];
    let stage = Stage::set(home, scripts).await;
    // The worker's channel is not the helper's: no request for approval arrives.
    let person = Person::saying([ApprovalDecision::Once]);
    stage.say_as(&mut stage.thread(), "go", &person).await.unwrap();
    assert_eq!(person.asked.lock().unwrap().len(), 0);
    assert_eq!(stage.last(), answer("1", "a", "refused"));
    let denied = "denied: tool `b` requires approval, but no approval channel is available\nhint: \
                  approve it in `skillhost chat`, or run: skillhost tool call b";
    assert_eq!(stage.asked("helper")[1].messages[2], failure("1", "b", denied));

    assert_eq!(stage.fixture.done("a", run).await, "and again");
    let error =
        stage.fixture.fault("a", json!({"do": "run", "agent": "hepler", "task": "x"})).await;
    assert_eq!(error, (skillhost_payload::ErrorKind::NotFound, "agent `hepler` not found".into()));
    assert_eq!(operator().agent_id, "");
    stage.end().await;
}

fn creates(id: &str, arguments: &Value) -> ModelToolCall {
    let mut all = json!({"id": "tea_agent", "name": "Tea", "description": "Makes tea.",
                         "instructions": "Boil: water."});
    for (key, value) in arguments.as_object().expect("arguments are an object") {
        all[key] = value.clone();
    }
    call(id, "create_agent", &all)
}

#[tokio::test(flavor = "multi_thread")]
async fn created_agent_receives_task() {
    let home = misbehaving(registry("skills: {tea: Warm the pot.}"), "a", "");
    let home = agent(home, "worker", "uses_tools: [kernel, a]");
    let new = json!({"uses_tools": ["a"], "uses_skills": ["tea"]});
    let worker = vec![
        calls([creates("1", &new)]),
        calls([delegates("2", "tea_agent", "Make tea.")]),
        says("done"),
    ];
    let scripts = vec![("worker", worker), ("tea_agent", vec![says("hot")])];
    let stage = Stage::set(home, scripts).await;
    let person = Person::saying([ApprovalDecision::Once]);
    stage.say_as(&mut stage.thread(), "go", &person).await.unwrap();
    let asked = person.asked.lock().unwrap()[0].clone();
    assert_eq!(
        (asked.tool.as_str(), asked.extension.as_str(), asked.always),
        ("create_agent", "kernel", true)
    );
    let details = asked.details.unwrap();
    assert!(
        details.starts_with("sandbox/extensions/tea_agent: an agent\nmay call: a\n"),
        "{details}"
    );
    assert!(details.contains("    instructions: 'Boil: water.'\n"), "{details}");
    assert_eq!(stage.last(), answer("2", "delegate_task", "hot"));
    let made = &stage.asked("tea_agent")[0];
    assert_eq!(made.system, "Warm the pot. (misbehave)\n\nBoil: water.");
    let tools: Vec<_> = made.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(tools, ["a"]);
    // The next start finds the written files.
    let Stage { fixture, .. } = stage;
    fixture.kernel.shutdown().await;
    let fixture = KernelFixture::boot(fixture.home).await;
    let agent = fixture.kernel.agents().refresh_agent("tea_agent").await.unwrap();
    assert_eq!(agent.instructions().problem, None);
    assert_eq!(agent.manifest.description, "Makes tea.");
    fixture.kernel.shutdown().await;
    // And only those: an added file was not approved.
    fixture.home.write("sandbox/extensions/tea_agent/prompt.jinja2", "Poison it.");
    let fixture = KernelFixture::boot(fixture.home).await;
    assert!(
        fixture
            .kernel
            .agents()
            .list_agents()
            .iter()
            .all(|agent| agent.manifest.id.as_str() != "tea_agent")
    );
    assert_eq!(
        fixture.rejection("tea_agent"),
        "approve: its files have changed since they were approved: new prompt.jinja2\nhint: review \
         and approve it: skillhost ext approve tea_agent"
    );
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn created_agent_cannot_exceed_creator() {
    let home = misbehaving(registry("skills: {tea: Warm the pot.}"), "a", "");
    let home = misbehaving(home, "b", "");
    let home = agent(home, "worker", "uses_tools: [kernel, a]");
    let attempts = [
        (
            json!({"uses_tools": ["b", "aa"]}),
            "invalid_argument: uses_tools: tool `b` is not available to you\nuses_tools: tool `aa` is not \
          available to you; did you mean a?\nhint: list only tools that you have yourself",
        ),
        (
            json!({"uses_skills": ["coffee"]}),
            "invalid_argument: uses_skills: no skill `coffee`\nhint: known: tea",
        ),
        (
            json!({"id": "helper"}),
            "conflict: id `helper` is already in use\nhint: choose another id, or delegate the task to \
          the agent that has it",
        ),
        (
            json!({"id": "kernel"}),
            "conflict: id `kernel` is already in use\nhint: choose another id, or delegate the task to \
          the agent that has it",
        ),
        (
            json!({"name": "two\nlines"}),
            "invalid_argument: `name` must be one line of text that is not blank, found `two\\nlines`",
        ),
    ];
    let home = agent(home, "helper", "");
    let mut worker: Vec<_> = attempts.iter().map(|(new, _)| calls([creates("1", new)])).collect();
    worker.push(calls([creates("1", &json!({"id": "../up"}))]));
    worker.push(says("done"));
    let stage = Stage::set(home, vec![("worker", worker)]).await;
    let person = Person::saying((0..6).map(|_| ApprovalDecision::Once));
    stage.say_as(&mut stage.thread(), "go", &person).await.unwrap();
    let asked = stage.asked("worker");
    for (number, (_, expected)) in attempts.iter().enumerate() {
        let last = asked[number + 1].messages.last().unwrap();
        assert_eq!(last, &failure("1", "create_agent", expected), "{number}");
    }
    // A request that fails in any case is not presented to a person.
    assert_eq!(person.asked.lock().unwrap().len(), 0);
    assert!(!stage.fixture.home.path("sandbox/extensions").exists());
    assert!(stage.fixture.kernel.agents().refresh_agent("tea_agent").await.is_err());
    stage.end().await;
}
