//! The agent that reviews proposals, with a scripted model.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use skill_catalog::SystemClock;
use skill_ledger::{Ledger, ProposalState, ProposalSummary, ReviewAdvice};
use skillhost_conversation::{
    Message, ModelError, ModelMetadata, ModelProvider, ModelReply, ModelRequest, ModelSource,
    ReplyChunk,
};
use skillhost_home::{Home, HomeSource, Settings};
use skillhost_kernel::{BootOptions, Kernel};
use skillhost_payload::{CallContext, CallOrigin};
use skillhost_sdk::async_trait;
use test_support::{TestHome, library};

use crate::fixture::{KernelFixture, next, patient};

const TEA: &str = "---\nname: tea\ndescription: Brews tea.\n---\nBoil water.\n";

/// The replies of the model in order; `None` never arrives.
struct Judge {
    facts: ModelMetadata,
    answers: Mutex<VecDeque<Option<&'static str>>>,
    asked: Mutex<Vec<ModelRequest>>,
}

/// Resolves every name to the one model.
struct Bench(Arc<Judge>);

impl ModelSource for Bench {
    fn resolve_model(
        &self,
        _: Option<&str>,
        agent: &str,
    ) -> Result<Arc<dyn ModelProvider>, ModelError> {
        assert_eq!(agent, "reviewer_agent");
        Ok(Arc::<Judge>::clone(&self.0))
    }
}

#[async_trait]
impl ModelProvider for Judge {
    fn metadata(&self) -> &ModelMetadata {
        &self.facts
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        _on_piece: &mut (dyn FnMut(ReplyChunk) + Send),
    ) -> Result<ModelReply, ModelError> {
        self.asked.lock().expect("no holder panicked").push(request.clone());
        let answer = self.answers.lock().expect("no holder panicked").pop_front();
        match answer.expect("the model is not asked more often") {
            Some(text) => Ok(ModelReply { text: text.to_owned(), ..ModelReply::default() }),
            None => std::future::pending().await,
        }
    }
}

