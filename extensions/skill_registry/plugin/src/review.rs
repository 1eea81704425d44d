//! The review of proposals by an agent, if the settings enable it.

use skillhost_sdk::prelude::*;
use skillhost_sdk::tokio::spawn;
use skillhost_sdk::tokio::time::timeout;

use crate::bridge::run_blocking;
use crate::registry_state::RegistryState;

/// Spawns a task that reviews pending proposals, outside of the call that made them.
pub(crate) fn spawn_review(registry: &Arc<RegistryState>) {
    let registry = Arc::clone(registry);
    spawn(async move {
        registry.cx.cancellation_token().run_until_cancelled(review_pending(&registry)).await
    });
}

/// Reviews one proposal after the other until none is pending.
async fn review_pending(registry: &RegistryState) {
    let _one = registry.reviewing.lock().await;
    loop {
        let task = match run_blocking(|| registry.reviewer.next_task()) {
            Ok(task) => task,
            Err(kept) => return registry.publish_outcome(*kept).await,
        };
        // A new thread, because the author's thread may have ended.
        let cx = CallContext {
            session_id: format!("review-{}", task.proposal),
            deadline_ms: u64::try_from(task.limit.as_millis()).ok(),
            ..CallContext::default()
        };
        let asked = timeout(task.limit, registry.cx.run_agent(&cx, &task.agent, &task.text)).await;
        let answer = match asked {
            Ok(Ok(answer)) => Ok((answer.text, answer.run_id)),
            Ok(Err(error)) => Err(format!("`{}` could not review it: {error}", task.agent)),
            Err(_) => Err(format!("`{}` did not answer in time", task.agent)),
        };
        registry
            .publish_outcome(run_blocking(|| {
                registry.reviewer.handle_answer(&registry.store.snapshot(), &task, answer)
            }))
            .await;
    }
}
