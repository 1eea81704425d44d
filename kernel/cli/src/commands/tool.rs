//! `skillhost tool`: the tools of extensions, called by the operator.

use serde_json::{Value, json};
use skillhost_control::{ControlRequest, ToolListing};
use skillhost_payload::{CallContext, CallOrigin, ToolOutput};
use skillhost_terminal::{CliContext, CommandResult, display_safe, exit, text_or_stdin};

use crate::cli::ToolCommand;
use crate::kernel_session::request_from_kernel;

pub(super) fn cmd_tool(session: &CliContext, command: &ToolCommand) -> CommandResult {
    match command {
        ToolCommand::List { agent } => list(session, agent.as_deref()),
        ToolCommand::Call { name, arguments } => call(session, name, arguments),
    }
}

fn list(session: &CliContext, agent: Option<&str>) -> CommandResult {
    let listing: ToolListing =
        request_from_kernel(session, ControlRequest::Tools { agent: agent.map(str::to_owned) })?;
    let output = session.output;
    if output.json {
        output.print_json(&listing)?;
    } else {
        let rows: Vec<_> = listing
            .tools
            .iter()
            .map(|tool| {
                let summary = tool.spec.description.lines().next().unwrap_or_default();
                vec![tool.spec.name.clone(), tool.extension.to_string(), display_safe(summary)]
            })
            .collect();
        output.print_table(&["TOOL", "EXTENSION", "DESCRIPTION"], &rows)?;
        for failed in &listing.failed {
            let (id, error) = (&failed.extension, &failed.error);
            output.print_note(format!("`{id}` did not list its tools: {error}"));
        }
    }
    Ok(if listing.failed.is_empty() { exit::OK } else { exit::FINDINGS })
}

fn call(session: &CliContext, name: &str, arguments: &str) -> CommandResult {
    let arguments = text_or_stdin(arguments)?;
    let context = CallContext {
        session_id: format!("operator-{}", std::process::id()),
        turn_id: "tool-call".to_owned(),
        origin: CallOrigin::Operator,
        ..CallContext::default()
    };
    let reply: ToolOutput = request_from_kernel(
        session,
        ControlRequest::Invoke { context, tool: name.to_owned(), arguments },
    )?;
    if session.output.json {
        let structured: Value = match &reply.structured {
            Some(raw) => serde_json::from_str(raw.get()).map_err(std::io::Error::from)?,
            None => Value::Null,
        };
        session.output.print_json(&json!({
            "tool": name,
            "is_error": reply.is_error,
            "text": reply.text,
            "structured": structured,
        }))?;
    } else {
        session.output.print_text(&reply.text)?;
    }
    Ok(if reply.is_error { exit::FINDINGS } else { exit::OK })
}
