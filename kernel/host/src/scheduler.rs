//! Scheduled jobs: the `schedules` of manifests.
//!
//! [`job_times`] decides on the times; this file lists and executes the jobs and stores their
//! outcomes. The scheduler runs under `skillhost run` only, so that a home has one even with
//! several kernels.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use skillhost_agents::{AgentRuntime, WeakAgentRuntime};
use skillhost_control::{LastRun, ScheduleRunOutcome, ScheduleSummary};
use skillhost_core::{KernelError, KernelState, NamedObject, StateObserver};
use skillhost_engine::{
    AgentTaskRequest, AgentTaskSubmitter, TaskEngine, TaskStarter, text_of_outcome,
};
use skillhost_events::ScheduleRun;
use skillhost_home::suggest_similar;
use skillhost_manifest::{Manifest, ScheduleAction};
use skillhost_payload::{
    AgentTask, CallContext, CallError, CallOrigin, ErrorKind, Event, RunTaskRequest,
    scheduler_interface,
};

mod job_times;

pub(crate) use job_times::Scheduler;
use job_times::{JobRun, ScheduledJob, SchedulerEnv, shutdown_error};

/// Topics of scheduled runs; the payload names the schedule as `schedule`.
pub(crate) mod topic {
    /// A run has succeeded: with `due`, `ms` and optionally one line as `result`.
    pub(crate) const RAN: &str = "schedule.ran";
    /// A run has failed: with `due`, `kind` and `error`.
    pub(crate) const FAILED: &str = "schedule.failed";
    /// A run was skipped, because the previous one was still active: with `due`.
    pub(crate) const SKIPPED: &str = "schedule.skipped";
    /// Runs were due while no scheduler ran: their number as `missed`, and the `last` time.
    pub(crate) const MISSED: &str = "schedule.missed";
}

/// The length limit of a result in an event, in characters.
const RESULT: usize = 200;

/// The schedules of a kernel.
pub(crate) struct ScheduleService {
    agents: AgentRuntime,
    tasks: AgentTaskSubmitter,
    engine: Weak<TaskEngine>,
    scheduler: Arc<Scheduler>,
}

impl ScheduleService {
    pub(crate) fn new(
        agents: AgentRuntime,
        tasks: AgentTaskSubmitter,
        engine: Weak<TaskEngine>,
    ) -> Self {
        Self { agents, tasks, engine, scheduler: Arc::default() }
    }

    /// Returns the scheduler, which reads the jobs again when the extensions change.
    pub(crate) fn scheduler(&self) -> &Arc<Scheduler> {
        &self.scheduler
    }

    /// Starts the scheduler for the loaded extensions, until the shutdown; a second call has no
    /// effect. Runs missed since the last time are counted and reported.
    pub(crate) fn start_scheduler(&self) {
        self.scheduler.start(self.scheduler_env());
    }

    /// Lists every schedule with its last outcome.
    pub(crate) async fn list_schedules(&self) -> Vec<ScheduleSummary> {
        let env = self.scheduler_env();
        let mut all = Vec::new();
        for job in env.jobs() {
            let run = env.last_run(&job.id).await;
            let next_ms = job.times.next_after(env.now_ms());
            // A schedule without a run has a record from the moment it was first seen.
            let last = run.filter(|run| run.started_ms != 0 || run.error.is_some()).map(|run| {
                // A manual run starts later than the due time it is stored with.
                let at_ms = run.due_ms.max(run.started_ms);
                LastRun {
                    at_ms,
                    at: job.times.format_local(at_ms),
                    took_ms: run.ended_ms.map(|ended| ended.saturating_sub(run.started_ms)),
                    error: run.error,
                }
            });
            all.push(ScheduleSummary {
                cron: job.schedule.cron.clone(),
                timezone: job.schedule.timezone.clone().unwrap_or_else(|| "UTC".to_owned()),
                action: match &job.schedule.action {
                    ScheduleAction::Task(task) => format!("task {task}"),
                    ScheduleAction::Tool { name, .. } => format!("tool {name}"),
                    ScheduleAction::Prompt(_) => "prompt".to_owned(),
                },
                next_ms,
                next: next_ms.map(|ms| job.times.format_local(ms)).unwrap_or_default(),
                running: self.scheduler.is_running(&job.id),
                last,
                id: job.id,
            });
        }
        all
    }

