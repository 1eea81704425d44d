//! The kernel's tools for extensions: doctor, configuration, secrets.

use std::sync::Arc;

use serde_json::{Value, json};
use skillhost_conversation::{ApprovalDecision, SecretPrompt};
use test_support::TestHome;

use super::stage::{Person, Stage, agent, answer, call, calls, failure, says};
use crate::fixture::{home_with, misbehaving};

const SECRET: &str = "hunter2-and-more";

/// A worker with the kernel's tools and the extension `a`.
fn keeper(rest: &str) -> TestHome {
    agent(home_with("a", rest), "worker", "uses_tools: [kernel, a]")
}

async fn once(
    home: TestHome,
    tool: &str,
    arguments: Value,
    person: &Arc<Person>,
) -> (Stage, String) {
    let script = vec![calls([call("1", tool, &arguments)]), says("done")];
    let stage = Stage::set(home, vec![("worker", script)]).await;
    let mut thread = stage.thread();
    let outcome = stage.say_as(&mut thread, "go", person).await.expect("it answers");
    (stage, outcome.run_id)
}

/// Returns every file of the home except one as text, to search for leaks.
fn everything_but(home: &TestHome, left_out: &str) -> String {
    let (mut text, mut folders) = (String::new(), vec![home.root()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("it is a folder") {
            let path = entry.expect("it can be listed").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.is_file() && path != home.path(left_out) {
                text.push_str(&String::from_utf8_lossy(
                    &std::fs::read(path).expect("it can be read"),
                ));
            }
        }
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_is_stored_only_in_file() {
    let person = Person::typing(SECRET);
    let wanted = json!({"name": "SKILLHOST_T_FEED", "reason": "for the feed"});
    let home = keeper("secrets: [SKILLHOST_T_FEED]");
    let (stage, run_id) = once(home, "request_secure_input", wanted, &person).await;
    let ask = SecretPrompt {
        agent_id: "worker".into(),
        name: "SKILLHOST_T_FEED".into(),
        extensions: vec!["a".into()],
        reason: "for the feed".into(),
    };
    assert_eq!(*person.asked_for.lock().unwrap(), [ask]);
    let said = "The secret `SKILLHOST_T_FEED` is stored; you do not see it. a can read it from now \
                on. An extension that reads it only when it starts needs a restart of the kernel.";
    assert_eq!(stage.last(), answer("1", "request_secure_input", said));
    let file = std::fs::read_to_string(stage.fixture.home.path(".env")).unwrap();
    assert_eq!(file, format!("SKILLHOST_T_FEED='{SECRET}'\n"));
    // The extension that declares it has it at once.
    let read = stage.fixture.done("a", json!({"do": "secret", "name": "SKILLHOST_T_FEED"})).await;
    assert!(read.ends_with(&format!("is {SECRET}")), "{read}");
    let approval = stage.transcript(&run_id).into_iter().find(|line| line["entry"] == "approval");
    assert_eq!(approval.unwrap()["decision"], "once");
    let reported = format!("{:?}{:?}", person.visible_events(), stage.asked("worker"));
    assert!(!reported.contains(SECRET), "{reported}");
    assert!(!everything_but(&stage.fixture.home, ".env").contains(SECRET));
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_request_requires_declaration() {
    let person = Person::typing(SECRET);
    let cases = [
        (
            "SKILLHOST_T_FEEDS",
            "not_found: secret `SKILLHOST_T_FEEDS` is not listed in any manifest\nhint: did you mean \
             SKILLHOST_T_FEED?",
        ),
        (
            "PATH",
            "conflict: `PATH` is set in the kernel's environment, which takes precedence\nhint: \
             change or unset the variable before the kernel is started",
        ),
    ];
    for (name, refused) in cases {
        let wanted = json!({"name": name, "reason": "x"});
        let home = keeper("secrets: [SKILLHOST_T_FEED, PATH]");
        let (stage, _) = once(home, "request_secure_input", wanted, &person).await;
        assert_eq!(stage.last(), failure("1", "request_secure_input", refused));
        assert!(person.asked_for.lock().unwrap().is_empty());
        assert!(!stage.fixture.home.path(".env").exists());
        stage.end().await;
    }
    // A user who declines.
    let wanted = json!({"name": "SKILLHOST_T_FEED", "reason": "x"});
    let (stage, _) = once(
        keeper("secrets: [SKILLHOST_T_FEED]"),
        "request_secure_input",
        wanted,
        &Arc::default(),
    )
    .await;
    let refused = "denied: `SKILLHOST_T_FEED` was not provided: not now\nhint: request it again only \
                   if the user says so";
    assert_eq!(stage.last(), failure("1", "request_secure_input", refused));
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn configuration_applies_at_once() {
    let wanted = json!({"id": "a", "values": {"block": "new", "priority": null}});
    let person = Person::saying([ApprovalDecision::Once]);
    let home = keeper("config: {block: old, priority: 5}");
    let (stage, _) = once(home, "configure_extension", wanted, &person).await;
    let said = "`a` was reloaded with the new configuration.";
    assert_eq!(stage.last(), answer("1", "configure_extension", said));
    assert!(person.asked.lock().unwrap()[0].always);
    let block = stage
        .fixture
        .kernel
        .extensions()
        .context_block("a", &crate::fixture::operator(), "")
        .await
        .unwrap();
    assert_eq!(block.as_deref(), Some("new"));
    let layer =
        std::fs::read(stage.fixture.home.path("sandbox/data/kernel/configured.json")).unwrap();
    let layer: Value = serde_json::from_slice(&layer).unwrap();
    assert_eq!(layer, json!({"a": {"block": "new"}}));
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_configuration_changes_no_state() {
    let layer = r#"{"a":{"block":"before"}}"#;
    let home = keeper("").file("sandbox/data/kernel/configured.json", layer);
    let wanted = json!({"id": "a", "values": {"priority": "high"}});
    let person = Person::saying([ApprovalDecision::Once]);
    let (stage, _) = once(home, "configure_extension", wanted, &person).await;
    let reported = format!("{:?}", stage.last());
    assert!(reported.contains("The configuration is unchanged."), "{reported}");
    assert!(reported.contains("priority") || reported.contains("invalid type"), "{reported}");
    let kept =
        std::fs::read(stage.fixture.home.path("sandbox/data/kernel/configured.json")).unwrap();
    let kept: Value = serde_json::from_slice(&kept).unwrap();
    assert_eq!(kept, serde_json::from_str::<Value>(layer).unwrap());
    let block = stage
        .fixture
        .kernel
        .extensions()
        .context_block("a", &crate::fixture::operator(), "")
        .await
        .unwrap();
    assert_eq!(block.as_deref(), Some("before"));
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_settings_cannot_be_overridden() {
    let home = keeper("").settings("extensions: {a: {block: mine}}\n");
    let wanted = json!({"id": "a", "values": {"block": "yours"}});
    let (stage, _) =
        once(home, "configure_extension", wanted, &Person::saying([ApprovalDecision::Once])).await;
    let refused = "conflict: `block` of `a` is set in the operator's settings, which take \
                   precedence\nhint: ask the operator to change it in skillhost.yaml";
    assert_eq!(stage.last(), failure("1", "configure_extension", refused));
    assert!(!stage.fixture.home.path("sandbox/data/kernel/configured.json").exists());
    stage.end().await;

    let wanted = json!({"id": "b", "values": {"block": "x"}});
    let (stage, _) =
        once(keeper(""), "configure_extension", wanted, &Person::saying([ApprovalDecision::Once]))
            .await;
    let reported = format!("{:?}", stage.last());
    assert!(reported.contains("not_found: extension `b` not found"), "{reported}");
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_reports_failed_and_missing_extensions() {
    let home = misbehaving(keeper(""), "b", "config: {parts: {health: fail}}");
    let script = vec![
        calls([call("1", "extensions_doctor", &json!({}))]),
        calls([call("2", "extensions_doctor", &json!({}))]),
        says("done"),
    ];
    let stage = Stage::set(home, vec![("worker", script)]).await;
    let folder = stage.fixture.home.path("sandbox/extensions/new");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("manifest.yaml"), "id: new\nname: New\nentrypoint: new\n").unwrap();
    let mut thread = stage.thread();
    stage.say(&mut thread, "go").await.unwrap();
    let version = stage.fixture.kernel.report().loaded[0].version.clone();
    let said = format!(
        "2 findings:\n- `new` was rejected in phase approve: it is not approved\n  hint: review, \
         build and approve it: skillhost ext build new\n- `b` is not healthy: health failed\n  hint: try \
         less\nLoaded: a {version}, b {version}\nAgents: worker\n- Note: `worker` optionally depends on `registry`, which does \
         not exist\n"
    );
    let machine = stage.fixture.kernel.extensions().describe_isolation().await.unwrap();
    let mut said = format!("{said}Isolation: {}\n", machine.summarize());
    for gap in &machine.gaps {
        let title = match gap.level {
            Some(level) => format!("Isolation level {level} is missing"),
            None => "Isolation lacks a guarantee".to_owned(),
        };
        said += &format!(
            "- {title}: {}\n  hint: {}\n",
            gap.finding,
            gap.remedy.replace('\n', "\n    ")
        );
    }
    assert_eq!(stage.last(), answer("2", "extensions_doctor", &said));
    stage.end().await;
}
