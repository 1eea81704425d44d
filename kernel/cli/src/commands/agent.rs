//! `skillhost agent`: agents and the layers of their instructions.

use serde_json::json;
use skillhost_kernel::control::{AgentDetails, AgentStatus, AgentSummary, ControlRequest};
use skillhost_kernel::{InstructionLayer, InstructionLayerKind};

use crate::cli::AgentCommand;
use crate::exit;
use crate::output::{BOLD, DIM, Outcome, RED, show};
use crate::session::Session;

pub(super) fn agent(session: &Session, command: &AgentCommand) -> Outcome {
    match command {
        AgentCommand::List => list(session),
        AgentCommand::Show { id } => show_agent(session, id),
    }
}

fn list(session: &Session) -> Outcome {
    let rows: Vec<AgentSummary> = session.answer(ControlRequest::Agents)?;
    let output = session.output;
    if output.json {
        output.object(&json!({ "agents": rows }))?;
        return Ok(exit::OK);
    }
    let cells: Vec<_> = rows
        .iter()
        .map(|row| {
            let skills = row.uses_skills.join(", ");
            let state = match row.state {
                AgentStatus::Ready => "ready",
                AgentStatus::Error => "error",
            };
            let (id, tokens) = (row.id.to_string(), row.tokens.to_string());
            vec![id, state.to_owned(), tokens, skills, row.name.clone()]
        })
        .collect();
    output.table(&["AGENT", "STATE", "TOKENS", "SKILLS", "NAME"], &cells)?;
    for row in &rows {
        if let Some(problem) = &row.problem {
            output.note(format!("{}: {} ({})", row.id, problem.reason, problem.hint));
        }
    }
    Ok(exit::OK)
}

fn show_agent(session: &Session, id: &str) -> Outcome {
    let agent: AgentDetails = session.answer(ControlRequest::Agent { id: id.to_owned() })?;
    let AgentDetails { summary, tools, layers, .. } = &agent;
    let output = session.output;
    let code = if summary.problem.is_some() { exit::FINDINGS } else { exit::OK };
    if output.json {
        output.object(&agent)?;
        return Ok(code);
    }
    output.line(format!("{BOLD}{}{BOLD:#}  {}", summary.id, show(&summary.name)))?;
    output.line(format!("manifest  {}", agent.manifest.display()))?;
    output.line(format!("model     {}", agent.model.as_deref().unwrap_or("(default)")))?;
    let tools = if tools.is_empty() { "(none)".to_owned() } else { tools.join(", ") };
    output.line(format!("tools     {tools}"))?;
    if let Some(problem) = &summary.problem {
        output.line(format!("{RED}error{RED:#}     {}", show(&problem.reason)))?;
        output.line(format!("hint      {}", show(&problem.hint)))?;
        return Ok(code);
    }
    output.line(format!("layers    {}, approx. {} tokens", layers.len(), summary.tokens))?;
    for (number, layer) in layers.iter().enumerate() {
        output.line("")?;
        output.line(heading(number + 1, layer))?;
        output.line(show(layer.text.trim_end()))?;
    }
    Ok(code)
}

fn heading(number: usize, layer: &InstructionLayer) -> String {
    let kind = match layer.kind {
        InstructionLayerKind::Prompt => "prompt".to_owned(),
        InstructionLayerKind::Skill => {
            format!("skill {}", layer.skill_id.as_deref().unwrap_or_default())
        }
        InstructionLayerKind::Inline => "instructions".to_owned(),
    };
    let digest = layer.digest.get(..12).unwrap_or(&layer.digest);
    format!(
        "{BOLD}{number}. {}{BOLD:#} {DIM}{} · sha256 {digest} · approx. {} tokens{DIM:#}",
        show(&kind),
        show(&layer.source),
        layer.tokens
    )
}
