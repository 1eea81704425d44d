//! Runs with a virtual clock: the time of model requests and tool calls counts, no other time.
//!
//! Tools, models and the person on the channel advance the clock themselves, so that every figure is
//! exact.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use skillhost_agents::{
    AgentRuntime, BudgetLimits, BudgetUsage, ExhaustedLimit, RunBudget, RunError, RunGate,
    RunRequest, WeakAgentRuntime, kernel_tool_table,
};
use skillhost_conversation::{
    ApprovalDecision, ApprovalRequest, Channel, Message, ModelError, ModelErrorKind, ModelMetadata,
    ModelProvider, ModelReply, ModelRequest, ModelSource, ModelToolCall, ReplyChunk, RunEvent,
    RunOutcome, SecretPrompt, SecretReply, Thread, TokenUsage,
};
use skillhost_core::{
    ExtensionHost, ExtensionHostOptions, KernelLimits, NoBuilder, Plugin, PreparedCall,
};
use skillhost_home::{Home, HomeSource, SecretStore, Settings, TokenPrice, discover_manifests};
use skillhost_manifest::ExtensionId;
use skillhost_payload::{ApprovalPolicy, CallContext, CallError, ToolOutput, ToolSpec};
use tokio::sync::{Barrier, Notify};
use tokio::time::advance;

const MONTH: Duration = Duration::from_secs(30 * 24 * 60 * 60);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no holder panics")
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The reaction of a model to a request.
enum Step {
    /// Replies after a time.
    Reply(Duration, ModelReply),
    /// Fails twice with a delay of a month each, then replies; each attempt takes this time.
    Retry(Duration),
    /// Signals the request, and never replies.
    Hang(Arc<Notify>),
}

struct ScriptedModel {
    metadata: ModelMetadata,
    steps: Mutex<VecDeque<Step>>,
}

#[async_trait]
impl ModelProvider for ScriptedModel {
    fn metadata(&self) -> &ModelMetadata {
        &self.metadata
    }

    async fn stream(
        &self,
        _: &ModelRequest,
        on_chunk: &mut (dyn FnMut(ReplyChunk) + Send),
    ) -> Result<ModelReply, ModelError> {
        let step = locked(&self.steps).pop_front().expect("the script has another step");
        match step {
            Step::Reply(time, reply) => {
                advance(time).await;
                Ok(reply)
            }
            Step::Retry(time) => {
                for _ in 0..2 {
                    advance(time).await;
                    on_chunk(ReplyChunk::ReplyRestarted {
                        reason: "busy".to_owned(),
                        may_be_charged: false,
                    });
                    advance(MONTH).await;
                    on_chunk(ReplyChunk::RequestRepeated);
                }
                advance(time).await;
                Ok(reply("done"))
            }
            Step::Hang(started) => {
                started.notify_one();
                std::future::pending().await
            }
        }
    }
}

