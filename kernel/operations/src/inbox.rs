//! `skillhost inbox`: questions to people, and their decisions.

mod decision;
mod page;

use serde_json::json;
use skillhost_questions::{ReviewLedger, mirror_reviews};
use skillhost_tasks::TaskQueue;
use skillhost_terminal::{CliContext, CommandResult, Output, TableColumn, exit};

use crate::arguments::InboxCommand;
use crate::task_store::{MAX_QUESTIONS, find_question, open_queue, to_cli_error};
use crate::task_text::{format_age, one_line};

/// The questions of a home, and the ledger of the proposals among them.
struct InboxContext<'a> {
    session: &'a CliContext,
    queue: TaskQueue,
    reviews: &'a dyn ReviewLedger,
}

/// Lists, shows and decides questions. No kernel is started: the process that waits for the answer
/// goes on by itself, or with the next start.
///
/// # Errors
/// The home is missing or not trusted, its questions cannot be read, or the decision is refused.
pub fn cmd_inbox(
    session: &CliContext,
    command: &InboxCommand,
    reviews: &dyn ReviewLedger,
) -> CommandResult {
    let queue = open_queue(session, &session.trusted_home()?)?;
    let inbox = InboxContext { session, queue, reviews };
    session.block_on(Box::pin(async {
        let queue = &inbox.queue;
        if let Err(error) = mirror_reviews(queue, reviews).await {
            session.output.print_note(format!("proposals may be out of date: {error}"));
        }
        match command {
            InboxCommand::List => list_questions(session.output, queue).await,
            InboxCommand::Show { id } => {
                let question = find_question(queue, id).await?;
                page::show_question(session, queue, &question).await
            }
            InboxCommand::Approve(args) => decision::approve_question(&inbox, args).await,
            InboxCommand::Refuse { id, reason } => {
                decision::refuse_question(&inbox, id, reason.as_deref()).await
            }
            InboxCommand::Answer(args) => decision::answer_question(&inbox, args).await,
        }
    }))?
}

/// Mirrors the proposals of a home in its questions after a command that may have changed them. A
/// failure is a note: the ledger has the change.
pub fn mirror_proposals(session: &CliContext, reviews: &dyn ReviewLedger) {
    let Ok(home) = session.trusted_home() else { return };
    let mirrored = open_queue(session, &home)
        .and_then(|queue| session.block_on(Box::pin(mirror_reviews(&queue, reviews))));
    let failed = match mirrored {
        Ok(done) => done.err().map(|error| error.to_string()),
        Err(error) => Some(error.message().to_owned()),
    };
    if let Some(error) = failed {
        session.output.print_note(format!("questions about proposals are out of date: {error}"));
    }
}

async fn list_questions(output: Output, queue: &TaskQueue) -> CommandResult {
    let questions = queue.open_questions(MAX_QUESTIONS).await.map_err(to_cli_error)?;
    if output.json {
        output.print_json(&json!({ "questions": questions }))?;
        return Ok(exit::OK);
    }
    if questions.is_empty() {
        output.print_note("no question is open");
        return Ok(exit::OK);
    }
    let now_ms = queue.store().now_ms().await.map_err(to_cli_error)?;
    let rows: Vec<Vec<String>> = questions
        .iter()
        .map(|question| {
            let task = question.task.as_ref().map(ToString::to_string).unwrap_or_default();
            vec![
                question.id.clone(),
                question.kind.as_str().to_owned(),
                question.asker.clone(),
                format_age(question.opened_ms, now_ms),
                one_line(&question.title),
                task,
            ]
        })
        .collect();
    let columns = [
        TableColumn::fixed("QUESTION"),
        TableColumn::fixed("KIND").with_rank(2),
        TableColumn::text("ASKER"),
        TableColumn::fixed("AGE").with_rank(1),
        TableColumn::text("TITLE"),
        TableColumn::fixed("TASK").with_rank(3),
    ];
    output.print_table(&columns, &rows)?;
    if questions.len() == MAX_QUESTIONS {
        output.print_note(format!("only the {MAX_QUESTIONS} oldest questions are listed"));
    }
    Ok(exit::OK)
}
