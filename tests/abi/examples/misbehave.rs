//! An extension that misbehaves according to its `config` and its tool's arguments.
//!
//! It reports its state to the test in two ways. Every lifecycle step is a line in the file
//! `record` of the home. Code that does not end by itself first connects to the socket `gate` of
//! the home: the test then knows that it runs, releases a blocked thread by closing its end, and
//! detects a cancelled call by the close of the other end.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use skillhost_sdk::prelude::*;
use skillhost_sdk::serde::{self, Deserialize};
use skillhost_sdk::{
    ActiveSkill, AgentTools, ApprovalPolicy, BindingProblem, CallEffect, CallOrigin,
};
use skillhost_sdk::{serde_json, tokio};

/// The name of this build: another crate name, another path.
const BUILD: &str = module_path!();

/// The manifest's `config`.
#[derive(Default, Deserialize)]
#[serde(crate = "serde", default, deny_unknown_fields)]
struct Config {
    /// The actions of the extension's parts; other parts behave correctly.
    parts: HashMap<String, Act>,
    /// The names of its tools; by default one with the name of the extension.
    tools: Option<Vec<String>>,
    /// The description of its tools.
    description: Option<String>,
    /// The input schema of its tools.
    schema: Option<Value>,
    /// Its tools are only for operators.
    operator_only: bool,
    /// The approval mode of its tools.
    approval: ApprovalPolicy,
    /// Its tools are declared read-only.
    read_only: bool,
    /// The declared effect of repeating a call of its tools.
    effect: Option<CallEffect>,
    /// Its priority in the context chain.
    priority: i32,
    /// Its block of context.
    block: Option<String>,
    /// Its skills.
    skills: BTreeMap<String, String>,
    /// The tool lists of its skills.
    says: BTreeMap<String, Says>,
    /// The capabilities of its tools.
    needs: BTreeMap<String, Vec<String>>,
    /// The skills that cannot be bound, and the reasons.
    unbindable: BTreeMap<String, String>,
    /// The error in its vectors.
    vectors: Vectors,
}

/// The tool lists of a skill.
#[derive(Clone, Deserialize)]
#[serde(crate = "serde", deny_unknown_fields)]
struct Says {
    #[serde(default)]
    tools: Option<Vec<String>>,
    #[serde(default)]
    grants: bool,
    #[serde(default)]
    capabilities: Option<Vec<String>>,
    #[serde(default)]
    precedes: Vec<String>,
    #[serde(default)]
    follows: Vec<String>,
}

/// An error of an embedding provider. The model declares two components.
#[derive(Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(crate = "serde", rename_all = "snake_case")]
enum Vectors {
    /// No error: a text's vector is the number of its characters, and one.
    #[default]
    Right,
    /// One vector less than there are texts.
    Fewer,
    /// One component too many.
    Longer,
    /// The right number of components in total, divided unevenly.
    Uneven,
    /// A component that is not a number.
    NotANumber,
    /// A model without a name.
    Nameless,
}

/// A way to misbehave.
#[derive(Clone, Copy, Deserialize)]
#[serde(crate = "serde", rename_all = "snake_case")]
enum Act {
    Fail,
    Panic,
    /// Panics with a payload that panics in its destructor.
    Bomb,
    /// Never ends and does not block the thread.
    Hang,
    /// Blocks the thread until the test releases it.
    Block,
}

