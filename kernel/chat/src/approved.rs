//! The check of tools named by `--approve`: at least one agent must be able to call each of them.

use std::collections::BTreeSet;

use futures::future::LocalBoxFuture;
use serde_json::value::RawValue;
use skillhost_control::{AgentSummary, ControlRequest, ToolListing};
use skillhost_home::suggest_similar;
use skillhost_terminal::{CliError, display_safe, parse_answer};

/// A function that sends a request to a kernel.
pub(crate) type KernelRequests<'a> =
    dyn Fn(ControlRequest) -> LocalBoxFuture<'a, Result<Box<RawValue>, CliError>> + 'a;

/// Rejects names of unknown tools. `ask` sends a request to the kernel.
///
/// # Errors
/// A tool is unknown, or the kernel did not answer.
pub async fn check_approved(approved: &[String], ask: &KernelRequests<'_>) -> Result<(), CliError> {
    if approved.is_empty() {
        return Ok(());
    }
    let agents: Vec<AgentSummary> = parse_answer(&ask(ControlRequest::Agents).await?)?;
    let agents = agents.into_iter().map(|agent| Some(agent.id.to_string()));
    let mut known = BTreeSet::new();
    for agent in std::iter::once(None).chain(agents) {
        let listing: ToolListing = parse_answer(&ask(ControlRequest::Tools { agent }).await?)?;
        known.extend(listing.tools.into_iter().map(|tool| tool.spec.name));
    }
    let Some(name) = approved.iter().find(|name| !known.contains(*name)) else { return Ok(()) };
    let error = CliError::usage(format!("--approve: tool `{}` not found", display_safe(name)));
    let names = suggest_similar(name, known.iter().map(String::as_str));
    let error = match names.as_slice() {
        [] => error,
        names => error.with_hint(format!("did you mean {}?", names.join(", "))),
    };
    Err(error.with_hint("see: skillhost tool list"))
}