fn shipped(home: TestHome, id: &str, file: &str) -> TestHome {
    let path = format!("{}/../../manifests/{id}/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("it ships");
    home.file(format!("manifests/{id}/{file}"), text)
}

async fn boot(review: &str, answers: &[Option<&'static str>]) -> (KernelFixture, Arc<Judge>) {
    let home = TestHome::new().skill("tea", TEA).settings(&format!(
        "extensions: {{skill_registry: {{poll_interval_ms: 0, review: {review}}}}}\n"
    ));
    let home = shipped(home, "skill_registry", "manifest.yaml");
    let home = shipped(home, "reviewer_agent", "manifest.yaml");
    let home = shipped(home, "reviewer_agent", "prompt.jinja2");
    let home = home.library("skill_registry", "skill_registry", &library("skill_registry"));
    let facts = ModelMetadata { name: "test/judge".to_owned(), context_window: None, price: None };
    let answers = Mutex::new(answers.iter().copied().collect());
    let judge = Arc::new(Judge { facts, answers, asked: Mutex::default() });
    let settings = Settings::load(&home.path("skillhost.yaml")).expect("valid settings");
    let found = Home::open(&home.root(), HomeSource::Argument).expect("a home");
    let options = BootOptions::new(found, settings.settings);
    let models = Arc::new(Bench(Arc::clone(&judge)));
    let kernel =
        Kernel::boot(BootOptions { installation: None, limits: patient(), models, ..options })
            .await;
    (KernelFixture { kernel, home }, judge)
}

async fn propose(fixture: &KernelFixture, body: &str) -> String {
    let context = CallContext {
        agent_id: "guide".to_owned(),
        session_id: "s1".to_owned(),
        origin: CallOrigin::Agent,
        ..CallContext::default()
    };
    let text = TEA.replace("Boil water.", body);
    let wish = json!({"skill_id": "tea", "new_content": text, "justification": "Better."});
    let made = fixture
        .kernel
        .agents()
        .invoke_tool(context, "propose_skill_update", &wish.to_string())
        .await;
    let made = made.expect("it is recorded").structured.expect("a value");
    let made: Value = serde_json::from_str(made.get()).expect("JSON");
    made["proposal"].as_str().expect("an id").to_owned()
}

fn stored(fixture: &KernelFixture, id: &str) -> ProposalSummary {
    let data = fixture.home.path("sandbox/data/skill_registry");
    Ledger::new(data, Arc::new(SystemClock)).proposal(id).expect("it is there").summary
}

#[tokio::test(flavor = "multi_thread")]
async fn shipped_reviewer_advises_outside_the_call() {
    let answer = "```json\n{\"verdict\": \"reject\", \"reason\": \"Milk burns.\"}\n```";
    let (fixture, judge) = boot("{policy: agent-recommends}", &[Some(answer)]).await;
    let mut events = fixture.kernel.events().subscribe_all();
    let id = propose(&fixture, "Boil milk.").await;
    let event = next(&mut events, "skill.proposal.recommended").await;
    let reported: Value = serde_json::from_str(event.payload.get()).expect("JSON");
    assert_eq!((&reported["proposal"], &reported["by"]), (&json!(id), &json!("reviewer_agent")));
    let summary = stored(&fixture, &id);
    let advice = summary.recommendation.expect("it is attached");
    assert_eq!((advice.advice, &*advice.reason), (ReviewAdvice::Reject, "Milk burns."));
    assert_eq!(summary.state, ProposalState::Open);

    let asked = judge.asked.lock().expect("no holder panicked").clone();
    assert!(asked[0].system.starts_with("You are Reviewer."), "{}", asked[0].system);
    let Message::User { text } = &asked[0].messages[0] else { panic!("{:?}", asked[0].messages) };
    assert!(text.contains("│ -Boil water.\n│ +Boil milk.\n"), "{text}");
    let tools: Vec<_> = asked[0].tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(tools, ["list_skills", "read_skill", "read_skill_resource"]);
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reviewer_approval_applies_with_setting() {
    let answer = r#"{"verdict": "approve", "reason": "Right."}"#;
    let (fixture, _judge) = boot("{policy: agent-approves}", &[Some(answer)]).await;
    let mut events = fixture.kernel.events().subscribe_all();
    let id = propose(&fixture, "Boil milk.").await;
    next(&mut events, "skill.proposal.applied").await;
    assert_eq!(stored(&fixture, &id).state, ProposalState::Applied);
    let read = fixture.kernel.agents().invoke_tool(
        CallContext::default(),
        "read_skill",
        r#"{"skill_id": "tea"}"#,
    );
    let read = read.await.expect("a skill");
    assert!(read.text.contains("Boil milk."), "{}", read.text);
    let skill = read.skill.expect("it carries a skill");
    assert_eq!(
        (&*skill.skill_id, skill.digest),
        ("tea", stored(&fixture, &id).new_digest.to_string())
    );
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_reviewer_blocks_no_call() {
    let answer = r#"{"verdict": "approve", "reason": "Right."}"#;
    let review = "{policy: agent-approves, timeout_ms: 2000}";
    let (fixture, judge) = boot(review, &[None, Some(answer)]).await;
    let mut events = fixture.kernel.events().subscribe_all();
    let first = propose(&fixture, "Boil milk.").await;
    let second = propose(&fixture, "Boil both.").await;
    next(&mut events, "skill.proposal.applied").await;
    assert_eq!(stored(&fixture, &second).state, ProposalState::Applied);
    let first = stored(&fixture, &first);
    assert_eq!((first.state, first.recommendation), (ProposalState::Stale, None));
    assert_eq!(judge.asked.lock().expect("no holder panicked").len(), 2);
    fixture.kernel.shutdown().await;
}
