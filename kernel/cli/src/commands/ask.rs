//! `skillhost ask`: one turn of an agent, hop 1 and hop 6.

use serde_json::Value;
use skillhost_kernel::DEFAULT_AGENT;
use skillhost_kernel::control::Request;

use super::talk::Talk;
use super::text_or_stdin;
use crate::cli::AskArgs;
use crate::exit;
use crate::output::{DIM, Outcome};
use crate::session::Session;

pub(super) fn ask(session: &Session, args: &AskArgs) -> Outcome {
    let prompt = text_or_stdin(&args.text)?;
    if args.print_prompt {
        return print_prompt(session, args, prompt);
    }
    session.with_kernel(async |kernel| {
        let mut talk = Talk::begin(session, kernel, &args.talk).await?;
        let result = talk.turn(prompt).await;
        let id = talk.thread.id();
        let output = session.output;
        let outcome = match result {
            Ok(outcome) => outcome,
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

fn print_prompt(session: &Session, args: &AskArgs, prompt: String) -> Outcome {
    let agent = args.talk.agent.as_deref().unwrap_or(DEFAULT_AGENT).to_owned();
    let turn: Value = session.answer(Request::Turn { agent, prompt })?;
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
