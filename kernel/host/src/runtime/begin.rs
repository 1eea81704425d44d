//! How runs begin and end: by a person, by an extension, by another agent.

use std::sync::Arc;

use arc_swap::ArcSwap;
use skillhost_contract::payload::{
    AgentAnswer, AgentTask, CallContext, CallOrigin, ErrorKind, SkillRef, skill_interface,
};
use skillhost_manifest::Manifest;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::budget::RunBudget;
use super::delegation::to_call_error;
use super::lineage::DelegationChain;
use super::reporter::RunReporter;
use super::run::{AgentRun, RunUsage};
use super::session::RunSession;
use super::skills::{ActiveSkills, activate_skill};
use super::{RunError, RunOutcome, RunRequest};
use crate::agents::Agent;
use crate::channel::Channel;
use crate::error::CallError;
use crate::instance::PinnedInstance;
use crate::kernel::{Kernel, TurnRequest};
use crate::thread::Thread;
use crate::transcript::{RunEntry, RunHeader, Transcript};

/// Who began a run, where that was no person.
pub(super) enum ParentRun {
    /// A person, with a conversation of their own.
    None,
    /// A run; with the lineage of the agent that it hands a task to.
    Run(Arc<RunSession>, DelegationChain),
}

/// What a run is begun with.
pub(super) struct RunSpec {
    pub(super) agent: Arc<Agent>,
    pub(super) model: Option<String>,
    pub(super) prompt: String,
    pub(super) cancel: CancellationToken,
    pub(super) channel: Option<Arc<dyn Channel>>,
    /// Who stands behind it; only an operator's thread is one to go on with.
    pub(super) origin: CallOrigin,
    pub(super) parent: ParentRun,
    pub(super) limit_ms: Option<u64>,
    /// Of a run that outlasts the process.
    pub(super) message_id: Option<String>,
    /// What it belongs to; absent: what the run above belongs to.
    pub(super) correlation_id: Option<String>,
}

impl Kernel {
    /// Lets an agent work on what a person says until it answers, and keeps all of it in the thread.
    ///
    /// # Errors
    /// [`RunError`]; what was said until then is in the thread, which can go on.
    pub async fn run_agent(
        &self,
        thread: &mut Thread,
        request: RunRequest,
        channel: Arc<dyn Channel>,
    ) -> Result<RunOutcome, RunError> {
        let agent = self.refresh_agent(request.agent.as_deref().unwrap_or(thread.agent())).await?;
        let beginning = RunSpec {
            agent,
            model: request.model,
            prompt: request.prompt,
            cancel: request.cancel,
            channel: Some(channel),
            origin: CallOrigin::Operator,
            parent: ParentRun::None,
            limit_ms: None,
            message_id: request.message_id,
            correlation_id: request.correlation_id,
        };
        self.start_run(thread, beginning).await
    }

    /// Makes a skill active in a thread, as a person who invokes it does. Its text is in force from
    /// the next turn on.
    ///
    /// # Errors
    /// [`RunError::Agent`] when the agent is unknown, no extension in its reach provides skills, or
    /// the provider has no such skill for a person to invoke; [`RunError::Thread`].
    pub async fn activate_skill(
        &self,
        thread: &mut Thread,
        skill_id: &str,
    ) -> Result<SkillRef, RunError> {
        let agent = self.refresh_agent(thread.agent()).await?;
        let provider = self.skill_provider(&agent.manifest).ok_or_else(|| {
            RunError::Agent(
                CallError::new(ErrorKind::Unavailable, "no extension provides skills")
                    .with_hint("see: skillhost ext doctor")
                    .into(),
            )
        })?;
        let request = TurnRequest {
            session_id: Some(thread.id().to_owned()),
            origin: CallOrigin::Operator,
            ..TurnRequest::default()
        };
        let context = self.call_context(&agent, &request);
        let skill = activate_skill(&provider, &self.shared.limits, context, skill_id)
            .await
            .map_err(|error| RunError::Agent(error.into()))?
            .content;
        let skill = SkillRef { skill_id: skill.skill_id, digest: skill.digest };
        thread.activate(skill.clone(), false)?;
        Ok(skill)
    }

