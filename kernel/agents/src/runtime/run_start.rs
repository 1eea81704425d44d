//! The start and end of runs: for a user, an extension or another agent.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use skillhost_budget::{BudgetLimits, RunBudget};
use skillhost_conversation::{Channel, RunEntry, RunHeader, RunOutcome, Thread, Transcript};
use skillhost_core::{Agent, ContextBlock, PinnedInstance};
use skillhost_manifest::Manifest;
use skillhost_payload::{
    AgentAnswer, AgentTask, CallError, CallOrigin, ErrorKind, OperatorCommand, SkillRef, Workspace,
    skill_interface,
};
use tokio_util::sync::CancellationToken;

use super::lineage::{DelegationChain, check_depth, to_call_error};
use super::reporter::RunReporter;
use super::run_state::{AgentRun, RunUsage};
use super::session::RunSession;
use super::session_skills::SessionSkills;
use super::skills::{ActiveSkills, activate_skill};
use super::{RunControl, RunError, RunRequest};
use crate::agent_runtime::AgentRuntime;
use crate::run_observer::{ObservedRun, SpanEnd};
use crate::turn::TurnRequest;

/// The run that started another run.
pub(super) enum ParentRun {
    /// None: started by a user in a thread of their own, or by a task with its budget.
    None(Option<Arc<RunBudget>>, Option<Arc<dyn RunControl>>),
    /// A run, with the delegation chain of the agent that receives the task.
    Run(Arc<RunSession>, DelegationChain),
}

/// The work of a run.
pub(super) enum RunInput {
    /// A message or task, to which the agent replies.
    Prompt(String),
    /// A summary of the older messages of the thread.
    Compaction,
}

/// The inputs of a run.
pub(super) struct RunSpec {
    pub(super) agent: Arc<Agent>,
    pub(super) model: Option<String>,
    pub(super) prompt: RunInput,
    pub(super) cancel: CancellationToken,
    pub(super) channel: Option<Arc<dyn Channel>>,
    /// The origin of its calls; only an operator's thread can be resumed.
    pub(super) origin: CallOrigin,
    pub(super) parent: ParentRun,
    /// The call chain of the call that started it.
    pub(super) call_chain: Vec<String>,
    pub(super) limit_ms: Option<u64>,
    /// The id of a user message; only for a run that survives a restart.
    pub(super) message_id: Option<String>,
    /// The correlation id; `None` inherits the parent's.
    pub(super) correlation_id: Option<String>,
    /// The operator's workspaces, for a run without a parent.
    pub(super) workspaces: Vec<Workspace>,
    /// The kernel's block about a channel.
    pub(super) channel_block: Option<ContextBlock>,
    /// Whether the run reaches no directory of the user.
    pub(super) is_confined: bool,
}

