//! A scripted model, and a person on the channel.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};
use skillhost_agents::{RunError, RunRequest};
use skillhost_conversation::{
    ApprovalDecision, ApprovalRequest, Channel, Message, ModelError, ModelErrorKind, ModelMetadata,
    ModelProvider, ModelReply, ModelRequest, ModelSource, ModelToolCall, PersonQuestion,
    PersonReply, ReplyChunk, RunEvent, RunOutcome, SecretPrompt, SecretReply, StopReason, Thread,
    ThreadStore, TokenUsage, UncertainCall, UncertainDecision,
};
use skillhost_core::KernelLimits;
use skillhost_home::{Home, HomeSource, Settings, TokenPrice};
use skillhost_kernel::{BootOptions, Kernel};
use skillhost_sdk::{CancellationToken, async_trait};
use test_support::TestHome;
use tokio::sync::Notify;

use crate::fixture::{KernelFixture, home_with, misbehaving, patient};

/// Locks a mutex that no test poisons.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no holder panics")
}

/// The reaction of a model to a request.
pub(crate) enum Step {
    Reply(ModelReply),
    Fail(ModelErrorKind),
    /// Signals the request, and never replies.
    Hang(Arc<Notify>),
}

/// A model with a script, which records its requests.
pub(crate) struct Script {
    facts: ModelMetadata,
    steps: Mutex<VecDeque<Step>>,
    pub(crate) asked: Mutex<Vec<ModelRequest>>,
}

#[async_trait]
impl ModelProvider for Script {
    fn metadata(&self) -> &ModelMetadata {
        &self.facts
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        on_piece: &mut (dyn FnMut(ReplyChunk) + Send),
    ) -> Result<ModelReply, ModelError> {
        locked(&self.asked).push(request.clone());
        let step = locked(&self.steps).pop_front();
        match step.unwrap_or_else(|| panic!("{} has no more to say: {request:#?}", self.facts.name))
        {
            Step::Reply(reply) => {
                if !reply.text.is_empty() {
                    on_piece(ReplyChunk::Text(reply.text.clone()));
                }
                Ok(reply)
            }
            Step::Fail(kind) => {
                let (model, message) = (self.facts.name.clone(), "it failed".to_owned());
                Err(ModelError { kind, model, message, hint: String::new() })
            }
            Step::Hang(asked) => {
                asked.notify_one();
                std::future::pending().await
            }
        }
    }
}

/// The models by the agent that runs on them, or by a requested name.
#[derive(Default)]
struct Models(BTreeMap<String, Arc<Script>>);

impl ModelSource for Models {
    fn resolve_model(
        &self,
        name: Option<&str>,
        agent: &str,
    ) -> Result<Arc<dyn ModelProvider>, ModelError> {
        let wanted = name.unwrap_or(agent);
        let model = self.0.get(wanted).cloned().ok_or_else(|| ModelError {
            kind: ModelErrorKind::Unknown,
            model: wanted.to_owned(),
            message: "there is no such model".to_owned(),
            hint: "see: skillhost model list".to_owned(),
        })?;
        Ok(model)
    }
}

/// A person on the channel, who never replies without a prepared decision.
#[derive(Default)]
pub(crate) struct Person {
    pub(crate) events: Mutex<Vec<RunEvent>>,
    pub(crate) asked: Mutex<Vec<ApprovalRequest>>,
    decisions: Mutex<VecDeque<ApprovalDecision>>,
    /// The input for a secret.
    secret: Mutex<Option<String>>,
    pub(crate) asked_for: Mutex<Vec<SecretPrompt>>,
    uncertain: Mutex<VecDeque<UncertainDecision>>,
    pub(crate) asked_uncertain: Mutex<Vec<UncertainCall>>,
    replies: Mutex<VecDeque<PersonReply>>,
    pub(crate) questions: Mutex<Vec<PersonQuestion>>,
    can_park: bool,
}

