//! `skillhost task`: background tasks.

mod changes;
mod lines;
mod listing;
mod page;
mod submission;

use skillhost_terminal::{CliContext, CommandResult, exit};

use crate::arguments::TaskCommand;
use crate::task_store::open_queue;

/// Submits, lists, shows, cancels and retries tasks. No kernel is started: the running one, or the
/// next, executes them.
///
/// # Errors
/// The home is missing or not trusted, its tasks cannot be read, or the command is refused.
pub fn cmd_task(session: &CliContext, command: &TaskCommand) -> CommandResult {
    let home = session.trusted_home()?;
    let queue = open_queue(session, &home)?;
    if let TaskCommand::Submit(args) = command {
        // Outside of the runtime, as it may ask a running kernel.
        let target = submission::check_target(session, &home, &queue, args)?;
        let submission = submission::submit_task(session, &home, &queue, args, target);
        return session.block_on(Box::pin(submission))?;
    }
    session.block_on(Box::pin(async {
        match command {
            // Returned above.
            TaskCommand::Submit(_) => Ok(exit::OK),
            TaskCommand::List(args) => listing::list_tasks(session.output, &queue, args).await,
            TaskCommand::Show { id } => page::show_task(session, &queue, id).await,
            TaskCommand::Logs { id, follow } => {
                lines::print_lines(session.output, &queue, id, *follow).await
            }
            TaskCommand::Cancel { id } => changes::cancel_task(session.output, &queue, id).await,
            TaskCommand::Retry { id, fresh } => {
                changes::retry_task(session, &home, &queue, id, *fresh).await
            }
        }
    }))?
}
