//! `skillhost ask`: hop 1 and hop 6 of a turn.

use serde_json::Value;
use skillhost_kernel::control::Request;

use super::text_or_stdin;
use crate::cli::AskArgs;
use crate::error::CliError;
use crate::exit;
use crate::output::Outcome;
use crate::session::Session;

pub(super) fn ask(session: &Session, args: &AskArgs) -> Outcome {
    if !args.print_prompt {
        return Err(CliError::usage("no model is configured")
            .hint("this version composes prompts and calls no model; models will be configured under `models` in skillhost.yaml")
            .hint("--print-prompt shows what a model would be given"));
    }
    let (agent, prompt) = (args.agent.clone(), text_or_stdin(&args.text)?);
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
