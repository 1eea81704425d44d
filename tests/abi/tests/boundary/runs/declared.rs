//! Declarations of skills in runs: capabilities, order, bindings and the tools of agents.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use skillhost_control::AgentError;
use skillhost_conversation::{Message, ModelToolCall, ThreadStore};
use test_support::TestHome;

use super::stage::{
    Person, Stage, Step, agent, answer, call, calls, failure, registry, saying, says,
};
use crate::fixture::misbehaving;

const TOPIC: &str = "skill.capability_undeclared";

/// The tools, each with the capabilities that it uses; none means the one of its name.
const TOOLS: [(&str, &[&str]); 8] = [
    ("reads", &["file:read"]),
    ("writes", &["file:write"]),
    ("moves", &["file:read", "file:write"]),
    ("plain", &[]),
    ("runs", &["shell:execute"]),
    ("named", &["tool:plain"]),
    ("odd", &["FILE:READ"]),
    ("all", &["file:read", "file:write", "shell:execute"]),
];

type Manifest = Option<&'static [&'static str]>;

/// The manifests of two bound skills.
const MANIFESTS: [(Manifest, Manifest); 13] = [
    (None, None),
    (Some(&[]), None),
    (Some(&["file:read"]), None),
    (Some(&["file:read", "file:write"]), None),
    (Some(&["file:write", "shell:execute"]), None),
    (Some(&["file:read", "file:write", "shell:execute"]), None),
    (Some(&["tool:plain"]), None),
    (Some(&["*", "file:*", "file:", "tool:*", " file:read", "file:read\u{200b}"]), None),
    (Some(&["FILE:READ", "tool:writes", "tool:reads"]), None),
    (Some(&["file:read"]), Some(&["file:write"])),
    (Some(&["file:read", "file:write"]), Some(&["file:read", "tool:plain"])),
    (None, Some(&["file:read"])),
    (Some(&[]), Some(&[])),
];

const MODES: [&str; 3] = ["off", "report", "enforce"];

/// States the capabilities that a call uses and a skill with a manifest does not declare.
fn undeclared(tool: usize, manifests: (Manifest, Manifest)) -> BTreeSet<(&'static str, String)> {
    let (name, needs) = TOOLS[tool];
    let mut all: Vec<String> = needs.iter().map(|need| (*need).to_owned()).collect();
    if all.is_empty() {
        all.push(["tool:", name].concat());
    }
    let mut missing = BTreeSet::new();
    for (skill, manifest) in [("one", manifests.0), ("two", manifests.1)] {
        for need in &all {
            if manifest.is_some_and(|declared| declared.iter().all(|it| it != need)) {
                missing.insert((skill, need.clone()));
            }
        }
    }
    missing
}

fn agent_id(mode: &str, case: usize) -> String {
    format!("{mode}_{case}")
}

fn skill_id(skill: &str, case: usize) -> String {
    format!("{skill}-{case}")
}

/// A home with an agent for each mode and each pair of manifests.
fn home_of_all() -> TestHome {
    let (mut skills, mut stated) = (json!({}), json!({}));
    for (case, (one, two)) in MANIFESTS.iter().enumerate() {
        for (skill, manifest) in [("one", one), ("two", two)] {
            let id = skill_id(skill, case);
            skills[&id] = json!("Text.");
            if let Some(capabilities) = manifest {
                stated[&id] = json!({ "capabilities": capabilities });
            }
        }
    }
    let names: Vec<_> = TOOLS.iter().map(|(name, _)| *name).collect();
    let needs: serde_json::Map<_, _> =
        TOOLS.iter().map(|(name, needs)| ((*name).to_owned(), json!(needs))).collect();
    let home = registry(&format!("skills: {skills}, says: {stated}"));
    let tools = json!({ "tools": names, "needs": needs });
    let mut home = misbehaving(home, "a", &format!("config: {tools}"));
    for mode in MODES {
        for case in 0..MANIFESTS.len() {
            let bound = ["one", "two"].map(|skill| skill_id(skill, case)).join(", ");
            let rest = format!(
                "uses_tools: [registry, a], uses_skills: [{bound}], capability_mode: {mode}"
            );
            home = agent(home, &agent_id(mode, case), &rest);
        }
    }
    home
}