#[async_trait]
impl Channel for Person {
    fn on_event(&self, event: &RunEvent) {
        locked(&self.events).push(event.clone());
    }

    async fn request_approval(&self, request: &ApprovalRequest) -> ApprovalDecision {
        locked(&self.asked).push(request.clone());
        let decision = locked(&self.decisions).pop_front();
        match decision {
            Some(decision) => decision,
            None => std::future::pending().await,
        }
    }

    async fn request_secret(&self, ask: &SecretPrompt) -> SecretReply {
        locked(&self.asked_for).push(ask.clone());
        match locked(&self.secret).clone() {
            Some(value) => SecretReply::Given(value.into()),
            None => SecretReply::Refused { reason: "not now".to_owned() },
        }
    }

    fn can_park(&self) -> bool {
        self.can_park
    }

    async fn resolve_uncertain_call(&self, call: &UncertainCall) -> UncertainDecision {
        locked(&self.asked_uncertain).push(call.clone());
        let decision = locked(&self.uncertain).pop_front();
        match decision {
            Some(decision) => decision,
            None => std::future::pending().await,
        }
    }

    async fn ask_person(&self, question: &PersonQuestion) -> PersonReply {
        locked(&self.questions).push(question.clone());
        let reply = locked(&self.replies).pop_front();
        match reply {
            Some(reply) => reply,
            None => std::future::pending().await,
        }
    }
}

impl Person {
    pub(crate) fn saying(decisions: impl IntoIterator<Item = ApprovalDecision>) -> Arc<Self> {
        let decisions = Mutex::new(decisions.into_iter().collect());
        Arc::new(Self { decisions, ..Self::default() })
    }

    /// Returns a person who decides about calls that may have happened.
    pub(crate) fn resolving(decisions: impl IntoIterator<Item = UncertainDecision>) -> Arc<Self> {
        let uncertain = Mutex::new(decisions.into_iter().collect());
        Arc::new(Self { uncertain, ..Self::default() })
    }

    /// Returns a person who answers questions.
    pub(crate) fn replying(replies: impl IntoIterator<Item = PersonReply>) -> Arc<Self> {
        let replies = Mutex::new(replies.into_iter().collect());
        Arc::new(Self { replies, can_park: true, ..Self::default() })
    }

    /// Returns a channel that parks requests.
    pub(crate) fn parking(
        decisions: impl IntoIterator<Item = ApprovalDecision>,
        uncertain: impl IntoIterator<Item = UncertainDecision>,
    ) -> Arc<Self> {
        let decisions = Mutex::new(decisions.into_iter().collect());
        let uncertain = Mutex::new(uncertain.into_iter().collect());
        Arc::new(Self { decisions, uncertain, can_park: true, ..Self::default() })
    }

    /// Returns a person who types this secret.
    pub(crate) fn typing(secret: &str) -> Arc<Self> {
        Arc::new(Self { secret: Mutex::new(Some(secret.to_owned())), ..Self::default() })
    }

    /// Returns the events as JSON, without those of streaming and cost.
    pub(crate) fn visible_events(&self) -> Vec<Value> {
        let events = locked(&self.events);
        let quiet = |event: &&RunEvent| {
            !matches!(event, RunEvent::UsageReported { .. } | RunEvent::Text { .. })
        };
        events
            .iter()
            .filter(quiet)
            .map(|event| serde_json::to_value(event).expect("an event is JSON"))
            .collect()
    }

    /// Waits for an event of a kind.
    pub(crate) async fn until(&self, kind: &str) {
        while self.visible_events().iter().all(|event| event["event"] != kind) {
            tokio::task::yield_now().await;
        }
    }

    /// Returns the texts of the notes.
    pub(crate) fn notes(&self) -> Vec<String> {
        let note = |event: &RunEvent| match event {
            RunEvent::Note { text, .. } => Some(text.clone()),
            _ => None,
        };
        locked(&self.events).iter().filter_map(note).collect()
    }
}