struct ScriptedModels(BTreeMap<&'static str, Arc<ScriptedModel>>);

impl ModelSource for ScriptedModels {
    fn resolve_model(
        &self,
        _: Option<&str>,
        agent: &str,
    ) -> Result<Arc<dyn ModelProvider>, ModelError> {
        match self.0.get(agent) {
            Some(model) => Ok(Arc::clone(model) as Arc<dyn ModelProvider>),
            None => Err(ModelError {
                kind: ModelErrorKind::Unknown,
                model: agent.to_owned(),
                message: "model not found".to_owned(),
                hint: String::new(),
            }),
        }
    }
}

/// A person who needs a month for every decision.
struct SlowPerson;

#[async_trait]
impl Channel for SlowPerson {
    fn on_event(&self, _: &RunEvent) {}

    async fn request_approval(&self, _: &ApprovalRequest) -> ApprovalDecision {
        advance(MONTH).await;
        ApprovalDecision::Once
    }

    async fn request_secret(&self, _: &SecretPrompt) -> SecretReply {
        advance(MONTH).await;
        SecretReply::Refused { reason: "not now".to_owned() }
    }
}

/// Tools that take as long as their arguments say.
#[derive(Default)]
struct TimedTools {
    agents: OnceLock<WeakAgentRuntime>,
    /// The time that remained at the start of each call.
    deadlines: Mutex<Vec<Option<u64>>>,
    meeting: OnceLock<Barrier>,
}

fn tool_specs() -> Vec<ToolSpec> {
    // Parsed, as only the fields of these tests matter.
    let spec = |name: &str, needs_approval: ApprovalPolicy| {
        let spec = json!({
            "name": name,
            "description": format!("The test tool {name}."),
            "input_schema": {"type": "object"},
            "needs_approval": needs_approval,
        });
        serde_json::from_value(spec).expect("a valid spec")
    };
    vec![
        spec("work", ApprovalPolicy::Never),
        spec("guarded", ApprovalPolicy::Always),
        spec("nest", ApprovalPolicy::Never),
        spec("meet", ApprovalPolicy::Never),
    ]
}

#[async_trait]
impl Plugin for TimedTools {
    async fn tools(&self, _: &CallContext) -> Result<Vec<ToolSpec>, CallError> {
        Ok(tool_specs())
    }

    async fn invoke(
        &self,
        context: &CallContext,
        name: &str,
        arguments: &str,
        _: PreparedCall,
    ) -> Result<ToolOutput, CallError> {
        locked(&self.deadlines).push(context.deadline_ms);
        let arguments: Value = serde_json::from_str(arguments).expect("arguments are JSON");
        let time = ms(arguments["ms"].as_u64().unwrap_or_default());
        match name {
            // Works before and after a call of a tool that requires approval.
            "nest" => {
                let agents = self.agents.get().and_then(WeakAgentRuntime::upgrade);
                let agents = agents.expect("the runtime is alive");
                advance(time).await;
                agents.invoke_tool(context.clone(), "guarded", r#"{"ms": 100}"#).await?;
                advance(time).await;
            }
            // Two calls are under way while the clock advances once.
            "meet" => {
                let meeting = self.meeting.get_or_init(|| Barrier::new(2));
                if meeting.wait().await.is_leader() {
                    advance(time).await;
                }
                meeting.wait().await;
            }
            _ => advance(time).await,
        }
        Ok(ToolOutput { text: name.to_owned(), ..ToolOutput::default() })
    }
}

/// Agents on a private home, and a clock that only the test advances.
struct TestAgents {
    agents: AgentRuntime,
    tools: Arc<TimedTools>,
    budget: Arc<RunBudget>,
    _home: tempfile::TempDir,
    /// Ends the blocking task that keeps the runtime from advancing the clock by itself.
    _clock_stop: Sender<()>,
}

impl TestAgents {
    /// Loads the agents `worker`, with more in its manifest, and `helper`.
    async fn load(
        more: &str,
        limits: BudgetLimits,
        scripts: impl IntoIterator<Item = (&'static str, Vec<Step>)>,
    ) -> Self {
        let (clock_stop, stopped) = channel::<()>();
        tokio::task::spawn_blocking(move || stopped.recv());
        let folder = tempfile::tempdir().expect("a directory");
        let write = |id: &str, yaml: &str| {
            let directory = folder.path().join("manifests").join(id);
            std::fs::create_dir_all(&directory).expect("a directory");
            std::fs::write(directory.join("manifest.yaml"), yaml).expect("a manifest");
        };
        for (id, more) in [("worker", more), ("helper", "")] {
            let agent = format!(
                "{{instructions: You are {id}., uses_tools: [kernel, timed_tools], {more}}}"
            );
            write(id, &format!("id: {id}\nname: {id}\nagent: {agent}\n"));
        }
        write("tea", "id: tea\nname: tea\nentrypoint: tea\nsecrets: [TEA_KEY]\n");
        std::fs::create_dir(folder.path().join("sandbox")).expect("a directory");
        let home = Home::open(folder.path(), HomeSource::Argument).expect("a home");
        let found = discover_manifests(&home, None, &[]);
        let host = Arc::new(ExtensionHost::new(ExtensionHostOptions {
            home,
            settings: Settings::default(),
            settings_file: None,
            installation: None,
            bundled: &[],
            limits: KernelLimits { approval: MONTH * 2, ..KernelLimits::default() },
            loaders: Vec::new(),
            secrets: SecretStore::default(),
        }));
        let models = scripts.into_iter().map(|(agent, steps)| {
            let metadata = ModelMetadata {
                name: format!("script/{agent}"),
                context_window: None,
                price: Some(TokenPrice { input: 1000.0, output: 1000.0, cached: None }),
            };
            (agent, Arc::new(ScriptedModel { metadata, steps: Mutex::new(steps.into()) }))
        });
        let agents = AgentRuntime::new(
            Arc::clone(&host),
            Arc::new(ScriptedModels(models.collect())),
            Arc::new(NoBuilder),
            Arc::new(RunGate::default()),
        );
        let tools = Arc::new(TimedTools::default());
        let _ = tools.agents.set(agents.downgrade());
        let mut table = kernel_tool_table(&agents);
        let owner = ExtensionId::new("timed_tools").expect("a valid id");
        let plugin: Arc<dyn Plugin> = Arc::clone(&tools) as _;
        table.add_builtin(&owner, &plugin, &tool_specs()).expect("valid tools");
        host.set_builtin_tools(table);
        agents.load_all(found).await;
        let budget = RunBudget::with_usage(limits, BudgetUsage::default());
        Self { agents, tools, budget, _home: folder, _clock_stop: clock_stop }
    }

    async fn run(&self) -> Result<RunOutcome, RunError> {
        self.run_in(&mut Thread::in_memory("worker")).await
    }

    async fn run_in(&self, thread: &mut Thread) -> Result<RunOutcome, RunError> {
        let budget = Some(Arc::clone(&self.budget));
        let request = RunRequest { prompt: "go".to_owned(), budget, ..RunRequest::default() };
        self.agents.run_agent(thread, request, Arc::new(SlowPerson)).await
    }

    fn deadlines(&self) -> Vec<Option<u64>> {
        locked(&self.tools.deadlines).clone()
    }
}

fn reply(text: &str) -> ModelReply {
    let usage = TokenUsage { input: 10, output: 2, ..TokenUsage::default() };
    ModelReply { text: text.to_owned(), usage, ..ModelReply::default() }
}

fn says(text: &str) -> Step {
    Step::Reply(Duration::ZERO, reply(text))
}

fn calls<const N: usize>(calls: [(&str, Value); N]) -> Step {
    let calls = calls.into_iter().enumerate().map(|(number, (name, arguments))| ModelToolCall {
        id: number.to_string(),
        name: name.to_owned(),
        arguments: arguments.to_string(),
    });
    Step::Reply(Duration::ZERO, ModelReply { calls: calls.collect(), ..reply("") })
}

fn time_limit(ms: u64) -> BudgetLimits {
    BudgetLimits { time_ms: Some(ms), ..BudgetLimits::default() }
}

#[tokio::test(start_paused = true)]
async fn approval_of_month_costs_nothing() {
    let script = vec![
        calls([("guarded", json!({"ms": 100}))]),
        calls([("guarded", json!({"ms": 200}))]),
        Step::Reply(ms(50), reply("done")),
    ];
    let test = TestAgents::load("", time_limit(1_000), [("worker", script)]).await;
    assert_eq!(test.run().await.unwrap().text, "done");
    let usage = BudgetUsage { turns: 3, tokens: 36, time_ms: 350, cost: 36_000 };
    assert_eq!(test.budget.usage(), usage);
    // Tools learn the active time that remains.
    assert_eq!(test.deadlines(), [Some(1_000), Some(900)]);
}

#[tokio::test(start_paused = true)]
async fn nested_approval_costs_nothing() {
    let script = vec![calls([("nest", json!({"ms": 30}))]), says("done")];
    let test = TestAgents::load("", time_limit(1_000), [("worker", script)]).await;
    assert_eq!(test.run().await.unwrap().text, "done");
    assert_eq!(test.budget.usage().time_ms, 160);
    assert_eq!(test.deadlines(), [Some(1_000), Some(970)]);
}

#[tokio::test(start_paused = true)]
async fn secret_prompt_costs_nothing() {
    let arguments = json!({"name": "TEA_KEY", "reason": "For tea."});
    let script = vec![calls([("request_secure_input", arguments)]), says("done")];
    let test = TestAgents::load("", time_limit(1_000), [("worker", script)]).await;
    let mut thread = Thread::in_memory("worker");
    assert_eq!(test.run_in(&mut thread).await.unwrap().text, "done");
    let text = "denied: `TEA_KEY` was not provided: not now\n\
                hint: request it again only if the user says so";
    let asked = |message: &Message| matches!(message, Message::Tool { text: t, .. } if t == text);
    assert!(thread.messages().iter().any(asked), "{:?}", thread.messages());
    assert_eq!(test.budget.usage().time_ms, 0);
}

#[tokio::test(start_paused = true)]
async fn parallel_calls_count_once() {
    let both = calls([("meet", json!({"ms": 100})), ("meet", json!({"ms": 100}))]);
    let test =
        TestAgents::load("", time_limit(1_000), [("worker", vec![both, says("done")])]).await;
    assert_eq!(test.run().await.unwrap().text, "done");
    assert_eq!(test.budget.usage().time_ms, 100);
}

#[tokio::test(start_paused = true)]
async fn delegated_time_counts_once() {
    let task = json!({"agent_id": "helper", "task": "help"});
    let worker = vec![
        calls([("delegate_task", task)]),
        calls([("work", json!({"ms": 5}))]),
        Step::Reply(ms(20), reply("done")),
    ];
    let helper =
        vec![calls([("guarded", json!({"ms": 100}))]), Step::Reply(ms(50), reply("helped"))];
    let scripts = [("worker", worker), ("helper", helper)];
    let test = TestAgents::load("limits: {time_budget_ms: 2000}", time_limit(1_000), scripts).await;
    assert_eq!(test.run().await.unwrap().text, "done");
    let used = test.budget.usage();
    // The task counts the turns of its own run and of the delegated one.
    assert_eq!((used.turns, used.tokens, used.time_ms), (5, 60, 175));
    assert_eq!(test.deadlines(), [Some(1_000), Some(850)]);
}

#[tokio::test(start_paused = true)]
async fn delegated_call_exhausts_parent() {
    let task = json!({"agent_id": "helper", "task": "help"});
    let worker = vec![calls([("delegate_task", task)])];
    let helper = vec![calls([("work", json!({"ms": 400}))]), says("helped")];
    let scripts = [("worker", worker), ("helper", helper)];
    let test = TestAgents::load("limits: {time_budget_ms: 300}", time_limit(1_000), scripts).await;
    let error = test.run().await.unwrap_err();
    assert!(matches!(error, RunError::Budget { which: ExhaustedLimit::Time(300) }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn hanging_request_ends_at_limit() {
    let started = Arc::new(Notify::new());
    let script = vec![calls([("work", json!({"ms": 100}))]), Step::Hang(Arc::clone(&started))];
    let more = "limits: {time_budget_ms: 5000}";
    let test = TestAgents::load(more, BudgetLimits::default(), [("worker", script)]).await;
    let pass_time = async {
        started.notified().await;
        advance(ms(4_899)).await;
        let before = test.budget.usage().time_ms;
        advance(ms(1)).await;
        before
    };
    let (ended, before) = tokio::join!(test.run(), pass_time);
    let error = ended.unwrap_err();
    assert!(matches!(error, RunError::Budget { which: ExhaustedLimit::Time(5_000) }), "{error:?}");
    assert_eq!((before, test.budget.usage().time_ms), (4_999, 5_000));
}

#[tokio::test(start_paused = true)]
async fn backoff_costs_nothing() {
    let test =
        TestAgents::load("", time_limit(1_000), [("worker", vec![Step::Retry(ms(70))])]).await;
    assert_eq!(test.run().await.unwrap().text, "done");
    assert_eq!(test.budget.usage().time_ms, 210);
}

#[tokio::test(start_paused = true)]
async fn cost_limit_ends_run() {
    let script = vec![calls([("work", json!({}))]), calls([("work", json!({}))])];
    let limits = BudgetLimits { cost: Some(20_000), ..BudgetLimits::default() };
    let test = TestAgents::load("", limits, [("worker", script)]).await;
    let error = test.run().await.unwrap_err();
    assert_eq!(error.to_string(), "budget of 20000 millionths of cost is exhausted");
    assert_eq!(error.hint(), "raise `cost` in the budget of the task");
    assert_eq!(test.budget.usage().turns, 2);
}
