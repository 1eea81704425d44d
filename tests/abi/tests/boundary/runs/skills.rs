//! Active skills: position in requests, changes, tool lists.

use std::sync::Arc;

use serde_json::json;
use skillhost_conversation::{ApprovalDecision, Message};
use skillhost_payload::ErrorKind;
use test_support::TestHome;

use super::stage::{
    Person, Stage, agent, answer, assistant, call, called, calls, failure, registry, saying, says,
    user,
};
use crate::fixture::{misbehaving, patient};

const HEADING: &str = "These skills are loaded, the most recent one last. Their instructions are in \
                       force; if they conflict, the later one applies. Other skills in the \
                       messages are no longer loaded, and other texts of these skills no longer \
                       apply.";

/// Returns the system prompt of the worker with these active skills and their texts.
fn prompt_with(skills: &[(&str, &str)]) -> String {
    let element =
        |(name, text): &(&str, &str)| format!("<skill name=\"{name}\">\n{text}\n</skill>\n");
    let skills: String = skills.iter().map(element).collect();
    format!("You are worker.\n\n---\n\n<active_skills>\n{HEADING}\n{skills}</active_skills>")
}

const IN_MESSAGES: &str = "(its text is in a message)";

/// A worker with the registry's tool and that of `a`.
fn worker(config: &str, rest: &str) -> TestHome {
    let home = misbehaving(registry(config), "a", "config: {approval: unless_granted}");
    agent(home, "worker", &format!("uses_tools: [registry, a], {rest}"))
}

fn reads(id: &str, skill: &str) -> skillhost_conversation::ModelToolCall {
    call(id, "registry", &json!({"do": "read", "id": skill}))
}

/// Returns the replacement of a digest that `misbehave` derives from a text.
fn digest(text: &str) -> String {
    let bytes: String = text.bytes().take(32).map(|byte| format!("{byte:02x}")).collect();
    format!("{bytes:0<64}")
}