/// A kernel whose agents run on scripts.
pub(crate) struct Stage {
    pub(crate) fixture: KernelFixture,
    models: BTreeMap<String, Arc<Script>>,
}

/// The agent `worker` with the tool of the extension `a`, and more in its manifest.
pub(crate) fn worker(rest: &str) -> TestHome {
    agent(home_with("a", ""), "worker", &format!("uses_tools: [a], {rest}"))
}

/// Adds an agent with instructions that contain its name.
pub(crate) fn agent(home: TestHome, id: &str, rest: &str) -> TestHome {
    let yaml = format!(
        "id: {id}\nname: {id}\ndescription: Does the work of {id}.\nagent: {{instructions: You \
         are {id}., {rest}}}\ndepends_on: [{{id: registry, optional: true}}]\n"
    );
    home.manifest(id, &yaml)
}

/// A home with the extension `registry`, which has skills and the tool `registry`.
pub(crate) fn registry(rest: &str) -> TestHome {
    misbehaving(TestHome::new(), "registry", &format!("config: {{{rest}}}"))
}

impl Stage {
    pub(crate) async fn set(home: TestHome, scripts: Vec<(&str, Vec<Step>)>) -> Self {
        Self::set_with(home, scripts, patient(), None).await
    }

    pub(crate) async fn set_with(
        home: TestHome,
        scripts: Vec<(&str, Vec<Step>)>,
        limits: KernelLimits,
        window: Option<u32>,
    ) -> Self {
        let script = |(agent, steps): (&str, Vec<Step>)| {
            let facts = ModelMetadata {
                name: format!("script/{agent}"),
                context_window: window,
                price: Some(TokenPrice { input: 1.0, output: 2.0, cached: None }),
            };
            let (steps, asked) = (Mutex::new(steps.into()), Mutex::default());
            (agent.to_owned(), Arc::new(Script { facts, steps, asked }))
        };
        let models: BTreeMap<_, _> = scripts.into_iter().map(script).collect();
        let settings = Settings::load(&home.path("skillhost.yaml")).expect("valid settings");
        let found = Home::open(&home.root(), HomeSource::Argument).expect("a home");
        let options = BootOptions {
            installation: None,
            limits,
            models: Arc::new(Models(models.clone())),
            settings_file: Some(home.path("skillhost.yaml")),
            ..BootOptions::new(found, settings.settings)
        };
        let kernel = Kernel::boot(options).await;
        let rejected = &kernel.report().rejected;
        assert!(rejected.is_empty(), "{rejected:?}");
        Self { fixture: KernelFixture { kernel, home }, models }
    }

    pub(crate) fn thread(&self) -> Thread {
        let threads = ThreadStore::new(self.fixture.kernel.home());
        tokio::task::block_in_place(|| threads.create("worker")).expect("a new thread")
    }

    /// Sends a message to the worker, without a person for approvals.
    pub(crate) async fn say(
        &self,
        thread: &mut Thread,
        prompt: &str,
    ) -> Result<RunOutcome, RunError> {
        self.say_as(thread, prompt, &Arc::default()).await
    }

    pub(crate) async fn say_as(
        &self,
        thread: &mut Thread,
        prompt: &str,
        person: &Arc<Person>,
    ) -> Result<RunOutcome, RunError> {
        let request = RunRequest { prompt: prompt.to_owned(), ..RunRequest::default() };
        self.run(thread, request, person).await
    }

    pub(crate) async fn run(
        &self,
        thread: &mut Thread,
        request: RunRequest,
        person: &Arc<Person>,
    ) -> Result<RunOutcome, RunError> {
        let channel: Arc<dyn Channel> = Arc::clone(person) as _;
        self.fixture.kernel.agents().run_agent(thread, request, channel).await
    }

