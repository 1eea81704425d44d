//! `skillhost ask`: sends one message to an agent and prints the reply.

use serde_json::{Value, json};
use skillhost_agents::DEFAULT_AGENT;
use skillhost_control::ControlRequest;
use skillhost_conversation::{Message, ThreadStore};
use skillhost_terminal::{
    CliContext, CliError, CommandResult, DIM, display_safe, exit, text_or_stdin,
};

use super::talk;
use crate::cli::AskArgs;
use crate::kernel_session::request_from_kernel;

pub(super) fn cmd_ask(session: &CliContext, args: &AskArgs) -> CommandResult {
    let prompt = args.text.as_deref().map(text_or_stdin).transpose()?;
    if args.print_prompt {
        return print_prompt(session, args, prompt.unwrap_or_default());
    }
    talk::with_chat_session(session, &args.talk, move |mut talk| {
        Box::pin(async move {
            let result = match prompt {
                Some(text) => talk.send_message(text).await.map(Some),
                None => talk.wait_for_pending_reply().await,
            };
            let (id, output) = (talk.thread(), session.output);
            let outcome = match result {
                Ok(Some(outcome)) => outcome,
                Ok(None) => return print_last_answer(session, id),
                // The messages up to the error are stored in the thread.
                Err(error) => {
                    return Err(error.with_hint(format!("resume the thread with: --thread {id}")));
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
    match output.json {
        true => output.print_json(&json!({
            "thread": id, "agent": contents.summary.agent, "text": answer,
        }))?,
        false => output.print_line(display_safe(answer.trim_end()))?,
    }
    Ok(exit::OK)
}

fn print_prompt(session: &CliContext, args: &AskArgs, prompt: String) -> CommandResult {
    let agent = args.talk.agent.as_deref().unwrap_or(DEFAULT_AGENT).to_owned();
    let turn: Value = request_from_kernel(session, ControlRequest::Turn { agent, prompt })?;
    let output = session.output;
    for block in turn["blocks"].as_array().into_iter().flatten() {
        if let Some(reason) = block["skipped"]["message"].as_str() {
            let extension = block["extension"].as_str().unwrap_or_default();
            output.print_note(format!("the block of `{extension}` is left out: {reason}"));
        }
    }
    if output.json {
        output.print_json(&turn)?;
    } else {
        output.print_text(turn["system_prompt"].as_str().unwrap_or_default())?;
    }
    Ok(exit::OK)
}
