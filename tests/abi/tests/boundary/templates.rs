//! The templates for extension authors, built unchanged and loaded with their own manifests.

use std::fs;
use std::path::Path;

use serde_json::json;
use skillhost_agents::TurnRequest;
use skillhost_events::topic;
use test_support::{TestHome, example_library};

use crate::fixture::{KernelFixture, misbehaving};

/// Adds a template under its own manifest.
fn template(home: TestHome, kind: &str, id: &str) -> TestHome {
    let templates = "../../sandbox/skills/extension-development/templates";
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join(templates).join(kind);
    let manifest =
        fs::read_to_string(manifest.join("manifest.yaml")).expect("a template's manifest");
    let library = example_library(&format!("template-{kind}"));
    home.manifest(id, &manifest).library(id, id, &library)
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_template_keeps_list_per_agent() {
    let fixture =
        KernelFixture::boot(template(TestHome::new(), "tool-provider", "checklist")).await;
    let added = fixture.done("checklist_add", json!({"item": "write tests"})).await;
    assert_eq!(added, "added as item 1");
    assert_eq!(fixture.done("checklist_show", json!({})).await, "1. write tests");
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn context_template_joins_every_prompt() {
    let home = template(TestHome::new(), "context-provider", "house_rules")
        .manifest("guide", "id: guide\nname: Guide\nagent: {instructions: Guide.}\n");
    let fixture = KernelFixture::boot(home).await;
    let request = TurnRequest { agent: Some("guide".into()), ..TurnRequest::default() };
    assert_eq!(
        fixture.kernel.agents().compose_turn(&request).await.unwrap().system_prompt,
        "Guide.\n\n---\n\n[House rules]\n- Answer in the language of the question.\n\
         - Name the source of every number."
    );
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_template_reports_skills() {
    // Any extension that emits the events is sufficient.
    let home = misbehaving(TestHome::new(), "skill_registry", "");
    let fixture = KernelFixture::boot(template(home, "service-provider", "skill_watch")).await;
    let mut events = fixture.kernel.events().subscribe_all();
    let added = json!({"do": "emit", "topic": "skill.added", "payload": {"id": "x"}});
    // The service subscribes asynchronously, so the event is emitted until it is received.
    let notice = loop {
        fixture.done("skill_registry", added.clone()).await;
        match events.try_recv() {
            Ok(event) if event.topic == topic::NOTICE => break event,
            _ => tokio::task::yield_now().await,
        }
    };
    assert_eq!(
        (&*notice.source, notice.payload.get()),
        ("skill_watch", r#"{"text":"skill.added: x"}"#)
    );
    fixture.kernel.shutdown().await;
}