    /// Runs a schedule now, independent of its times, and awaits it. Its outcome is stored and
    /// published as that of any run.
    ///
    /// # Errors
    /// [`KernelError::NotFound`] with similar ids; [`KernelError::Call`] of the kind
    /// [`ErrorKind::Conflict`] while a run is active, and with the error of a failed run.
    pub(crate) async fn run_schedule(&self, id: &str) -> Result<ScheduleRunOutcome, KernelError> {
        let env = self.scheduler_env();
        let all = env.jobs();
        let Some(job) = all.iter().find(|job| job.id == id) else {
            let similar = suggest_similar(id, all.iter().map(|job| job.id.as_str()));
            return Err(KernelError::NotFound {
                what: NamedObject::Schedule,
                id: id.to_owned(),
                similar,
            });
        };
        Ok(self.scheduler.run_now(&*env, job).await?)
    }

    fn scheduler_env(&self) -> Arc<KernelEnv> {
        Arc::new(KernelEnv {
            agents: self.agents.downgrade(),
            tasks: self.tasks.clone(),
            engine: self.engine.clone(),
        })
    }
}

/// The scheduler's access to the kernel. Weak, so that it does not keep the kernel alive.
struct KernelEnv {
    agents: WeakAgentRuntime,
    tasks: AgentTaskSubmitter,
    engine: Weak<TaskEngine>,
}

impl KernelEnv {
    fn agents(&self) -> Option<AgentRuntime> {
        self.agents.upgrade()
    }

    /// Submits the task of a run, or finds the one that an earlier process has submitted, and waits
    /// for its end.
    async fn run_task(
        &self,
        job: &ScheduledJob,
        prompt: &str,
        run: &JobRun,
    ) -> Result<Option<String>, CallError> {
        if !run.is_resumed {
            let id = self.tasks.derive_id(run.started_ms, &run.name).await?;
            let request = AgentTaskRequest {
                starter: TaskStarter::Schedule(&job.id),
                agent: job.owner.as_str(),
                text: prompt.to_owned(),
                key: &run.name,
                correlation_id: &run.name,
                time_limit: job.limit(),
            };
            self.tasks.submit(id, request).await?;
        }
        // Without a task, the earlier process ended before it had submitted it.
        let ended = self.tasks.wait_for_end(run.started_ms, &run.name).await?;
        let ended = ended.ok_or_else(shutdown_error)?;
        text_of_outcome(ended).map(|text| first_line(&text))
    }
}

#[async_trait]
impl SchedulerEnv for KernelEnv {
    fn now_ms(&self) -> u64 {
        skillhost_home::now_ms()
    }

    fn jobs(&self) -> Vec<ScheduledJob> {
        let Some(agents) = self.agents() else { return Vec::new() };
        let state = agents.extensions().state();
        let libraries = state.instances.values().map(|instance| &*instance.manifest);
        let with_agents = state.agents.values().map(|agent| &*agent.manifest);
        let jobs_of = |manifest: &Manifest| -> Vec<ScheduledJob> {
            let schedules = manifest.schedules.iter();
            schedules.filter_map(|schedule| ScheduledJob::new(&manifest.id, schedule)).collect()
        };
        libraries.chain(with_agents).flat_map(jobs_of).collect()
    }

    async fn last_run(&self, id: &str) -> Option<ScheduleRun> {
        let agents = self.agents()?;
        let last = agents.extensions().events().journal().last_run(id).await;
        last.unwrap_or_else(|error| {
            // Without a record, the schedule counts as new: no run is reported as missed.
            tracing::error!(schedule = id, %error, "last run could not be read");
            None
        })
    }

    async fn record_run(&self, id: &str, run: ScheduleRun) {
        let Some(agents) = self.agents() else { return };
        if let Err(error) = agents.extensions().events().journal().record_run(id, run).await {
            tracing::error!(schedule = id, %error, "run could not be stored");
        }
    }

