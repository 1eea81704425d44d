//! Agents and the extension that provides their skills.

use serde_json::json;
use skillhost_agents::TurnRequest;
use skillhost_control::InstructionLayerKind;
use skillhost_core::{KernelError, KernelLimits};
use skillhost_kernel::Kernel;
use test_support::TestHome;

use crate::fixture::{Gate, KernelFixture, SOON, home_with, misbehaving, patient};

const GUIDE: &str = "id: guide\nname: Guide\ndepends_on: [registry]\n\
                     agent:\n  uses_skills: [maps, tours]\n  instructions: Stay on the path.\n";

/// A provider of skills under the id `registry`.
fn registry(rest: &str) -> TestHome {
    home_with(
        "registry",
        &format!("config: {{skills: {{maps: Read maps., tours: Be brief.}}, {rest}}}"),
    )
}

async fn instructions(kernel: &Kernel) -> Result<String, KernelError> {
    let request = TurnRequest { agent: Some("guide".into()), ..TurnRequest::default() };
    kernel.agents().compose_turn(&request).await.map(|turn| turn.system_prompt)
}

#[tokio::test(flavor = "multi_thread")]
async fn instructions_join_prompt_skills_and_manifest() {
    let home = registry("")
        .manifest("guide", GUIDE)
        .file("manifests/guide/prompt.jinja2", "You are {{ agent.name }} of {{ home }}.\n");
    let fixture = KernelFixture::boot(home).await;
    let agent = fixture.kernel.agents().refresh_agent("guide").await.unwrap();
    let resolved = agent.instructions();
    let layers: Vec<_> = resolved
        .layers
        .iter()
        .map(|layer| (layer.kind, layer.skill_id.as_deref(), fixture.home.redact(&layer.source)))
        .collect();
    assert_eq!(
        layers,
        [
            (InstructionLayerKind::Prompt, None, "[HOME]/manifests/guide/prompt.jinja2".to_owned()),
            (InstructionLayerKind::Skill, Some("maps"), "registry".to_owned()),
            (InstructionLayerKind::Skill, Some("tours"), "registry".to_owned()),
            (InstructionLayerKind::Inline, None, "[HOME]/manifests/guide/manifest.yaml".to_owned()),
        ]
    );
    assert_eq!(
        fixture.home.redact(&instructions(&fixture.kernel).await.unwrap()),
        "You are Guide of [HOME].\n\nRead maps. (misbehave)\n\nBe brief. (misbehave)\n\n\
         Stay on the path."
    );
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_skill_applies_next_turn() {
    let fixture = KernelFixture::boot(registry("").manifest("guide", GUIDE)).await;
    let before = instructions(&fixture.kernel).await.unwrap();
    assert_eq!(before, "Read maps. (misbehave)\n\nBe brief. (misbehave)\n\nStay on the path.");
    fixture.done("registry", json!({"do": "learn", "id": "tours", "text": "Be kind."})).await;
    let after = instructions(&fixture.kernel).await.unwrap();
    assert_eq!(after, "Read maps. (misbehave)\n\nBe kind. (misbehave)\n\nStay on the path.");
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_skill_fails_only_its_agent() {
    let lost = "id: lost\nname: Lost\ndepends_on: [registry]\nagent:\n  uses_skills: [stars]\n";
    let unreached = "id: unreached\nname: Unreached\nagent: {uses_skills: [maps]}\n";
    let home = registry("").manifest("guide", GUIDE).manifest("lost", lost);
    let fixture = KernelFixture::boot(home.manifest("unreached", unreached)).await;
    assert_eq!(
        fixture.rejection("lost"),
        "resolve: [HOME]/manifests/lost/manifest.yaml:5:17: uses_skills: no skill `stars`\n\
         hint: known: maps, tours"
    );
    assert_eq!(
        fixture.rejection("unreached"),
        "resolve: [HOME]/manifests/unreached/manifest.yaml:3:23: uses_skills: no extension in \
         depends_on provides skills\n\
         hint: add `depends_on: [registry]` to [HOME]/manifests/unreached/manifest.yaml"
    );
    instructions(&fixture.kernel).await.unwrap();
    let request = TurnRequest { agent: Some("lost".into()), ..TurnRequest::default() };
    let error = fixture.kernel.agents().compose_turn(&request).await.unwrap_err();
    assert_eq!(
        fixture.home.redact(&error.to_string()),
        "agent `lost` is in the error state: [HOME]/manifests/lost/manifest.yaml:5:17: \
         uses_skills: no skill `stars`"
    );
    fixture.done("registry", json!({"do": "learn", "id": "stars", "text": "Look up."})).await;
    assert_eq!(
        fixture.kernel.agents().compose_turn(&request).await.unwrap().system_prompt,
        "Look up. (misbehave)"
    );
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_recovers_after_slow_provider() {
    let home = registry("parts: {skill: block}").manifest("guide", GUIDE);
    let gate = Gate::open(&home);
    let limits = KernelLimits { context: SOON, ..patient() };
    let (fixture, held) =
        tokio::join!(KernelFixture::boot_with(home, limits, false), gate.reached("registry skill"));
    assert_eq!(
        fixture.rejection("guide"),
        "resolve: [HOME]/manifests/guide/manifest.yaml:5:17: uses_skills: `registry` timed \
         out after 2000 ms\nhint: "
    );
    drop(held);
    let letting_go = async {
        drop(gate.reached("registry skill").await);
        drop(gate.reached("registry skill").await);
    };
    let (text, ()) = tokio::join!(instructions(&fixture.kernel), letting_go);
    assert_eq!(
        text.unwrap(),
        "Read maps. (misbehave)\n\nBe brief. (misbehave)\n\nStay on the path."
    );
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_keeps_instructions_while_provider_fails() {
    let fixture = KernelFixture::boot(registry("").manifest("guide", GUIDE)).await;
    let before = instructions(&fixture.kernel).await.unwrap();
    fixture.done("registry", json!({"do": "become", "place": "generation", "act": "panic"})).await;
    fixture.done("registry", json!({"do": "learn", "id": "tours", "text": "Be kind."})).await;
    assert_eq!(instructions(&fixture.kernel).await.unwrap(), before);
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_offers_tools_it_uses() {
    let agent = "id: guide\nname: Guide\nagent: {uses_tools: [a, d, quiet, gone]}\n\
                 depends_on: [{id: gone, optional: true}]\n";
    let home = misbehaving(misbehaving(TestHome::new(), "a", ""), "b", "config: {tools: [c, d]}");
    let home = misbehaving(home, "quiet", "config: {tools: []}");
    let fixture = KernelFixture::boot(home.manifest("guide", agent)).await;
    let (tools, failures) = fixture.kernel.agents().list_tools(Some("guide")).await.unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool.spec.name.as_str()).collect();
    assert_eq!((names, failures), (vec!["a", "d"], vec![]));
    let notes: Vec<_> =
        fixture.kernel.report().notes.iter().map(|note| fixture.home.redact(note)).collect();
    assert_eq!(
        notes,
        [
            "`guide` optionally depends on `gone`, which does not exist",
            "[HOME]/manifests/guide/manifest.yaml:3:28: uses_tools: the extension `quiet` has no tools"
        ]
    );
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_tool_fails_its_agent() {
    let agent = "id: guide\nname: Guide\nagent: {uses_tools: [aa, a, kernel]}\n";
    let home = misbehaving(TestHome::new(), "a", "").manifest("guide", agent);
    let home = home.manifest("other", "id: other\nname: Other\nagent: {uses_tools: [a]}\n");
    let fixture = KernelFixture::boot(home).await;
    let place = "[HOME]/manifests/guide/manifest.yaml:3:22";
    assert_eq!(
        fixture.rejection("guide"),
        format!(
            "resolve: {place}: uses_tools: no extension or tool `aa` is loaded\nhint: did you mean \
             a?\ncorrect uses_tools, or install and enable the missing extension"
        )
    );
    assert_eq!(
        fixture.kernel.agents().refresh_agent("other").await.unwrap().instructions().problem,
        None
    );
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_follows_reloaded_tools() {
    let one = "id: a\nname: a\nentrypoint: misbehave\nconfig: {tools: [one]}\n";
    let agent = "id: guide\nname: Guide\nagent: {uses_tools: [one]}\n";
    let home = misbehaving(TestHome::new(), "a", "").manifest("a", one).manifest("guide", agent);
    let fixture = KernelFixture::boot(home).await;
    let problem = async || {
        fixture
            .kernel
            .agents()
            .refresh_agent("guide")
            .await
            .unwrap()
            .instructions()
            .problem
            .is_some()
    };
    assert!(!problem().await);
    fixture.home.write("manifests/a/manifest.yaml", one.replace("one", "two"));
    fixture.kernel.agents().reload("a").await.unwrap();
    assert!(problem().await);
    fixture.home.write("manifests/a/manifest.yaml", one);
    fixture.kernel.agents().reload("a").await.unwrap();
    assert!(!problem().await);
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reserved_ids_are_rejected_for_agents() {
    let home = misbehaving(TestHome::new(), "a", "config: {tools: [helper]}")
        .manifest("kernel", "id: kernel\nname: Kernel\nagent: {}\n")
        .manifest("operator", "id: operator\nname: Operator\nagent: {}\n")
        .manifest("helper", "id: helper\nname: Helper\nagent: {integration_mode: tool}\n");
    let fixture = KernelFixture::boot(home).await;
    assert_eq!(
        fixture.rejection("kernel"),
        "plan: the id `kernel` is reserved by the kernel\nhint: choose another id"
    );
    // Its events would pass for messages of the operator, which name workspaces.
    assert_eq!(
        fixture.rejection("operator"),
        "plan: the id `operator` is reserved by the kernel\nhint: choose another id"
    );
    assert_eq!(
        fixture.rejection("helper"),
        "wire: the tool `helper` of `helper` is already provided by `a`\nhint: choose another id, or \
         disable one of the two"
    );
    assert!(
        fixture
            .kernel
            .agents()
            .refresh_agent("helper")
            .await
            .unwrap()
            .instructions()
            .problem
            .is_some()
    );
    fixture.kernel.shutdown().await;
}