/// The action of the tool, from its arguments.
#[derive(Deserialize)]
#[serde(crate = "serde", tag = "do", rename_all = "snake_case", deny_unknown_fields)]
enum Deed {
    /// An action from the list above.
    Act { act: Act },
    /// Adds an action of another part.
    Become { place: String, act: Act },
    /// Returns the name of this build.
    Build,
    /// Returns the complete call context.
    Context,
    /// Opens the gate, then waits for an event.
    Await { topic: String },
    /// Publishes an event.
    Emit { topic: String, payload: Value },
    /// Calls a tool and returns its result.
    Call { tool: String, arguments: Value },
    /// Reads a secret.
    Secret { name: String },
    /// Requests a skill of another extension.
    Skill { extension: String, id: String },
    /// Requests vectors of another extension, twice if the model is replaced in between.
    Embed { extension: String, texts: Vec<String>, limit_ms: Option<u64>, then: Option<Value> },
    /// Replaces the model.
    Remodel { id: String },
    /// Writes a skill and reports it, like a tool that writes files for agents.
    Create { extension: String, id: String, text: String },
    /// Adds or changes a skill.
    Learn { id: String, text: String },
    /// Removes a skill.
    Forget { id: String },
    /// Notifies the operator.
    Notify { text: String },
    /// Requests a restart.
    Restart { reason: String },
    /// Panics in a task of its own and returns the outcome.
    Spawn,
    /// Logs an event in a span, at every level.
    Log { text: String },
    /// Returns a value that JSON cannot express.
    BadAnswer,
    /// Records the key of the call and a label; at the first attempt it then never ends, if it is
    /// told to hang.
    Key {
        #[serde(default)]
        hang: bool,
        label: Option<String>,
    },
    /// Returns a text.
    Say { text: String },
    /// Returns a number of bytes.
    Flood { bytes: usize },
    /// Reads one of its skills, with a number of bytes in front.
    Read {
        id: String,
        #[serde(default)]
        pad: usize,
    },
    /// Ends the process.
    Exit { code: i32 },
    /// Returns the tools of all agents as the kernel has sent them.
    Tools,
    /// Delegates a task to an agent.
    Run { agent: String, task: String },
}

/// A payload whose destructor panics.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the payload was dropped");
    }
}

/// Returns a replacement for a sha256: the start of the text in hexadecimal, padded.
fn digest(text: &str) -> String {
    let bytes: String = text.bytes().take(32).map(|byte| format!("{byte:02x}")).collect();
    format!("{bytes:0<64}")
}

struct Misbehave {
    cx: ExtensionContext,
    config: Config,
    parts: Mutex<HashMap<String, Act>>,
    learnt: Mutex<(u64, BTreeMap<String, String>)>,
    agents: Mutex<Vec<AgentTools>>,
    model: Mutex<String>,
}

/// Appends one lifecycle step to the record.
fn record(cx: &ExtensionContext, step: &str) {
    let file = std::fs::OpenOptions::new().create(true).append(true).open(cx.home().join("record"));
    let line = format!("{} {step}\n", cx.id());
    file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the home can be written to");
}

/// Reports to the test that `place` is reached; the connection lasts as long as the returned
/// stream.
fn gate(cx: &ExtensionContext, place: &str) -> UnixStream {
    let mut gate = UnixStream::connect(cx.home().join("gate")).expect("the test listens");
    gate.write_all(format!("{} {place}\n", cx.id()).as_bytes()).expect("the test listens");
    gate
}

/// Acts on this thread. A hang requires a task; here it blocks as well.
fn act_now(act: Option<Act>, cx: &ExtensionContext, place: &str) -> Result<()> {
    match act {
        None => Ok(()),
        Some(Act::Fail) => {
            Err(ExtensionError::failed(format!("{place} failed")).with_hint("try less"))
        }
        Some(Act::Panic) => panic!("{place} panicked"),
        Some(Act::Bomb) => std::panic::panic_any(Bomb),
        Some(Act::Hang | Act::Block) => {
            // Ends when the test closes its end, which is not an error here.
            let _ = gate(cx, place).read(&mut [0]);
            Ok(())
        }
    }
}

impl Misbehave {
    fn part(&self, place: &str) -> Option<Act> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).get(place).copied()
    }

    /// Acts in a task; dropping it closes the gate.
    async fn act(&self, act: Option<Act>, place: &str) -> Result<()> {
        if let Some(Act::Hang) = act {
            let _gate = gate(&self.cx, place);
            std::future::pending::<()>().await;
        }
        act_now(act, &self.cx, place)
    }

    fn learnt(&self) -> std::sync::MutexGuard<'_, (u64, BTreeMap<String, String>)> {
        self.learnt.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Misbehave {
    fn drop(&mut self) {
        record(&self.cx, "drop");
        // A destructor has no way to report an error.
        let _ = act_now(self.part("drop"), &self.cx, "drop");
    }
}

