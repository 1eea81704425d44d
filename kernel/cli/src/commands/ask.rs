//! `skillhost ask`: one turn of an agent, hop 1 and hop 6.

use serde_json::{Value, json};
use skillhost_kernel::control::ControlRequest;
use skillhost_kernel::{DEFAULT_AGENT, Message, ThreadStore};

use super::{talk, text_or_stdin};
use crate::cli::AskArgs;
use crate::error::CliError;
use crate::exit;
use crate::output::{DIM, Outcome, show};
use crate::session::Session;

pub(super) fn ask(session: &Session, args: &AskArgs) -> Outcome {
    let prompt = args.text.as_deref().map(text_or_stdin).transpose()?;
    if args.print_prompt {
        return print_prompt(session, args, prompt.unwrap_or_default());
    }
    talk::with(session, &args.talk, async |talk| {
        let result = match prompt {
            Some(text) => talk.turn(text).await.map(Some),
            None => talk.owed().await,
        };
        let (id, output) = (talk.thread(), session.output);
        let outcome = match result {
            Ok(Some(outcome)) => outcome,
            Ok(None) => return last_answer(session, id),
            // What was said so far is kept.
            Err(error) => return Err(error.hint(format!("the thread goes on with: --thread {id}"))),
        };
        if output.json {
            output.object(&talk.json(&outcome)?)?;
        }
        output.aside(format!("{DIM}the thread goes on with: --thread {id}{DIM:#}"));
        Ok(exit::OK)
    })
}

/// Prints the answer that is in the thread already.
fn last_answer(session: &Session, id: &str) -> Outcome {
    let contents = ThreadStore::new(&session.trusted_home()?).read(id)?;
    let answer = match contents.messages.last() {
        Some(Message::Assistant { text, calls }) if calls.is_empty() => text,
        _ => {
            let message = format!("nobody works on an answer in thread `{id}`");
            return Err(CliError::new(exit::FINDINGS, message)
                .hint("what a kernel that has gone was told is answered by: skillhost run"));
        }
    };
    let output = session.output;
    match output.json {
        true => output.object(&json!({
            "thread": id, "agent": contents.summary.agent, "text": answer,
        }))?,
        false => output.line(show(answer.trim_end()))?,
    }
    Ok(exit::OK)
}

fn print_prompt(session: &Session, args: &AskArgs, prompt: String) -> Outcome {
    let agent = args.talk.agent.as_deref().unwrap_or(DEFAULT_AGENT).to_owned();
    let turn: Value = session.answer(ControlRequest::Turn { agent, prompt })?;
    let output = session.output;
    for block in turn["blocks"].as_array().into_iter().flatten() {
        if let Some(reason) = block["skipped"]["message"].as_str() {
            let extension = block["extension"].as_str().unwrap_or_default();
            output.note(format!("the block of `{extension}` is left out: {reason}"));
        }
    }
    if output.json {
        output.object(&turn)?;
    } else {
        output.verbatim(turn["system_prompt"].as_str().unwrap_or_default())?;
    }
    Ok(exit::OK)
}
