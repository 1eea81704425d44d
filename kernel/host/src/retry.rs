//! Further attempts to start process extensions that failed at the start of the kernel.

use std::time::Instant;

use skillhost_agents::{AgentRuntime, WeakAgentRuntime};
use skillhost_control::{ExitCause, RestartBackoff, RestartDecision, RestartLimits};
use skillhost_core::{ExtensionHost, KernelError};
use skillhost_home::LoadPhase;
use skillhost_payload::OperatorCommand;
use tokio_util::sync::CancellationToken;

/// Retries each process extension that failed at its start: after 1, 2, 4 and 8 seconds. `ext
/// doctor` reports the next attempt.
pub(crate) fn retry_failed_processes(agents: &AgentRuntime, stopping: &CancellationToken) {
    let host = agents.extensions();
    let report = host.report();
    let failed: Vec<_> = report.rejected.iter().filter(|it| it.phase == LoadPhase::Start).collect();
    if failed.is_empty() {
        return;
    }
    let settings = host.settings();
    let installation = host.installation();
    let found =
        skillhost_home::discover_manifests(host.home(), installation, &settings.allow_shadowing);
    let is_process =
        |id: &str| found.manifests.get(id).is_some_and(|found| found.manifest.command().is_some());
    for rejection in failed.into_iter().filter(|it| is_process(&it.id)) {
        let task = retry_extension(agents.downgrade(), rejection.id.clone());
        tokio::spawn(stopping.clone().run_until_cancelled_owned(task));
    }
}

/// Starts an extension, unless it is already loaded.
async fn start_unless_loaded(agents: &AgentRuntime, id: &str) -> Result<(), KernelError> {
    let host = agents.extensions();
    let _guard = host.lock_changes().await;
    if host.state().instances.contains_key(id) {
        return Ok(());
    }
    agents.start_missing(id).await.map(drop)
}

/// Adds the next attempt for a process that failed at its start to the report, in place of the
/// previous one. Returns the line.
async fn note_retry(
    host: &ExtensionHost,
    id: &str,
    next: &RestartDecision,
    previous: Option<&str>,
) -> String {
    let _guard = host.lock_changes().await;
    let line = match next {
        RestartDecision::Restart(wait) => {
            format!("it is started again in {} ms", wait.as_millis())
        }
        RestartDecision::Stop(tries) => format!(
            "restart limit reached after {tries} failures; to retry: {}",
            OperatorCommand::ReloadExtension { id }
        ),
    };
    host.update_rejection(id, |rejection| {
        let hint = rejection.hint.lines().filter(|line| Some(*line) != previous);
        let lines: Vec<_> = hint.chain([&*line]).map(str::to_owned).collect();
        rejection.hint = lines.join("\n");
    });
    line
}

/// Retries one extension until it starts or the restart limit is reached.
async fn retry_extension(agents: WeakAgentRuntime, id: String) {
    let mut backoff = RestartBackoff::new(RestartLimits::default());
    let started = Instant::now();
    let mut noted: Option<String> = None;
    loop {
        let next = backoff.record_exit(ExitCause::Crashed, started.elapsed());
        // Upgraded for each step, so that the wait does not keep the kernel alive.
        let Some(runtime) = agents.upgrade() else { return };
        let line = note_retry(runtime.extensions(), &id, &next, noted.as_deref()).await;
        noted = Some(line);
        drop(runtime);
        let RestartDecision::Restart(wait) = next else { return };
        tokio::time::sleep(wait).await;
        let Some(runtime) = agents.upgrade() else { return };
        match start_unless_loaded(&runtime, &id).await {
            Ok(()) => return tracing::info!(id, "started after a retry"),
            Err(error) => tracing::warn!(id, %error, "retry failed"),
        }
        let rejected = runtime.extensions().report();
        // An operator may have started it, or it now fails in a phase that a retry cannot fix.
        if !rejected.rejected.iter().any(|it| it.id == id && it.phase == LoadPhase::Start) {
            return;
        }
    }
}