#[async_trait]
impl Extension for Misbehave {
    fn new(cx: ExtensionContext) -> Result<Self> {
        record(&cx, "new");
        let config: Config = cx.config()?;
        act_now(config.parts.get("new").copied(), &cx, "new")?;
        let (parts, learnt) = (config.parts.clone(), (1, config.skills.clone()));
        let (parts, learnt) = (Mutex::new(parts), Mutex::new(learnt));
        let (agents, model) = (Mutex::default(), Mutex::new("first".to_owned()));
        Ok(Self { cx, config, parts, learnt, agents, model })
    }

    async fn start(&self) -> Result<()> {
        record(&self.cx, "start");
        self.act(self.part("start"), "start").await
    }

    async fn stop(&self) -> Result<()> {
        record(&self.cx, "stop");
        self.act(self.part("stop"), "stop").await
    }

    async fn health_check(&self) -> Result<()> {
        self.act(self.part("health"), "health").await
    }
}

#[async_trait]
impl ToolProvider for Misbehave {
    fn tools(&self, _cx: &CallContext) -> Vec<ToolSpec> {
        act_now(self.part("tools"), &self.cx, "tools").expect("tools cannot fail, only panic");
        let schema = self.config.schema.clone().unwrap_or_else(|| json!({"type": "object"}));
        let own = || vec![self.cx.id().to_owned()];
        let names = self.config.tools.clone().unwrap_or_else(own);
        let spec = |name: &String| {
            let about = self.config.description.as_deref().unwrap_or("Misbehaves.");
            let spec = ToolSpec::new(name, about, schema.clone());
            let spec = spec.needs_approval(self.config.approval);
            let needs = self.config.needs.get(name).cloned().unwrap_or_default();
            let spec = spec.needs(needs);
            let spec = if self.config.read_only { spec.read_only() } else { spec };
            let spec = self.config.effect.into_iter().fold(spec, ToolSpec::effect);
            if self.config.operator_only { spec.operator_only() } else { spec }
        };
        names.iter().map(spec).collect()
    }