    /// Lets an agent work on an extension's task. Nobody can be asked for consent.
    ///
    /// # Errors
    /// What the run says, as of a call.
    pub(crate) async fn run_task(&self, task: AgentTask) -> Result<AgentAnswer, CallError> {
        let AgentTask { context, agent_id, task } = task;
        let agent = self.refresh_agent(&agent_id).await.map_err(CallError::from)?;
        let above = self.session_for(&context);
        let parent = match above {
            Some(session) => {
                let lineage = session.delegation_chain.delegate_to(&agent.manifest.id);
                ParentRun::Run(
                    session,
                    lineage.map_err(|why| to_call_error(&agent.manifest.id, &why))?,
                )
            }
            None => ParentRun::None,
        };
        let beginning = RunSpec {
            agent,
            model: None,
            prompt: task,
            cancel: CancellationToken::new(),
            channel: None,
            origin: context.origin,
            parent,
            limit_ms: context.deadline_ms,
            message_id: None,
            correlation_id: context.correlation_id,
        };
        let mut thread = Thread::in_memory(&agent_id);
        let outcome = self.start_run(&mut thread, beginning).await.map_err(CallError::from)?;
        Ok(AgentAnswer { text: outcome.text, run_id: outcome.run_id })
    }

    /// The run that a call belongs to. Only agents have runs: what a client of another server calls
    /// its session is its own affair.
    pub(super) fn session_for(&self, context: &CallContext) -> Option<Arc<RunSession>> {
        match context.origin {
            CallOrigin::Agent => self.shared.sessions.find(&context.session_id),
            CallOrigin::Operator | CallOrigin::Mcp => None,
        }
    }

    /// Sets a run up, lets it run, and says how it ended.
    pub(super) async fn start_run(
        &self,
        thread: &mut Thread,
        beginning: RunSpec,
    ) -> Result<RunOutcome, RunError> {
        let RunSpec {
            agent,
            model,
            prompt,
            cancel,
            channel,
            origin,
            parent,
            limit_ms,
            correlation_id,
            message_id,
        } = beginning;
        // What cannot begin leaves nothing in the thread.
        agent.require_ready()?;
        let model = self.resolve_model(&agent, model.as_deref())?;
        let run_id = ulid::Ulid::generate().to_string().to_lowercase();
        let (above, lineage) = match parent {
            ParentRun::None => (None, DelegationChain::new(&agent.manifest.id)),
            ParentRun::Run(session, lineage) => (Some(session), lineage),
        };
        let header = RunHeader {
            run_id: run_id.clone(),
            parent: above.as_ref().map(|above| above.run_id.clone()),
            thread: (origin == CallOrigin::Operator).then(|| thread.id().to_owned()),
            agent: agent.manifest.id.to_string(),
            model: model.metadata().name.clone(),
            origin,
        };
        let transcript = Transcript::create(&self.shared.home, &header);
        let now = Instant::now();
        let budget = RunBudget::new(
            &agent.agent_manifest().limits,
            self.shared.limits.turns,
            now,
            above.as_ref().map(|above| Arc::clone(&above.budget)),
        );
        let session = RunSession {
            id: thread.id().to_owned(),
            conversation: above
                .as_ref()
                .map_or_else(|| thread.id().to_owned(), |above| above.conversation.clone()),
            run_id: run_id.clone(),
            agent: agent.manifest.id.clone(),
            durable: message_id.is_some(),
            correlation_id: correlation_id
                .or_else(|| above.as_ref().and_then(|above| above.correlation_id.clone())),
            reporter: RunReporter::new(&agent.manifest.id, channel, transcript),
            permissions: ArcSwap::default(),
            budget: Arc::new(budget.with_deadline(now, limit_ms)),
            delegation_chain: lineage,
            asking: above.map_or_else(Arc::default, |above| Arc::clone(&above.asking)),
        };
        let entered = self.shared.sessions.register(session);
        let session = Arc::clone(&entered.session);
        let mut run = AgentRun {
            kernel: self.clone(),
            agent: Arc::clone(&agent),
            model: Arc::clone(&model),
            session: Arc::clone(&session),
            cancel,
            skills: ActiveSkills::default(),
            spent: RunUsage::default(),
            thread,
        };
        let ended = run.run(prompt, message_id).await;
        let spent = run.spent;
        session.reporter.record(&RunEntry::Ended {
            outcome: ended.as_ref().map_or_else(RunError::code, |_| "done").to_owned(),
            error: ended.as_ref().err().map(ToString::to_string),
            usage: spent.usage,
            cost: spent.cost,
        });
        let text = match ended {
            Ok(text) => text,
            Err(error) => {
                // The error that ended the run is the one to tell.
                let _ = thread.close_open_calls();
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
            skills: thread.skills().iter().map(|active| active.skill.clone()).collect(),
        })
    }

    /// The extension that an agent has its skills from: the one in reach of its `depends_on`, else
    /// the first there is.
    pub(super) fn skill_provider(&self, manifest: &Manifest) -> Option<PinnedInstance> {
        let interface = skill_interface::NAME;
        self.shared.pin_state(|state| {
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