impl AgentRuntime {
    /// Runs an agent on a user message until it replies, and stores every message in the thread.
    ///
    /// # Errors
    /// [`RunError`]; all messages until then are in the thread, which can continue.
    pub fn run_agent<'a>(
        &'a self,
        thread: &'a mut Thread,
        request: RunRequest,
        channel: Arc<dyn Channel>,
    ) -> BoxFuture<'a, Result<RunOutcome, RunError>> {
        Box::pin(async move {
            let agent =
                self.refresh_agent(request.agent.as_deref().unwrap_or(thread.agent())).await?;
            let spec = RunSpec {
                agent,
                model: request.model,
                prompt: RunInput::Prompt(request.prompt),
                cancel: request.cancel,
                channel: Some(channel),
                origin: match &request.control {
                    Some(control) => control.origin(),
                    None => CallOrigin::Operator,
                },
                parent: ParentRun::None(request.budget, request.control),
                call_chain: Vec::new(),
                limit_ms: None,
                message_id: request.message_id,
                correlation_id: request.correlation_id,
                workspaces: request.workspaces,
                channel_block: request.channel_block,
                is_confined: request.is_confined,
            };
            self.start_run(thread, spec).await
        })
    }

    /// Activates a skill in a thread on behalf of a user. Its text applies from the next turn on.
    ///
    /// # Errors
    /// [`RunError::Agent`] if the agent is unknown, no extension in its reach provides skills, or
    /// the provider has no such skill for a user to invoke; [`RunError::Thread`].
    pub fn activate_skill<'a>(
        &'a self,
        thread: &'a mut Thread,
        skill_id: &'a str,
    ) -> BoxFuture<'a, Result<SkillRef, RunError>> {
        Box::pin(async move {
            let agent = self.refresh_agent(thread.agent()).await?;
            let provider = self.skill_provider(&agent.manifest).ok_or_else(|| {
                RunError::Agent(
                    CallError::new(ErrorKind::Unavailable, "no extension provides skills")
                        .with_hint(format!("see: {}", OperatorCommand::CheckExtensions))
                        .into(),
                )
            })?;
            let request = TurnRequest {
                session_id: Some(thread.id().to_owned()),
                origin: CallOrigin::Operator,
                ..TurnRequest::default()
            };
            let context = self.call_context(&agent, &request);
            let skill = activate_skill(&provider, self.extensions().limits(), context, skill_id)
                .await
                .map_err(|error| RunError::Agent(error.into()))?
                .content;
            let skill = SkillRef { skill_id: skill.skill_id, digest: skill.digest, tree: None };
            thread.activate(skill.clone(), false).await?;
            Ok(skill)
        })
    }

    /// Replaces all messages of a thread but the last round by a summary from the model. The text of
    /// the outcome tells the result.
    ///
    /// # Errors
    /// [`RunError`]; the thread is then unchanged.
    pub fn compact_thread<'a>(
        &'a self,
        thread: &'a mut Thread,
        model: Option<String>,
    ) -> BoxFuture<'a, Result<RunOutcome, RunError>> {
        Box::pin(async move {
            let spec = RunSpec {
                agent: self.refresh_agent(thread.agent()).await?,
                model,
                prompt: RunInput::Compaction,
                cancel: CancellationToken::new(),
                channel: None,
                origin: CallOrigin::Operator,
                parent: ParentRun::None(None, None),
                call_chain: Vec::new(),
                limit_ms: None,
                message_id: None,
                correlation_id: None,
                workspaces: Vec::new(),
                channel_block: None,
                is_confined: false,
            };
            self.start_run(thread, spec).await
        })
    }

    /// Runs an agent on an extension's task. No approval channel is attached.
    ///
    /// # Errors
    /// The run's error, as that of a tool call.
    pub fn run_task(&self, task: AgentTask) -> BoxFuture<'_, Result<AgentAnswer, CallError>> {
        Box::pin(async move {
            let AgentTask { context, agent_id, task } = task;
            check_depth(&context)?;
            let agent = self.refresh_agent(&agent_id).await.map_err(CallError::from)?;
            let caller = self.session_for(&context);
            let calling =
                caller.as_ref().map(|session| (Arc::clone(&session.budget), context.call_id));
            let parent = match caller {
                Some(session) => {
                    let delegation_chain = session.delegation_chain.delegate_to(&agent.manifest.id);
                    ParentRun::Run(
                        session,
                        delegation_chain.map_err(|why| to_call_error(&agent.manifest.id, &why))?,
                    )
                }
                None => ParentRun::None(None, None),
            };
            let spec = RunSpec {
                agent,
                model: None,
                prompt: RunInput::Prompt(task),
                cancel: CancellationToken::new(),
                channel: None,
                origin: context.origin,
                parent,
                call_chain: context.call_chain,
                limit_ms: context.deadline_ms,
                message_id: None,
                correlation_id: context.correlation_id,
                workspaces: Vec::new(),
                channel_block: None,
                is_confined: false,
            };
            // The caller keeps no thread, so the task's messages end with it.
            let mut thread = Thread::in_memory(&agent_id);
            // The run counts its own time for the caller, too.
            let _waiting = calling.map(|(budget, call_id)| budget.start_wait(call_id));
            let outcome = self.start_run(&mut thread, spec).await.map_err(CallError::from)?;
            Ok(AgentAnswer { text: outcome.text, run_id: outcome.run_id })
        })
    }

    /// Sets up a run, awaits it and records its outcome.
    pub(super) async fn start_run(
        &self,
        thread: &mut Thread,
        spec: RunSpec,
    ) -> Result<RunOutcome, RunError> {
        let RunSpec {
            agent,
            model,
            prompt,
            cancel,
            channel,
            origin,
            parent,
            mut call_chain,
            limit_ms,
            correlation_id,
            message_id,
            workspaces,
            channel_block,
            is_confined,
        } = spec;
        // A run that cannot start leaves no message in the thread.
        agent.require_ready()?;
        let model = self.resolve_model(&agent, model.as_deref())?;
        let run_id = ulid::Ulid::generate().to_string().to_lowercase();
        let (parent, delegation_chain, outer_budget, control) = match parent {
            ParentRun::None(budget, control) => {
                (None, DelegationChain::new(&agent.manifest.id), budget, control)
            }
            ParentRun::Run(session, delegation_chain) => {
                let budget = Arc::clone(&session.budget);
                let control = session.control.clone();
                (Some(session), delegation_chain, Some(budget), control)
            }
        };
        // A delegated run reaches what its parent reaches, even if the settings have changed since.
        let (workspaces, workspace_notes) = match &parent {
            Some(parent) => (parent.workspaces.clone(), Vec::new()),
            // A client of the MCP server has skills, not the user's files.
            None if origin == CallOrigin::Mcp || is_confined => (Vec::new(), Vec::new()),
            None => self.resolve_workspaces(workspaces).await,
        };
        if parent.is_some() {
            call_chain.push(format!("agent {}", agent.manifest.id));
        }
        let header = RunHeader {
            run_id: run_id.clone(),
            parent: parent.as_ref().map(|parent| parent.run_id.clone()),
            // The transcript names a thread only where it can be resumed.
            thread: (origin == CallOrigin::Operator).then(|| thread.id().to_owned()),
            agent: agent.manifest.id.to_string(),
            model: model.metadata().name.clone(),
            origin,
        };
        let transcript = Transcript::create(self.extensions().home(), &header).await;
        let own = agent.agent_manifest().limits;
        let limits = BudgetLimits {
            turns: Some(own.max_turns.unwrap_or(self.extensions().limits().turns)),
            tokens: own.max_tokens_per_invocation,
            time_ms: limit_ms.into_iter().chain(own.time_budget_ms).min(),
            cost: None,
        };
        let stated = agent.agent_manifest().capability_mode;
        let modes = &self.extensions().settings().capability_modes;
        let capability_mode = modes.effective_mode(agent.manifest.id.as_str(), stated);
        let root_thread_id = parent
            .as_ref()
            .map_or_else(|| thread.id().to_owned(), |parent| parent.root_thread_id.clone());
        let is_reply = matches!(prompt, RunInput::Prompt(_));
        let span = self.run_observer().filter(|_| is_reply).map(|observer| {
            observer.start_run(&ObservedRun {
                agent_id: agent.manifest.id.as_str(),
                root_thread_id: &root_thread_id,
                parent: parent.as_ref().and_then(|parent| parent.span),
            })
        });
        let session = RunSession {
            id: thread.id().to_owned(),
            root_thread_id,
            run_id: run_id.clone(),
            span: span.as_ref().map(|span| span.place()),
            agent: agent.manifest.id.clone(),
            durable: message_id.is_some(),
            correlation_id: correlation_id
                .or_else(|| parent.as_ref().and_then(|parent| parent.correlation_id.clone())),
            reporter: RunReporter::new(&agent.manifest.id, channel, transcript),
            permissions: ArcSwap::default(),
            skills: SessionSkills::default(),
            capability_mode,
            capabilities: ArcSwap::default(),
            reported: Mutex::default(),
            reads_files: AtomicBool::default(),
            budget: RunBudget::new(limits, outer_budget),
            control,
            delegation_chain,
            call_chain,
            workspaces,
            channel_block,
            // One approval at a time, even with several agents working for the same user.
            approval_lock: parent
                .map_or_else(Arc::default, |parent| Arc::clone(&parent.approval_lock)),
            parked: Mutex::default(),
            // A run makes far fewer calls, so no number is that of another run.
            last_call: AtomicU64::new(self.extensions().next_call_id() << 20),
        };
        // Registered before the first turn: its tool calls look the session up.
        let registration = self.run_sessions().register(session);
        let session = Arc::clone(&registration.session);
        workspace_notes.into_iter().for_each(|note| session.reporter.note_once(note));
        let mut run = AgentRun {
            agents: self.clone(),
            agent: Arc::clone(&agent),
            model: Arc::clone(&model),
            session: Arc::clone(&session),
            cancel,
            skills: ActiveSkills::default(),
            spent: RunUsage::default(),
            thread,
        };
        let ended = match prompt {
            RunInput::Prompt(prompt) => run.run(prompt, message_id).await,
            RunInput::Compaction => run.compact_thread().await,
        };
        let spent = run.spent;
        session.reporter.record(&RunEntry::Ended {
            outcome: ended.as_ref().map_or_else(RunError::code, |_| "done").to_owned(),
            error: ended.as_ref().err().map(ToString::to_string),
            usage: spent.usage,
            cost: spent.cost,
        });
        session.reporter.flush().await;
        if let Some(span) = span {
            span.end(match &ended {
                Err(error) if !error.is_continued() => SpanEnd::Failed(error.kind()),
                _ => SpanEnd::Done,
            });
        }
        let text = match ended {
            Ok(text) => text,
            Err(error) => {
                // The open calls of a summarized thread are those of another run.
                if is_reply && !error.is_continued() {
                    // The error that ended the run is the one to return.
                    let _ = thread.close_open_calls().await;
                }
                return Err(error);
            }
        };
        Ok(RunOutcome {
            run_id,
            agent: agent.manifest.id.clone(),
            model: model.metadata().name.clone(),
            text,
            turns: session.budget.turn_count(),
            usage: spent.usage,
            cost: spent.cost,
            skills: thread.active_skills(),
        })
    }

    /// Returns an agent's skill provider: the one in reach of its `depends_on`, else the first one
    /// loaded.
    pub(super) fn skill_provider(&self, manifest: &Manifest) -> Option<PinnedInstance> {
        let interface = skill_interface::NAME;
        self.extensions().pin_state(|state| {
            let mut all = state.instances.values();
            let any = || all.find(|instance| instance.provides(interface));
            match state.reachable_provider(interface, manifest).or_else(any) {
                Some(provider) => provider.pin().map(Some),
                None => Some(None),
            }
        })
    }
}

impl From<RunError> for CallError {
    fn from(error: RunError) -> Self {
        Self::new(error.kind(), error.to_string()).with_hint(error.hint())
    }
}