/// 3 modes, 13 pairs of manifests and 8 tools, each compared with an oracle of its own.
#[tokio::test(flavor = "multi_thread")]
async fn capability_cases_match_their_oracle() {
    let ids: Vec<_> = MODES
        .iter()
        .flat_map(|mode| (0..MANIFESTS.len()).map(|case| agent_id(mode, case)))
        .collect();
    let made = || -> Vec<ModelToolCall> {
        let numbered = TOOLS.iter().enumerate();
        numbered.map(|(number, (name, _))| saying(&number.to_string(), name, "made")).collect()
    };
    let scripts: Vec<(&str, Vec<Step>)> =
        ids.iter().map(|id| (id.as_str(), vec![calls(made()), says("done")])).collect();
    let stage = Stage::set(home_of_all(), scripts).await;
    let threads = ThreadStore::new(stage.fixture.kernel.home());
    let mut cases = 0;
    for mode in MODES {
        for (case, manifests) in MANIFESTS.iter().enumerate() {
            let id = agent_id(mode, case);
            let mut events = stage.fixture.kernel.events().subscribe_all();
            let mut thread = tokio::task::block_in_place(|| threads.create(&id)).unwrap();
            stage.say_as(&mut thread, "go", &Arc::new(Person::default())).await.unwrap();
            let mut reported = BTreeSet::new();
            while let Ok(event) = events.try_recv() {
                if event.topic == TOPIC {
                    let payload: Value = serde_json::from_str(event.payload.get()).unwrap();
                    assert_eq!(payload["agent"], id);
                    let text = |key: &str| payload[key].as_str().unwrap().to_owned();
                    let is_new = reported.insert((text("tool"), text("skill"), text("capability")));
                    assert!(is_new, "reported twice: {payload}");
                }
            }
            let mut expected_reports = BTreeSet::new();
            for (number, (name, _)) in TOOLS.iter().enumerate() {
                cases += 1;
                let missing = undeclared(number, *manifests);
                let message = &thread.messages()[2 + number];
                let Message::Tool { name: tool, text, is_error, .. } = message else {
                    panic!("{message:?}")
                };
                assert_eq!(tool, name);
                let is_refused = mode == "enforce" && !missing.is_empty();
                assert_eq!(*is_error, is_refused, "{mode} {manifests:?} {name}: {text}");
                if is_refused {
                    let start = format!("denied: tool `{name}` uses `");
                    assert!(text.starts_with(&start), "{text}");
                } else {
                    assert_eq!(text, "made");
                }
                if mode == "report" {
                    expected_reports.extend(
                        missing
                            .into_iter()
                            .map(|(skill, need)| ((*name).to_owned(), skill_id(skill, case), need)),
                    );
                }
            }
            assert_eq!(reported, expected_reports, "{mode} {manifests:?}");
        }
    }
    assert_eq!(cases, 312);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn skill_of_same_reply_counts() {
    let config = "skills: {tea: Boil water.}, says: {tea: {capabilities: [file:read]}}";
    let home = misbehaving(registry(config), "a", "config: {needs: {a: ['file:write']}}");
    let home = agent(home, "worker", "uses_tools: [registry, a], capability_mode: enforce");
    let read = call("2", "registry", &json!({"do": "read", "id": "tea"}));
    let script = vec![
        calls([saying("1", "a", "x"), read, saying("3", "a", "y")]),
        calls([saying("4", "a", "z")]),
        says("done"),
    ];
    let stage = Stage::set(home, vec![("worker", script)]).await;
    let mut thread = stage.thread();
    stage.say(&mut thread, "go").await.unwrap();
    let error = "denied: tool `a` uses `file:write`, which the active skill `tea` does not declare\n\
                 hint: unload the skill if it is no longer needed, or find another way";
    // The calls of one reply are made at once unless a tool declares that it changes skills.
    assert_eq!(thread.messages()[6], failure("4", "a", error));
    // A call of the registry is never refused: its own tools are needed to leave a skill.
    assert_eq!(thread.messages()[3], answer("2", "registry", "Boil water."));
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_tighten_mode_of_agent() {
    let config = "skills: {tea: Boil water.}, says: {tea: {capabilities: []}}";
    let home = misbehaving(registry(config), "a", "");
    let home = agent(home, "worker", "uses_tools: [a], uses_skills: [tea], capability_mode: off")
        .settings("capability_modes: {minimum: enforce}\n");
    let script = vec![calls([saying("1", "a", "x")]), says("done")];
    let stage = Stage::set(home, vec![("worker", script)]).await;
    let mut thread = stage.thread();
    stage.say(&mut thread, "go").await.unwrap();
    let Message::Tool { text, is_error: true, .. } = &thread.messages()[2] else { panic!("made") };
    assert!(text.contains("`tool:a`, which the active skill `tea`"), "{text}");
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn declared_order_applies_to_prompt() {
    let config = "skills: {tea: T., milk: M., cup: C.}, \
                  says: {tea: {follows: [cup]}, cup: {}, milk: {precedes: [tea]}}";
    let home = agent(registry(config), "worker", "uses_tools: [registry]");
    let read = |id: &str, skill: &str| call(id, "registry", &json!({"do": "read", "id": skill}));
    let script = vec![
        calls([read("1", "tea")]),
        calls([read("2", "milk")]),
        calls([read("3", "cup")]),
        says("done"),
    ];
    let stage = Stage::set(home, vec![("worker", script)]).await;
    stage.say(&mut stage.thread(), "go").await.unwrap();
    let names = |system: &str| -> Vec<String> {
        let parts = system.split("<skill name=\"").skip(1);
        parts.filter_map(|part| part.split('"').next().map(str::to_owned)).collect()
    };
    let asked = stage.asked("worker");
    assert_eq!(names(&asked[1].system), ["tea"]);
    assert_eq!(names(&asked[2].system), ["milk", "tea"]);
    assert_eq!(names(&asked[3].system), ["milk", "cup", "tea"]);
    assert!(asked[3].system.contains("in the order in which they apply"));
    assert!(asked[1].system.contains("the most recent one last"));
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unbindable_skill_fails_one_agent() {
    let config = "skills: {tea: T., milk: M.}, unbindable: {tea: 'tea: Bash ≥ 2.0 is missing'}";
    let home = agent(registry(config), "worker", "uses_skills: [milk]");
    let home = agent(home, "drinker", "uses_skills: [milk, tea]");
    let kernel = crate::fixture::KernelFixture::boot(home).await;
    let found = kernel.kernel.agents().refresh_agent("drinker").await.unwrap();
    let AgentError { reason, hint } = found.instructions().problem.clone().unwrap();
    let place = "manifests/drinker/manifest.yaml:4:";
    assert!(reason.contains(place), "{reason}");
    assert!(reason.ends_with("uses_skills: tea: Bash ≥ 2.0 is missing for drinker"), "{reason}");
    assert_eq!(hint, "bind another");
    let other = kernel.kernel.agents().refresh_agent("worker").await.unwrap();
    assert_eq!(other.instructions().problem, None);
    kernel.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_tools_are_sent_with_versions() {
    let home = misbehaving(registry(""), "a", "version: 1.2.3");
    let home = agent(home, "worker", "uses_tools: [a, kernel]")
        .settings("tool_aliases: {Read: read, read: a, Gone: missing, a: registry}\n");
    let home = agent(home, "other", "uses_tools: [registry]");
    let script = vec![says("ok"), says("ok")];
    let stage = Stage::set(home, vec![("worker", script)]).await;
    let mut thread = stage.thread();
    stage.say(&mut thread, "go").await.unwrap();
    let sent = stage.fixture.done("registry", json!({"do": "tools"})).await;
    let sent: Value = serde_json::from_str(&sent).unwrap();
    let tools = |agent: &str| -> Vec<(String, Value)> {
        let found = sent.as_array().unwrap().iter().find(|it| it["agent_id"] == agent).unwrap();
        let tools = found["tools"].as_array().unwrap().iter();
        tools
            .map(|tool| (tool["name"].as_str().unwrap().to_owned(), tool["version"].clone()))
            .collect()
    };
    let worker = tools("worker");
    let version = |name: &str| worker.iter().find(|(it, _)| it == name).map(|(_, it)| it.clone());
    assert_eq!(version("a"), Some(json!("1.2.3")));
    // A name is followed until it is that of a tool.
    assert_eq!((version("Read"), version("Gone")), (Some(json!("1.2.3")), None));
    let kernel = version("delegate_to_agent").or_else(|| version("delegate"));
    assert!(kernel.is_none_or(|it| it == env!("CARGO_PKG_VERSION")), "{worker:?}");
    assert!(worker.len() > 1, "{worker:?}");
    // Without the tool `a`, its name is an alias.
    let other: Vec<_> = tools("other").into_iter().map(|(name, _)| name).collect();
    assert_eq!(other, ["Read", "a", "read", "registry"]);
    stage.end().await;
}
