//! A library that was compiled before the boundary's crates and types got their present names.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use skillhost_agents::TurnRequest;
use skillhost_core::ContextOutcome;
use skillhost_events::topic;
use skillhost_payload::{CallContext, ErrorKind};
use test_support::{TestHome, example_library};

use crate::fixture::{KernelFixture, misbehaving, next, operator};

/// The digest of `tests/abi/frozen`. It changes only if sources are edited that must not be.
const FROZEN_SOURCES: &str = "39a63b81aa2d3fbe321fbe939da8a8222fad0231ab9c381d52474a9a85706631";

/// An agent whose instructions are a skill of the frozen extension.
const GUIDE: &str = "id: guide\nname: Guide\ndepends_on: [old]\nagent: {uses_skills: [manners]}\n";

fn frozen(home: TestHome, id: &str, is_healthy: bool, rest: &str) -> TestHome {
    let config = format!("config: {{healthy: {is_healthy}, skills: {{manners: Be polite.}}}}");
    home.manifest(id, &format!("id: {id}\nname: {id}\nentrypoint: frozen\n{config}\n{rest}\n"))
        .library(id, "frozen", &example_library("frozen"))
}

#[tokio::test(flavor = "multi_thread")]
async fn earlier_library_loads() {
    let home = frozen(TestHome::new(), "old", true, "").manifest("guide", GUIDE);
    let fixture = KernelFixture::boot(misbehaving(home, "new", "")).await;
    assert_eq!(fixture.loaded(), ["new", "old"]);
    let report = fixture.kernel.report();
    assert_eq!(report.rejected.len(), 0, "{:?}", report.rejected);
    let old = &report.loaded[1];
    assert_eq!(old.context_priority, Some(7));
    assert_eq!((&*old.version, old.service), ("0.9.0", true));
    assert_eq!(old.tools, ["greet", "relay", "announce"]);
    assert_eq!(old.interfaces, ["skill"]);

    let agents = fixture.kernel.agents();
    let greeted = agents.invoke_tool(operator(), "greet", r#"{"name": "you"}"#).await.unwrap();
    assert_eq!(greeted.text, "Hello, you, operator.");
    let structured: Value = serde_json::from_str(greeted.structured.unwrap().get()).unwrap();
    assert_eq!(structured, json!({"text": "Hello, you, operator.", "build": "frozen"}));
    assert_eq!(greeted.skill.unwrap().skill_id, "manners");
    let error = agents.invoke_tool(operator(), "greet", "{}").await.unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string(), error.hint()),
        (ErrorKind::InvalidArgument, "no name".to_owned(), "give one".to_owned())
    );

    let request = TurnRequest {
        agent: Some("guide".into()),
        prompt: "where?".into(),
        ..TurnRequest::default()
    };
    let turn = agents.compose_turn(&request).await.unwrap();
    assert_eq!(turn.system_prompt, "Be polite.\n\n---\n\nguide was asked: where?");
    let silent = TurnRequest { prompt: String::new(), ..request };
    let turn = agents.compose_turn(&silent).await.unwrap();
    let block = turn.blocks.iter().find(|block| block.extension.as_str() == "old").unwrap();
    assert!(matches!(block.outcome, ContextOutcome::Nothing));
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn earlier_library_calls_kernel() {
    let home = frozen(TestHome::new(), "old", true, "depends_on: [new]");
    let fixture = KernelFixture::boot(misbehaving(home, "new", "")).await;
    let mut events = fixture.kernel.events().subscribe_all();
    let agents = fixture.kernel.agents();
    let call = async |tool: &str, arguments: Value| {
        agents.invoke_tool(operator(), tool, &arguments.to_string()).await
    };
    let relayed = json!({"name": "new", "arguments": {"do": "build"}});
    assert_eq!(call("relay", relayed).await.unwrap().text, "relayed: misbehave");
    let error = call("relay", json!({"name": "none", "arguments": {}})).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let announced = json!({"name": "old.said", "arguments": {"text": "hi"}});
    assert_eq!(call("announce", announced).await.unwrap().text, "announced");
    let event = next(&mut events, "old.said").await;
    assert_eq!((&*event.source, event.payload.get()), ("old", r#"{"text":"hi"}"#));

    // `relay` is for operators only, `announce` requires an approval.
    let by_agent = CallContext { agent_id: "guide".into(), ..CallContext::default() };
    for tool in ["relay", "announce"] {
        let error = agents.invoke_tool(by_agent.clone(), tool, "{}").await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Denied), "{error}");
    }
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn earlier_library_lives_and_ends() {
    let home = frozen(TestHome::new(), "ill", false, "tools: {prefix: ill_}");
    let fixture = KernelFixture::boot(frozen(home, "well", true, "")).await;
    let health = fixture.kernel.extensions().check_health().await;
    let health: Vec<_> = health
        .into_iter()
        .map(|(id, answer)| (id.to_string(), answer.err().map(|error| (error.kind, error.hint))))
        .collect();
    let unwell = Some((ErrorKind::Unavailable, "rest".to_owned()));
    assert_eq!(health, [("ill".to_owned(), unwell), ("well".to_owned(), None)]);

    let mut events = fixture.kernel.events().subscribe_all();
    fixture.kernel.agents().reload("well").await.unwrap();
    next(&mut events, topic::RELOADED).await;
    let hello =
        fixture.kernel.agents().invoke_tool(operator(), "greet", r#"{"name": "all"}"#).await;
    assert_eq!(hello.unwrap().text, "Hello, all, operator.");
    fixture.kernel.shutdown().await;
    let record = fixture.record();
    let steps = |id: &str| -> Vec<_> {
        record.iter().filter_map(|step| step.strip_prefix(id)).map(str::to_owned).collect()
    };
    let life = [" new", " start", " service", " service ended", " stop", " shutdown", " drop"];
    assert_eq!(steps("ill"), life);
    let [mut first, mut second] = [life.to_vec(), life.to_vec()];
    first.append(&mut second);
    let mut twice = steps("well");
    twice.sort_unstable();
    first.sort_unstable();
    assert_eq!(twice, first);
}

/// Adds the files of a directory to a digest, in the order of their paths.
#[expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
fn digest_files(directory: &Path, root: &Path, digest: &mut Sha256) {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = entries.collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            digest_files(&path, root, digest);
        } else {
            let bytes = fs::read(&path).unwrap();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap();
            digest.update(format!("{name} {}\n", bytes.len()));
            digest.update(&bytes);
        }
    }
}

#[test]
fn frozen_sources_are_unchanged() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("frozen");
    let mut digest = Sha256::new();
    digest_files(&root, &root, &mut digest);
    let found: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        found, FROZEN_SOURCES,
        "never edit `tests/abi/frozen`: libraries that authors have compiled are of these sources"
    );
}
