//! The command `ask`: sends one message to an agent and prints the reply.

use serde_json::json;
use skillhost_conversation::{Message, ThreadStore};
use skillhost_terminal::{
    CliContext, CliError, CommandResult, DIM, MarkdownLayout, display_safe, exit, text_or_stdin,
};

use crate::arguments::AskArgs;
use crate::connection::KernelBoot;
use crate::session::with_chat_session;

/// Runs `ask`, apart from `--print-prompt`.
///
/// # Errors
/// The home, the agent or the thread is not usable, or the run failed.
pub fn cmd_ask<'a>(
    session: &'a CliContext,
    args: &'a AskArgs,
    boot: &KernelBoot<'a>,
) -> CommandResult {
    let prompt = args.text.as_deref().map(text_or_stdin).transpose()?;
    with_chat_session(session, &args.talk, boot, move |mut talk| {
        Box::pin(async move {
            let result = match prompt {
                Some(text) => talk.send_message(text).await.map(Some),
                None => talk.wait_for_pending_reply().await,
            };
            let (id, output) = (talk.thread().to_owned(), session.output);
            let outcome = match result {
                Ok(Some(outcome)) => outcome,
                Ok(None) => return print_last_answer(session, &id),
                Err(error) => {
                    // The error of the run is the one to report.
                    let is_removed = talk.close_thread().await.unwrap_or(false);
                    // The messages up to the error are stored in the thread.
                    return Err(match is_removed {
                        true => error,
                        false => error.with_hint(format!("resume the thread with: --thread {id}")),
                    });
                }
            };
            if output.json {
                output.print_json(&talk.to_json(&outcome)?)?;
            }
            output.print_progress(format!("{DIM}resume the thread with: --thread {id}{DIM:#}"));
            Ok(exit::OK)
        })
    })
}

/// Prints the reply that the thread already holds.
fn print_last_answer(session: &CliContext, id: &str) -> CommandResult {
    let contents = ThreadStore::new(&session.trusted_home()?).read(id)?;
    let answer = match contents.messages.last() {
        Some(Message::Assistant { text, calls }) if calls.is_empty() => text,
        _ => {
            let message = format!("no run is active in thread `{id}`");
            return Err(CliError::new(exit::FINDINGS, message)
                .with_hint("resume pending messages with: skillhost run"));
        }
    };
    let output = session.output;
    match output.width() {
        _ if output.json => output.print_json(&json!({
            "thread": id, "agent": contents.summary.agent, "text": answer,
        }))?,
        Some(width) => {
            let layout = MarkdownLayout::new(output.uses_color(), width);
            output.print_styled(&layout.render(answer))?;
        }
        None => output.print_line(display_safe(answer.trim_end()))?,
    }
    Ok(exit::OK)
}
