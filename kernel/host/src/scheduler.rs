//! What happens at certain times: the `schedules` of manifests.
//!
//! [`clockwork`] decides when; this file says what there is, does it and keeps what came of it. It
//! runs under `skillhost run` only, so that of several kernels of a home one watches the clock.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skillhost_contract::payload::{
    AgentTask, CallContext, CallOrigin, ErrorKind, Event, RunTaskRequest, scheduler_interface,
};
use skillhost_events::ScheduleRun;
use skillhost_manifest::{Manifest, ScheduleAction};

use crate::error::{CallError, KernelError, suggest_similar};
use crate::instance::Instance;
use crate::kernel::{Kernel, KernelShared};

mod clockwork;

pub(crate) use clockwork::Scheduler;
use clockwork::{ScheduledJob, SchedulerEnv};

/// Topics of what schedules do; the payload names the schedule as `schedule`.
pub(crate) mod topic {
    /// A run is over: with `due`, `ms` and perhaps a line as `result`.
    pub(crate) const RAN: &str = "schedule.ran";
    /// A run failed: with `due`, `kind` and `error`.
    pub(crate) const FAILED: &str = "schedule.failed";
    /// A run was left out, because the one before it was still going: with `due`.
    pub(crate) const SKIPPED: &str = "schedule.skipped";
    /// Runs that were due while nothing watched the clock: how many are `missed`, and the `last`.
    pub(crate) const MISSED: &str = "schedule.missed";
}

/// Characters of an answer that an event carries.
const RESULT: usize = 200;

/// A schedule, and what is known of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleSummary {
    /// `extension/name`.
    pub id: String,
    /// The cron pattern.
    pub cron: String,
    /// The time zone of the pattern.
    pub timezone: String,
    /// What it does: `task poll`, `tool rss_poll` or `prompt`.
    pub action: String,
    /// When it is due next under `skillhost run`, in milliseconds since 1970.
    pub next_ms: Option<u64>,
    /// The same for people in the schedule's time zone.
    pub next: String,
    /// It runs just now.
    pub running: bool,
    /// What became of it the last time; absent where it was never due.
    pub last: Option<LastRun>,
}

/// What became of the last time a schedule was due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastRun {
    /// When it was due, or when it began by hand; in milliseconds since 1970.
    pub at_ms: u64,
    /// The same for people in the schedule's time zone.
    pub at: String,
    /// How long it took; absent where it did not begin or does not say.
    pub took_ms: Option<u64>,
    /// What went wrong, if anything.
    pub error: Option<String>,
}

/// A run of a schedule that did what it should.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleRunOutcome {
    /// `extension/name`.
    pub schedule: String,
    /// How long it took, in milliseconds.
    pub ms: u64,
    /// A line about it.
    pub result: Option<String>,
}

impl Kernel {
    /// Begins to watch the clock for the schedules of what is loaded, until the shutdown; a second
    /// call does nothing. Runs that were missed since the last time are counted and told.
    pub fn start_schedules(&self) {
        self.shared.clockwork.start(self.scheduler_env());
    }

    /// Lists every schedule, with what became of it.
    pub async fn list_schedules(&self) -> Vec<ScheduleSummary> {
        let stage = self.scheduler_env();
        let mut all = Vec::new();
        for planned in stage.jobs() {
            let run = stage.last_run(&planned.id).await;
            let next_ms = planned.times.next_after(stage.now_ms());
            let last = run.filter(|run| run.started_ms != 0 || run.error.is_some()).map(|run| {
                let at_ms = run.due_ms.max(run.started_ms);
                LastRun {
                    at_ms,
                    at: planned.times.format_local(at_ms),
                    took_ms: run.ended_ms.map(|ended| ended.saturating_sub(run.started_ms)),
                    error: run.error,
                }
            });
            all.push(ScheduleSummary {
                cron: planned.schedule.cron.clone(),
                timezone: planned.schedule.timezone.clone().unwrap_or_else(|| "UTC".to_owned()),
                action: match &planned.schedule.action {
                    ScheduleAction::Task(task) => format!("task {task}"),
                    ScheduleAction::Tool { name, .. } => format!("tool {name}"),
                    ScheduleAction::Prompt(_) => "prompt".to_owned(),
                },
                next_ms,
                next: next_ms.map(|ms| planned.times.format_local(ms)).unwrap_or_default(),
                running: self.shared.clockwork.is_running(&planned.id),
                last,
                id: planned.id,
            });
        }
        all
    }

    /// Runs a schedule now, whatever the time is, and waits for it. Its outcome is kept and published
    /// as that of any run.
    ///
    /// # Errors
    /// [`KernelError::NotFound`] with similar ids; [`KernelError::Call`] of the kind
    /// [`ErrorKind::Conflict`] while it runs already, and with what went wrong.
    pub async fn run_schedule(&self, id: &str) -> Result<ScheduleRunOutcome, KernelError> {
        let stage = self.scheduler_env();
        let all = stage.jobs();
        let Some(planned) = all.iter().find(|planned| planned.id == id) else {
            let similar = suggest_similar(id, all.iter().map(|planned| planned.id.as_str()));
            return Err(KernelError::NotFound { what: "schedule", id: id.to_owned(), similar });
        };
        Ok(self.shared.clockwork.run_now(&*stage, planned).await?)
    }

    fn scheduler_env(&self) -> Arc<KernelEnv> {
        Arc::new(KernelEnv(Arc::downgrade(&self.shared)))
    }
}

