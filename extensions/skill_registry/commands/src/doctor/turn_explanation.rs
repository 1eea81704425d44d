//! `skillhost skill explain --agent --prompt`: the catalog of an agent for a prompt, explained.

use serde_json::{Value, json};
use skillhost_control::ControlRequest;
use skillhost_payload::ToolOutput;
use skillhost_terminal::{CliContext, CliError, CommandResult, exit, text_or_stdin};

/// A function that sends a tool call to the home's running kernel, or to a new one if none runs.
pub type ToolRequests<'a> = &'a dyn Fn(ControlRequest) -> Result<ToolOutput, CliError>;

/// The registry's tool that explains a catalog.
const TOOL: &str = "explain_catalog";

pub(super) fn explain_turn(
    session: &CliContext,
    agent: &str,
    prompt: &str,
    kernel: ToolRequests<'_>,
) -> CommandResult {
    let arguments = json!({ "prompt": text_or_stdin(prompt)? }).to_string();
    let (agent, tool) = (agent.to_owned(), TOOL.to_owned());
    let reply = kernel(ControlRequest::InvokeFor { agent, tool, arguments })?;
    let explained: Value = match &reply.structured {
        Some(raw) => serde_json::from_str(raw.get()).map_err(std::io::Error::from)?,
        None => Value::Null,
    };
    if session.output.json {
        session.output.print_json(&explained)?;
    } else {
        session.output.print_text(&reply.text)?;
    }
    let is_empty = |key: &str| explained[key].as_array().is_none_or(Vec::is_empty);
    let sound = is_empty("unmatched_globs") && is_empty("unmatched_settings");
    Ok(if sound { exit::OK } else { exit::FINDINGS })
}
