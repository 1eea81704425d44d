//! `skillhost tool`: what extensions offer, called by the operator.

use serde_json::{Value, json};
use skillhost_kernel::control::{ControlRequest, ToolListing};
use skillhost_kernel::{CallContext, CallOrigin, ToolOutput};

use super::text_or_stdin;
use crate::cli::ToolCommand;
use crate::exit;
use crate::output::{Outcome, show};
use crate::session::Session;

pub(super) fn tool(session: &Session, command: &ToolCommand) -> Outcome {
    match command {
        ToolCommand::List { agent } => list(session, agent.as_deref()),
        ToolCommand::Call { name, arguments } => call(session, name, arguments),
    }
}

fn list(session: &Session, agent: Option<&str>) -> Outcome {
    let listing: ToolListing =
        session.answer(ControlRequest::Tools { agent: agent.map(str::to_owned) })?;
    let output = session.output;
    if output.json {
        output.object(&listing)?;
    } else {
        let rows: Vec<_> = listing
            .tools
            .iter()
            .map(|tool| {
                let summary = tool.spec.description.lines().next().unwrap_or_default();
                vec![tool.spec.name.clone(), tool.extension.to_string(), show(summary)]
            })
            .collect();
        output.table(&["TOOL", "EXTENSION", "DESCRIPTION"], &rows)?;
        for failed in &listing.failed {
            let (id, error) = (&failed.extension, &failed.error);
            output.note(format!("`{id}` did not list its tools: {error}"));
        }
    }
    Ok(if listing.failed.is_empty() { exit::OK } else { exit::FINDINGS })
}

fn call(session: &Session, name: &str, arguments: &str) -> Outcome {
    let arguments = text_or_stdin(arguments)?;
    let context = CallContext {
        session_id: format!("operator-{}", std::process::id()),
        turn_id: "tool-call".to_owned(),
        origin: CallOrigin::Operator,
        ..CallContext::default()
    };
    let reply: ToolOutput =
        session.answer(ControlRequest::Invoke { context, tool: name.to_owned(), arguments })?;
    if session.output.json {
        let structured: Value = match &reply.structured {
            Some(raw) => serde_json::from_str(raw.get()).map_err(std::io::Error::from)?,
            None => Value::Null,
        };
        session.output.object(&json!({
            "tool": name,
            "is_error": reply.is_error,
            "text": reply.text,
            "structured": structured,
        }))?;
    } else {
        session.output.verbatim(&reply.text)?;
    }
    Ok(if reply.is_error { exit::FINDINGS } else { exit::OK })
}