    async fn invoke(&self, cx: &CallContext, tool: &str, args: ToolArgs<'_>) -> Result<ToolOutput> {
        let text = match args.parse()? {
            Deed::Act { act } => self.act(Some(act), tool).await.map(|()| String::new())?,
            Deed::Become { place, act } => {
                self.parts.lock().unwrap_or_else(PoisonError::into_inner).insert(place, act);
                String::new()
            }
            Deed::Build => BUILD.to_owned(),
            Deed::Context => return ToolOutput::text(tool).with_structured(cx),
            Deed::Await { topic } => {
                let mut events = self.cx.subscribe(&topic).await?;
                drop(gate(&self.cx, tool));
                let event = events.next().await?;
                format!("{} from {}: {}", event.topic, event.source, event.payload)
            }
            Deed::Emit { topic, payload } => {
                self.cx.emit_for(cx, &topic, &payload).await?;
                String::new()
            }
            Deed::Call { tool, arguments } => {
                return self.cx.call_tool(cx, &tool, &arguments).await;
            }
            Deed::Secret { name } => match self.cx.secret(&name).await? {
                Some(secret) => format!("{secret:?} is {}", secret.expose()),
                None => "it is not set".to_owned(),
            },
            Deed::Skill { extension, id } => {
                self.cx.skill_client(&extension)?.get_skill_content(&id).await?.text
            }
            Deed::Embed { extension, texts, limit_ms, then } => {
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                let client = self.cx.embedding_client(&extension)?;
                let client = match limit_ms {
                    Some(limit) => client.with_timeout(Duration::from_millis(limit)),
                    None => client,
                };
                if let Some(deed) = then {
                    client.embed(&texts).await?;
                    self.cx.call_tool(cx, &extension, &deed).await?;
                    let error = client.embed(&texts).await.expect_err("the model is another");
                    assert_eq!(error.kind(), ErrorKind::Conflict);
                }
                let vectors = client.embed(&texts).await?;
                let model = client.model().await?;
                json!({"model": model.id, "dimension": model.dimension, "vectors": vectors})
                    .to_string()
            }
            Deed::Remodel { id } => {
                *self.model.lock().unwrap_or_else(PoisonError::into_inner) = id;
                String::new()
            }
            Deed::Create { extension, id, text } => {
                let dir = self.cx.home().join("sandbox/skills").join(&id);
                std::fs::create_dir_all(&dir)?;
                std::fs::write(dir.join("SKILL.md"), text)?;
                self.cx.skill_client(&extension)?.skill_created(cx, &id).await?;
                String::new()
            }
            Deed::Learn { id, text } => {
                let mut learnt = self.learnt();
                learnt.0 += 1;
                learnt.1.insert(id, text);
                String::new()
            }
            Deed::Forget { id } => {
                let mut learnt = self.learnt();
                learnt.0 += 1;
                learnt.1.remove(&id);
                String::new()
            }
            Deed::Notify { text } => self.cx.notify(&text).await.map(|()| String::new())?,
            Deed::Restart { reason } => {
                self.cx.request_restart(&reason).await.map(|()| String::new())?
            }
            Deed::Spawn => {
                let task = tokio::spawn(async { panic!("nobody waits for this task") });
                let error: Result<(), _> = task.await;
                error.expect_err("the task panics").to_string()
            }
            Deed::Log { text } => {
                let span = tracing::info_span!("outer", depth = 1);
                let _entered = span.enter();
                tracing::error!(number = 7, ratio = 0.5, ok = true, "{text}");
                tracing::debug!("{text}");
                String::new()
            }
            Deed::Key { hang, label } => {
                let key = cx.idempotency_key.as_deref().unwrap_or("none");
                let before = std::fs::read_to_string(self.cx.home().join("record"))?;
                let label = label.map(|label| format!(" {label}")).unwrap_or_default();
                record(&self.cx, &format!("{tool} {key}{label}"));
                let hang = (hang && !before.contains(key)).then_some(Act::Hang);
                self.act(hang, tool).await?;
                key.to_owned()
            }
            Deed::Say { text } => text,
            Deed::Flood { bytes } => "x".repeat(bytes),
            Deed::Read { id, pad } => {
                let text = self.learnt().1.get(&id).cloned();
                let text =
                    text.ok_or_else(|| ExtensionError::not_found(format!("no skill `{id}`")))?;
                let digest = digest(&text);
                return Ok(ToolOutput::text("x".repeat(pad) + &text).with_skill(id, digest));
            }
            Deed::Run { agent, task } => self.cx.run_agent(cx, &agent, &task).await?.text,
            Deed::Tools => {
                let agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
                serde_json::to_string(&*agents)
                    .map_err(|error| ExtensionError::failed(error.to_string()))?
            }
            Deed::Exit { code } => std::process::exit(code),
            Deed::BadAnswer => {
                let by_pair = HashMap::from([((1, 2), 3)]);
                return ToolOutput::text("").with_structured(&by_pair);
            }
        };
        Ok(ToolOutput::text(text))
    }
}

#[async_trait]
impl ContextProvider for Misbehave {
    fn context_priority(&self) -> i32 {
        act_now(self.part("priority"), &self.cx, "priority").expect("as for tools");
        self.config.priority
    }

    fn ready_context(&self, _cx: &CallContext, _prompt: &str) -> Option<Option<Arc<str>>> {
        let act = self.part("ready")?;
        // Only a panic is possible here: the function returns no error.
        act_now(Some(act), &self.cx, "ready").ok().map(|()| Some("at hand".into()))
    }

    async fn get_context(&self, cx: &CallContext, prompt: &str) -> Result<Option<Arc<str>>> {
        self.act(self.part("context"), "context").await?;
        let fill = |block: &String| {
            let context = serde_json::to_string(cx).expect("a context is JSON");
            block.replace("{prompt}", prompt).replace("{context}", &context).into()
        };
        Ok(self.config.block.as_ref().map(fill))
    }
}

#[async_trait]
impl ServiceProvider for Misbehave {
    async fn run_background(&self, cancel: CancellationToken) -> Result<()> {
        record(&self.cx, "service");
        self.act(self.part("service"), "service").await?;
        cancel.cancelled().await;
        record(&self.cx, "service ended");
        self.act(self.part("service end"), "service end").await
    }
}

#[async_trait]
impl SkillProvider for Misbehave {
    async fn get_skill_content(&self, skill_id: &str) -> Result<SkillContent> {
        self.act(self.part("skill"), "skill").await?;
        let learnt = self.learnt();
        let text = learnt.1.get(skill_id).ok_or_else(|| {
            let known: Vec<_> = learnt.1.keys().map(String::as_str).collect();
            ExtensionError::not_found(format!("no skill `{skill_id}`"))
                .with_hint(format!("known: {}", known.join(", ")))
        })?;
        Ok(SkillContent {
            skill_id: skill_id.to_owned(),
            text: format!("{text} ({BUILD})"),
            digest: "0".repeat(64),
            tokens: 1,
            source: self.cx.id().to_owned(),
        })
    }

