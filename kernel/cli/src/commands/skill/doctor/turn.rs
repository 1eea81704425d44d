//! `skillhost skill explain --agent --prompt`: the catalog of an agent for a prompt, explained.

use serde_json::{Value, json};
use skillhost_kernel::control::ControlRequest;
use skillhost_payload::ToolOutput;
use skillhost_terminal::{CliContext, CommandResult, exit, text_or_stdin};

use crate::kernel_session::request_from_kernel;

/// The registry's tool that explains a catalog.
const TOOL: &str = "explain_catalog";

pub(super) fn explain_turn(session: &CliContext, agent: &str, prompt: &str) -> CommandResult {
    let arguments = json!({ "prompt": text_or_stdin(prompt)? }).to_string();
    let (agent, tool) = (agent.to_owned(), TOOL.to_owned());
    let reply: ToolOutput =
        request_from_kernel(session, ControlRequest::InvokeFor { agent, tool, arguments })?;
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
