//! The agent that looks at proposals, asked where the settings say so.

use skillhost_sdk::prelude::*;
use skillhost_sdk::tokio::{spawn, time::timeout};

use crate::blocking;
use crate::desk::RegistryState;

/// Has the reviewing agent look at what waits, outside of the call that made it wait.
pub(crate) fn spawn_review(desk: &Arc<RegistryState>) {
    let desk = Arc::clone(desk);
    spawn(
        async move { desk.cx.cancellation_token().run_until_cancelled(review_pending(&desk)).await },
    );
}

/// One proposal after the other, until none waits.
async fn review_pending(desk: &RegistryState) {
    let _one = desk.reviewing.lock().await;
    loop {
        let task = match blocking(|| desk.reviewer.next_task()) {
            Ok(task) => task,
            Err(kept) => return desk.publish_outcome(*kept).await,
        };
        // A conversation of its own: the author's may be over.
        let cx = CallContext {
            session_id: format!("review-{}", task.proposal),
            deadline_ms: u64::try_from(task.limit.as_millis()).ok(),
            ..CallContext::default()
        };
        let asked = timeout(task.limit, desk.cx.run_agent(&cx, &task.agent, &task.text)).await;
        let answer = match asked {
            Ok(Ok(answer)) => Ok((answer.text, answer.run_id)),
            Ok(Err(error)) => Err(format!("`{}` could not review it: {error}", task.agent)),
            Err(_) => Err(format!("`{}` did not answer in time", task.agent)),
        };
        desk.publish_outcome(blocking(|| {
            desk.reviewer.handle_answer(&desk.store.snapshot(), &task, answer)
        }))
        .await;
    }
}
