//! The agent that looks at proposals, asked where the settings say so.

use skillhost_sdk::prelude::*;
use skillhost_sdk::tokio::{spawn, time::timeout};

use crate::blocking;
use crate::desk::Desk;

/// Has the reviewing agent look at what waits, outside of the call that made it wait.
pub(crate) fn begin(desk: &Arc<Desk>) {
    let desk = Arc::clone(desk);
    spawn(async move { desk.cx.cancellation_token().run_until_cancelled(run(&desk)).await });
}

/// One proposal after the other, until none waits.
async fn run(desk: &Desk) {
    let _one = desk.reviewing.lock().await;
    loop {
        let task = match blocking(|| desk.reviewer.next()) {
            Ok(task) => task,
            Err(kept) => return desk.tell(*kept).await,
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
        desk.tell(blocking(|| desk.reviewer.take(&desk.store.snapshot(), &task, answer))).await;
    }
}