    /// Returns every request to the model of an agent so far.
    pub(crate) fn asked(&self, agent: &str) -> Vec<ModelRequest> {
        locked(&self.models[agent].asked).clone()
    }

    /// Returns the last message of the last request to the worker's model.
    pub(crate) fn last(&self) -> Message {
        self.asked("worker")
            .last()
            .expect("it was asked")
            .messages
            .last()
            .expect("it was published")
            .clone()
    }

    /// Returns the transcript of a run, without times.
    pub(crate) fn transcript(&self, run_id: &str) -> Vec<Value> {
        let path = format!("sandbox/data/kernel/runs/{run_id}.jsonl");
        let text = std::fs::read_to_string(self.fixture.home.path(path)).expect("a transcript");
        let line = |line: &str| {
            let mut value: Value = serde_json::from_str(line).expect("a line is JSON");
            value.as_object_mut().expect("a line is an object").remove("at");
            value
        };
        text.lines().map(line).collect()
    }

    pub(crate) async fn end(self) {
        self.fixture.kernel.shutdown().await;
    }
}

pub(crate) fn limits(approval: std::time::Duration) -> KernelLimits {
    KernelLimits { approval, ..patient() }
}

pub(crate) fn cancelled_by(prompt: &str, cancel: &CancellationToken) -> RunRequest {
    let (prompt, cancel) = (prompt.to_owned(), cancel.clone());
    RunRequest { prompt, cancel, ..RunRequest::default() }
}

/// Returns a reply of text, for ten tokens in and two out.
pub(crate) fn says(text: &str) -> Step {
    Step::Reply(ModelReply { text: text.into(), usage: usage(10, 2), ..ModelReply::default() })
}

/// Returns a truncated reply.
pub(crate) fn breaks_off(text: &str) -> Step {
    let (text, stop) = (text.to_owned(), StopReason::Length);
    Step::Reply(ModelReply { text, stop, usage: usage(10, 2), ..ModelReply::default() })
}

/// Returns an empty reply.
pub(crate) fn is_silent(only_reasoning: bool) -> Step {
    Step::Reply(ModelReply { only_reasoning, usage: usage(10, 2), ..ModelReply::default() })
}

/// Returns a reply of tool calls.
pub(crate) fn calls(calls: impl Into<Vec<ModelToolCall>>) -> Step {
    let (calls, usage) = (calls.into(), usage(10, 2));
    Step::Reply(ModelReply { calls, usage, ..ModelReply::default() })
}

pub(crate) fn usage(input: u64, output: u64) -> TokenUsage {
    TokenUsage { input, output, ..TokenUsage::default() }
}

pub(crate) fn call(id: &str, name: &str, arguments: &Value) -> ModelToolCall {
    written(id, name, &arguments.to_string())
}

pub(crate) fn written(id: &str, name: &str, arguments: &str) -> ModelToolCall {
    ModelToolCall { id: id.into(), name: name.into(), arguments: arguments.into() }
}

/// Returns a call that makes the tool return a text.
pub(crate) fn saying(id: &str, name: &str, text: &str) -> ModelToolCall {
    call(id, name, &json!({"do": "say", "text": text}))
}

pub(crate) fn user(text: &str) -> Message {
    Message::User { text: text.into() }
}

pub(crate) fn assistant(text: &str) -> Message {
    Message::Assistant { text: text.into(), calls: Vec::new() }
}

pub(crate) fn called(calls: impl Into<Vec<ModelToolCall>>) -> Message {
    Message::Assistant { text: String::new(), calls: calls.into() }
}

pub(crate) fn answer(id: &str, name: &str, text: &str) -> Message {
    let (call_id, name, text) = (id.into(), name.into(), text.into());
    Message::Tool { call_id, name, text, is_error: false }
}

pub(crate) fn failure(id: &str, name: &str, text: &str) -> Message {
    let (call_id, name, text) = (id.into(), name.into(), text.into());
    Message::Tool { call_id, name, text, is_error: true }
}
