//! The state of a kernel for `skillhost status`.

use futures::future::BoxFuture;
use skillhost_control::{
    KernelNotices, KernelStatus, ScheduleSummary, StatusAgent, StatusExtension,
};
use skillhost_core::{Agent, elapsed_ms};
use skillhost_payload::CallError;
use skillhost_tasks::TaskState;

use crate::kernel::Kernel;

impl Kernel {
    /// Returns the state of this kernel.
    pub(crate) fn status(&self) -> BoxFuture<'_, KernelStatus> {
        Box::pin(async move {
            // First: it may load and remove agents.
            let notices = self.current_notices().await;
            let (report, started) = (self.report(), self.started());
            let mut schedules = self.list_schedules().await;
            schedules.sort_by_key(next_due_time);
            let agents = self.agents().list_agents();
            let tasks = self.tasks().status().await;
            let by_state = |(state, count): (TaskState, u64)| (state.as_str().to_owned(), count);
            KernelStatus {
                pid: std::process::id(),
                supervised: started.supervised,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                home: self.home().root().to_owned(),
                started_ms: started.at_ms,
                uptime_ms: elapsed_ms(started.at),
                extensions: report.loaded.iter().map(StatusExtension::from).collect(),
                agents: agents.iter().map(|agent| describe_agent(agent)).collect(),
                rejected: report.rejected.clone(),
                model: self.extensions().settings().models.default.clone(),
                model_problem: self.find_model_problem(),
                active_runs: self.agents().run_sessions().count(),
                questions: self.message_channels().open_questions(),
                tasks: tasks.counts.into_iter().map(by_state).collect(),
                open_questions: tasks.open_questions,
                task_problem: tasks.problem.map(CallError::from),
                schedules,
                notices,
            }
        })
    }

    /// Resolves the default model, without a request; returns the reason why it cannot be used.
    fn find_model_problem(&self) -> Option<String> {
        let resolved = self.agents().model_source().resolve_model(None, "");
        resolved.err().map(|error| error.message)
    }

    /// Applies the changes of files that can be applied, and returns the facts that every client of
    /// this kernel displays.
    pub(crate) async fn current_notices(&self) -> KernelNotices {
        self.config_watch().poll().await;
        let missing_keys = self.agents().model_source().missing_keys();
        KernelNotices { missing_keys, ..self.config_watch().notices() }
    }
}

fn describe_agent(agent: &Agent) -> StatusAgent {
    let problem = agent.instructions().problem.as_ref().map(|problem| problem.reason.clone());
    StatusAgent { id: agent.manifest.id.clone(), problem }
}

/// Returns the sort key of a schedule: one that is never due comes last.
fn next_due_time(schedule: &ScheduleSummary) -> u64 {
    schedule.next_ms.unwrap_or(u64::MAX)
}
