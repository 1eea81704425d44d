//! `skillhost ask`: sends one message to an agent and prints the reply, or prints the prompt of it.

use serde_json::Value;
use skillhost_chat::AskArgs;
use skillhost_control::{ControlRequest, DEFAULT_AGENT};
use skillhost_terminal::{CliContext, CommandResult, exit, text_or_stdin};

use crate::in_process::with_own_kernel;
use crate::kernel_session::request_from_kernel;

pub(super) fn cmd_ask(session: &CliContext, args: &AskArgs) -> CommandResult {
    if args.print_prompt {
        let prompt = args.text.as_deref().map(text_or_stdin).transpose()?;
        return print_prompt(session, args, prompt.unwrap_or_default());
    }
    skillhost_chat::cmd_ask(session, args, &|choice, work| with_own_kernel(session, choice, work))
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