    /// Only in a process that executes tasks; another one, which a command has started, runs the agent
    /// itself and ends with it.
    fn is_task(&self, job: &ScheduledJob) -> bool {
        matches!(job.schedule.action, ScheduleAction::Prompt(_))
            && self.engine.upgrade().is_some_and(|engine| engine.is_started())
    }

    async fn run_job(&self, job: &ScheduledJob, run: &JobRun) -> Result<Option<String>, CallError> {
        if let (true, ScheduleAction::Prompt(prompt)) = (run.is_task, &job.schedule.action) {
            return self.run_task(job, prompt, run).await;
        }
        let run = run.name.as_str();
        let agents = self
            .agents()
            .ok_or_else(|| CallError::new(ErrorKind::Unavailable, "kernel is shutting down"))?;
        let limit = job.limit();
        let context = |origin| CallContext {
            session_id: run.to_owned(),
            turn_id: run.to_owned(),
            call_id: agents.extensions().next_call_id(),
            deadline_ms: u64::try_from(limit.as_millis()).ok(),
            origin,
            correlation_id: Some(run.to_owned()),
            ..CallContext::default()
        };
        // The scheduler's own limit must end first, so that its error is always the same.
        let outer_limit = limit.saturating_add(Duration::from_secs(1));
        match &job.schedule.action {
            ScheduleAction::Task(task) => {
                let task =
                    RunTaskRequest { context: context(CallOrigin::Operator), task: task.clone() };
                run_library_task(&agents, job, &task, outer_limit).await
            }
            ScheduleAction::Tool { name, arguments } => {
                // The tool's own calls have no approval, so they must not count as the operator's.
                let context = context(CallOrigin::Agent);
                let (owner, arguments) = (&job.owner, arguments.to_string());
                let call = agents.invoke_scheduled(owner, &context, name, &arguments, outer_limit);
                let output = call.await.map_err(CallError::from)?;
                match output.is_error {
                    true => Err(CallError::new(
                        ErrorKind::Failed,
                        first_line(&output.text).unwrap_or_else(|| format!("`{name}` failed")),
                    )),
                    false => Ok(first_line(&output.text)),
                }
            }
            ScheduleAction::Prompt(prompt) => {
                let (agent_id, task) = (job.owner.to_string(), prompt.clone());
                let context = context(CallOrigin::Agent);
                let output = agents.run_task(AgentTask { context, agent_id, task }).await?;
                Ok(first_line(&output.text))
            }
        }
    }

    async fn publish_event(&self, topic: &str, run: &str, payload: Value) {
        let Some(agents) = self.agents() else { return };
        let payload = match serde_json::value::to_raw_value(&payload) {
            Ok(payload) => payload,
            Err(error) => return tracing::error!(topic, %error, "event could not be serialized"),
        };
        let correlation_id = Some(run.to_owned());
        let event = Event { correlation_id, ..Event::new(topic, "kernel", payload) };
        if let Err(error) = agents.extensions().events().publish(event).await {
            tracing::error!(topic, %error, "event could not be stored");
        }
    }
}

#[async_trait]
impl StateObserver for Scheduler {
    async fn state_changed(&self, _: &KernelState) {
        self.reload_jobs();
    }
}

async fn run_library_task(
    agents: &AgentRuntime,
    job: &ScheduledJob,
    task: &RunTaskRequest,
    limit: Duration,
) -> Result<Option<String>, CallError> {
    let (owner, interface) = (&job.owner, scheduler_interface::NAME);
    let found = agents.extensions().pin_instance(owner.as_str());
    let instance = found.filter(|instance| instance.provides(interface)).ok_or_else(|| {
        let message = format!("`{owner}` provides no `scheduler`");
        CallError::new(ErrorKind::Unavailable, message)
            .with_hint("implement SchedulerProvider and name `scheduler` in export_extension!")
    })?;
    let payload = serde_json::to_vec(task).map_err(|error| CallError::protocol_error(&error))?;
    let output = instance.call(interface, scheduler_interface::RUN, payload, limit).await?;
    let reply: Option<String> =
        serde_json::from_slice(&output).map_err(|error| CallError::protocol_error(&error))?;
    Ok(reply.as_deref().and_then(first_line))
}

/// Returns the first line of a text that is not empty, truncated.
fn first_line(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(match line.char_indices().nth(RESULT) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    })
}