#[tokio::test(flavor = "multi_thread")]
async fn read_skill_repeats_only_after_change() {
    let script =
        vec![calls([reads("1", "tea")]), says("read"), says("as before"), says("as it is now")];
    let home = worker("skills: {tea: Boil water.}", "");
    let stage = Stage::set(home, vec![("worker", script)]).await;
    let (mut thread, person) = (stage.thread(), Arc::new(Person::default()));
    let outcome = stage.say_as(&mut thread, "one", &person).await.unwrap();
    let skills: Vec<_> =
        outcome.skills.iter().map(|s| (s.skill_id.as_str(), s.digest.clone())).collect();
    assert_eq!(skills, [("tea", digest("Boil water."))]);
    stage.say_as(&mut thread, "two", &person).await.unwrap();
    stage.fixture.done("registry", json!({"do": "learn", "id": "tea", "text": "Use a pot."})).await;
    stage.say_as(&mut thread, "three", &person).await.unwrap();

    let asked = stage.asked("worker");
    let systems: Vec<_> = asked.iter().map(|request| request.system.as_str()).collect();
    let changed = prompt_with(&[("tea", "Use a pot. (misbehave)")]);
    let read = prompt_with(&[("tea", IN_MESSAGES)]);
    assert_eq!(systems, ["You are worker.", &read, &read, &changed]);
    assert_eq!(
        asked[3].messages,
        [
            user("one"),
            called([reads("1", "tea")]),
            answer("1", "registry", "Boil water."),
            assistant("read"),
            user("two"),
            assistant("as before"),
            user("three"),
        ]
    );
    assert_eq!(person.notes(), ["skill `tea` has changed; its new text applies"]);
    let active: Vec<_> = person
        .visible_events()
        .into_iter()
        .filter(|event| event["event"] == "skill_active")
        .map(|event| event["digest"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(active, [digest("Boil water."), digest("Use a pot.")]);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invoked_skill_applies_next_turn() {
    let home = worker("skills: {user-tea: Boil water.}", "");
    let stage = Stage::set(home, vec![("worker", vec![says("ok")])]).await;
    let mut thread = stage.thread();
    let kernel = &stage.fixture.kernel;
    let skill = kernel.agents().activate_skill(&mut thread, "user-tea").await.unwrap();
    assert_eq!(skill.digest, digest("Boil water."));
    let error = kernel.agents().activate_skill(&mut thread, "coffee").await.unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string()),
        (ErrorKind::NotFound, "no skill `coffee`".into())
    );
    stage.say(&mut thread, "go").await.unwrap();
    let expected = prompt_with(&[("user-tea", "Boil water. (misbehave)")]);
    assert_eq!(stage.asked("worker")[0].system, expected);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn active_skills_survive_compaction() {
    let flood = |id| calls([call(id, "registry", &json!({"do": "flood", "bytes": 1_200}))]);
    let script = vec![
        calls([reads("1", "tea")]),
        flood("2"),
        flood("3"),
        flood("4"),
        says("Tea was read about."),
        says("done"),
    ];
    let home = worker("skills: {tea: Boil water., bound: Be kind.}", "uses_skills: [bound]");
    let stage = Stage::set_with(home, vec![("worker", script)], patient(), Some(1_000)).await;
    let mut thread = stage.thread();
    stage.say(&mut thread, "go").await.unwrap();
    let asked = stage.asked("worker");
    let before = &asked[3].system;
    assert_eq!(
        *before,
        format!("Be kind. (misbehave)\n\n{}", prompt_with(&[("tea", IN_MESSAGES)]))
    );
    let active = prompt_with(&[("tea", "Boil water. (misbehave)")]);
    let system = format!("Be kind. (misbehave)\n\n{active}");
    // The statement about the kernel's summary follows.
    assert_eq!(asked[5].system.split("\n\n---\n\n[Kernel]\n").next(), Some(&*system));
    assert_eq!(asked[5].messages.len(), 3);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn truncated_skill_is_carried_in_full() {
    let long = call("1", "registry", &json!({"do": "read", "id": "tea", "pad": 70_000}));
    let home = worker("skills: {tea: Boil water.}", "");
    let stage = Stage::set(home, vec![("worker", vec![calls([long]), says("ok")])]).await;
    stage.say(&mut stage.thread(), "go").await.unwrap();
    let expected = prompt_with(&[("tea", "Boil water. (misbehave)")]);
    assert_eq!(stage.asked("worker")[1].system, expected);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_skill_is_reported_to_run() {
    let home = worker("skills: {tea: Boil water.}", "");
    let stage = Stage::set(home, vec![("worker", vec![says("ok")])]).await;
    let (mut thread, person) = (stage.thread(), Arc::new(Person::default()));
    stage.fixture.kernel.agents().activate_skill(&mut thread, "tea").await.unwrap();
    stage.fixture.done("registry", json!({"do": "forget", "id": "tea"})).await;
    stage.say_as(&mut thread, "go", &person).await.unwrap();
    assert_eq!(stage.asked("worker")[0].system, "You are worker.");
    assert_eq!(person.notes(), ["skill `tea` is not active: no skill `tea`"]);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn granting_skill_replaces_approval() {
    let says_of = "skills: {tea: Boil water., coffee: Grind.}, \
                   says: {tea: {tools: [a], grants: true}, coffee: {tools: [a]}}";
    let script = vec![
        calls([reads("1", "coffee")]),
        calls([saying("2", "a", "x")]),
        calls([reads("3", "tea")]),
        calls([saying("4", "a", "y")]),
        says("done"),
    ];
    let stage = Stage::set(worker(says_of, ""), vec![("worker", script)]).await;
    let person = Person::saying([ApprovalDecision::Refuse { reason: String::new() }]);
    let mut thread = stage.thread();
    stage.say_as(&mut thread, "go", &person).await.unwrap();
    assert_eq!(person.asked.lock().unwrap().len(), 1);
    assert_eq!(stage.last(), answer("4", "a", "y"));
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn always_approval_ignores_granting_skills() {
    let config = "skills: {tea: Boil water.}, says: {tea: {tools: [a], grants: true}}";
    let home = misbehaving(registry(config), "a", "config: {approval: always}");
    let home = agent(home, "worker", "uses_tools: [registry, a], uses_skills: [tea]");
    let script = vec![calls([saying("1", "a", "x")]), says("done")];
    let stage = Stage::set(home, vec![("worker", script)]).await;
    let person = Person::saying([ApprovalDecision::Refuse { reason: String::new() }]);
    stage.say_as(&mut stage.thread(), "go", &person).await.unwrap();
    assert_eq!(person.asked.lock().unwrap().len(), 1);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restricting_skills_intersect_tools() {
    let config = "skills: {tea: Boil water., milk: Warm it.}, read_only: true, tools: [registry], \
                  says: {tea: {tools: [a, b, 'c(x:*)'], grants: true}, milk: {tools: [b, c]}}";
    let home = misbehaving(misbehaving(misbehaving(registry(config), "a", ""), "b", ""), "c", "");
    let home = agent(
        home,
        "worker",
        "uses_tools: [registry, a, b, c], uses_skills: [tea], allowed_tools_mode: restrict",
    );
    let through = call(
        "4",
        "b",
        &json!({
            "do": "call", "tool": "a", "arguments": {"do": "say", "text": "x"}
        }),
    );
    let script = vec![
        calls([saying("1", "a", "x"), saying("2", "c", "x")]),
        calls([reads("3", "milk")]),
        calls([saying("3", "a", "x"), through, saying("5", "b", "y")]),
        says("done"),
    ];
    let stage = Stage::set(home, vec![("worker", script)]).await;
    let mut thread = stage.thread();
    stage.say(&mut thread, "go").await.unwrap();
    let offered: Vec<_> = stage
        .asked("worker")
        .iter()
        .map(|request| request.tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>())
        .collect();
    assert_eq!(offered[0], ["a", "b", "registry"]);
    assert_eq!(offered[2], ["b", "registry"]);
    let refused = "`c` was not called: the active skills allow only a, b, c(x:*)";
    assert_eq!(thread.messages()[2..4], [answer("1", "a", "x"), failure("2", "c", refused)]);
    assert_eq!(
        stage.asked("worker")[3].messages[7..],
        [
            failure("3", "a", "`a` was not called: the active skills allow only b"),
            failure(
                "4",
                "b",
                "denied: tool `a` is not allowed by the active skills\nhint: use one of: b"
            ),
            answer("5", "b", "y"),
        ]
    );
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_skill_restricts_every_tool() {
    let config = "skills: {tea: Boil water.}, says: {tea: {tools: [a]}}, \
                  parts: {activate: panic}";
    let home = worker(config, "uses_skills: [tea], allowed_tools_mode: restrict");
    let stage = Stage::set(home, vec![("worker", vec![says("ok")])]).await;
    let person = Arc::new(Person::default());
    stage.say_as(&mut stage.thread(), "go", &person).await.unwrap();
    assert_eq!(stage.asked("worker")[0].tools, []);
    let notes = person.notes();
    assert_eq!(notes, ["skill `tea` is not active: the extension panicked: activate panicked"]);
    assert!(matches!(&stage.last(), Message::User { .. }));
    stage.end().await;
}