/// Names the schedules of an extension that cannot do what they say.
pub(crate) fn find_unrunnable(instance: &Instance) -> Vec<String> {
    let (id, schedules) = (&instance.manifest.id, &instance.manifest.schedules);
    let problem = |action: &ScheduleAction| match action {
        ScheduleAction::Task(_) if !instance.provides(scheduler_interface::NAME) => {
            Some("has a task, and the library exports no `scheduler`".to_owned())
        }
        ScheduleAction::Tool { name, .. }
            if !instance.specs.iter().any(|spec| spec.name == *name) =>
        {
            Some(format!("names the tool `{name}`, which `{id}` does not have"))
        }
        ScheduleAction::Task(_) | ScheduleAction::Tool { .. } | ScheduleAction::Prompt(_) => None,
    };
    let problems = schedules.iter().filter_map(|schedule| {
        Some(format!("the schedule `{id}/{}` {}", schedule.name, problem(&schedule.action)?))
    });
    problems.collect()
}

/// The kernel as schedules see it. It does not keep the kernel alive.
struct KernelEnv(Weak<KernelShared>);

impl KernelEnv {
    fn kernel(&self) -> Option<Kernel> {
        self.0.upgrade().map(|shared| Kernel { shared })
    }
}

#[async_trait]
impl SchedulerEnv for KernelEnv {
    fn now_ms(&self) -> u64 {
        crate::journal::now_ms()
    }

    fn jobs(&self) -> Vec<ScheduledJob> {
        let Some(kernel) = self.kernel() else { return Vec::new() };
        let state = kernel.shared.state.load();
        let libraries = state.instances.values().map(|instance| &*instance.manifest);
        let agents = state.agents.values().map(|agent| &*agent.manifest);
        let of = |manifest: &Manifest| -> Vec<ScheduledJob> {
            let schedules = manifest.schedules.iter();
            schedules.filter_map(|schedule| ScheduledJob::new(&manifest.id, schedule)).collect()
        };
        libraries.chain(agents).flat_map(of).collect()
    }

    async fn last_run(&self, id: &str) -> Option<ScheduleRun> {
        let kernel = self.kernel()?;
        let last = kernel.shared.events.journal().last_run(id).await;
        last.unwrap_or_else(|error| {
            tracing::error!(schedule = id, %error, "the last run is not known");
            None
        })
    }

    async fn record_run(&self, id: &str, run: ScheduleRun) {
        let Some(kernel) = self.kernel() else { return };
        if let Err(error) = kernel.shared.events.journal().record_run(id, run).await {
            tracing::error!(schedule = id, %error, "the run was not kept");
        }
    }

    async fn run_job(
        &self,
        planned: &ScheduledJob,
        run: &str,
    ) -> Result<Option<String>, CallError> {
        let kernel = self
            .kernel()
            .ok_or_else(|| CallError::new(ErrorKind::Unavailable, "the kernel shuts down"))?;
        let limit = planned.limit();
        let context = |origin| CallContext {
            session_id: run.to_owned(),
            turn_id: run.to_owned(),
            call_id: kernel.shared.next_call_id(),
            deadline_ms: u64::try_from(limit.as_millis()).ok(),
            origin,
            correlation_id: Some(run.to_owned()),
            ..CallContext::default()
        };
        // Whoever waits for this gives it up in time; what it calls is to be the later one.
        let later = limit.saturating_add(Duration::from_secs(1));
        match &planned.schedule.action {
            ScheduleAction::Task(task) => {
                let task =
                    RunTaskRequest { context: context(CallOrigin::Operator), task: task.clone() };
                kernel.run_library_task(planned, &task, later).await
            }
            ScheduleAction::Tool { name, arguments } => {
                // What the tool calls in turn has nobody's consent.
                let context = context(CallOrigin::Agent);
                let (owner, arguments) = (&planned.owner, arguments.to_string());
                let call = kernel.invoke_scheduled(owner, &context, name, &arguments, later);
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
                let (agent_id, task) = (planned.owner.to_string(), prompt.clone());
                let context = context(CallOrigin::Agent);
                let answer = kernel.run_task(AgentTask { context, agent_id, task }).await?;
                Ok(first_line(&answer.text))
            }
        }
    }

    async fn publish_event(&self, topic: &str, run: &str, payload: Value) {
        let Some(kernel) = self.kernel() else { return };
        let payload = match serde_json::value::to_raw_value(&payload) {
            Ok(payload) => payload,
            Err(error) => return tracing::error!(topic, %error, "an event could not be written"),
        };
        let correlation_id = Some(run.to_owned());
        let event = Event { correlation_id, ..Event::new(topic, "kernel", payload) };
        if let Err(error) = kernel.shared.events.publish(event).await {
            tracing::error!(topic, %error, "an event was not kept");
        }
    }
}

impl Kernel {
    async fn run_library_task(
        &self,
        planned: &ScheduledJob,
        task: &RunTaskRequest,
        limit: Duration,
    ) -> Result<Option<String>, CallError> {
        let (owner, interface) = (&planned.owner, scheduler_interface::NAME);
        let found = self.shared.pin_state(|state| match state.instances.get(owner) {
            Some(instance) => instance.pin().map(Some),
            None => Some(None),
        });
        let instance = found.filter(|instance| instance.provides(interface)).ok_or_else(|| {
            let message = format!("`{owner}` provides no `scheduler`");
            CallError::new(ErrorKind::Unavailable, message)
                .with_hint("implement SchedulerProvider and name `scheduler` in export_extension!")
        })?;
        let payload =
            serde_json::to_vec(task).map_err(|error| CallError::protocol_error(&error))?;
        let answer = instance.call(interface, scheduler_interface::RUN, payload, limit).await?;
        let said: Option<String> =
            serde_json::from_slice(&answer).map_err(|error| CallError::protocol_error(&error))?;
        Ok(said.as_deref().and_then(first_line))
    }
}

/// The first line of an answer that says something, cut.
fn first_line(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(match line.char_indices().nth(RESULT) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    })
}