    async fn activate(&self, cx: &CallContext, skill_id: &str) -> Result<ActiveSkill> {
        self.act(self.part("activate"), "activate").await?;
        let content = self.get_skill_content(skill_id).await?;
        if skill_id.starts_with("user-") && cx.origin != CallOrigin::Operator {
            return Err(ExtensionError::not_found(format!("no skill `{skill_id}` for a model")));
        }
        let says = self.config.says.get(skill_id);
        Ok(ActiveSkill {
            content: SkillContent { digest: digest(&self.learnt().1[skill_id]), ..content },
            allowed_tools: says.and_then(|says| says.tools.clone()),
            grants: says.is_some_and(|says| says.grants),
            capabilities: says.and_then(|says| says.capabilities.clone()),
            precedes: says.map(|says| says.precedes.clone()).unwrap_or_default(),
            follows: says.map(|says| says.follows.clone()).unwrap_or_default(),
        })
    }

    async fn set_agent_tools(&self, agents: Vec<AgentTools>) -> Result<()> {
        *self.agents.lock().unwrap_or_else(PoisonError::into_inner) = agents;
        self.act(self.part("set_agent_tools"), "set_agent_tools").await
    }

    async fn check_binding(
        &self,
        agent: &AgentTools,
        skill_ids: &[String],
    ) -> Result<Vec<BindingProblem>> {
        let problem = |(id, reason): (&String, &String)| BindingProblem {
            skill_id: id.clone(),
            message: format!("{reason} for {}", agent.agent_id),
            hint: "bind another".to_owned(),
        };
        let unbindable = self.config.unbindable.iter().filter(|(id, _)| skill_ids.contains(id));
        Ok(unbindable.map(problem).collect())
    }

    async fn generation(&self) -> Result<u64> {
        self.act(self.part("generation"), "generation").await?;
        Ok(self.learnt().0)
    }
}

#[async_trait]
impl EmbeddingProvider for Misbehave {
    fn model(&self) -> EmbeddingModelInfo {
        act_now(self.part("model"), &self.cx, "model").expect("as for tools");
        let id = match self.config.vectors {
            Vectors::Nameless => String::new(),
            _ => self.model.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        };
        EmbeddingModelInfo { id, dimension: 2 }
    }

    async fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        self.act(self.part("embed"), "embed").await?;
        let mut vectors: Vec<_> =
            texts.iter().map(|text| vec![text.chars().count() as f32, 1.0]).collect();
        match (self.config.vectors, &mut vectors[..]) {
            (Vectors::Fewer, _) => drop(vectors.pop()),
            (Vectors::Longer, [first, ..]) => first.push(1.0),
            (Vectors::Uneven, [first, second, ..]) => second.extend(first.pop()),
            (Vectors::NotANumber, [first, ..]) => first[1] = f32::NAN,
            _ => {}
        }
        Ok(vectors)
    }
}

#[async_trait]
impl SchedulerProvider for Misbehave {
    async fn run_task(&self, cx: &CallContext, task: &str) -> Result<Option<String>> {
        self.act(self.part("task"), "task").await?;
        let origin = json!(cx.origin);
        Ok((task != "quiet").then(|| format!("{task} for {origin}")))
    }
}

#[async_trait]
impl EventProvider for Misbehave {
    /// Acts as configured for `event`, and records it. An event whose payload has a field `then` is
    /// followed by an event of that topic.
    async fn handle(&self, cx: &CallContext, event: &Event) -> Result<()> {
        record(&self.cx, &format!("event {} {}", event.topic, event.payload));
        self.act(self.part("event"), "event").await?;
        let payload: Value = ToolArgs::new(event.payload.get()).value()?;
        match payload["then"].as_str() {
            Some(topic) => self.cx.emit_for(cx, topic, &json!({"of": event.id})).await,
            None => Ok(()),
        }
    }
}

export_extension!(Misbehave: tools, context, service, skills, embeddings, scheduler, events);
