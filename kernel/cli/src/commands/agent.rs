//! `skillhost agent`: agents and the layers of their instructions.

use serde_json::json;
use skillhost_control::{
    AgentDetails, AgentStatus, AgentSummary, ControlRequest, InstructionLayer, InstructionLayerKind,
};
use skillhost_terminal::{
    BOLD, CliContext, CommandResult, DIM, RED, TableColumn, display_safe, exit,
};

use crate::cli::AgentCommand;
use crate::kernel_session::request_from_kernel;

pub(super) fn cmd_agent(session: &CliContext, command: &AgentCommand) -> CommandResult {
    match command {
        AgentCommand::List => list(session),
        AgentCommand::Show { id } => show_agent(session, id),
    }
}

fn list(session: &CliContext) -> CommandResult {
    let rows: Vec<AgentSummary> = request_from_kernel(session, ControlRequest::Agents)?;
    let output = session.output;
    if output.json {
        output.print_json(&json!({ "agents": rows }))?;
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
    let columns = [
        TableColumn::fixed("AGENT"),
        TableColumn::fixed("STATE"),
        TableColumn::fixed("TOKENS").with_rank(1),
        TableColumn::text("SKILLS"),
        TableColumn::text("NAME").with_rank(2),
    ];
    output.print_table(&columns, &cells)?;
    for row in &rows {
        if let Some(problem) = &row.problem {
            output.print_note(format!("{}: {} ({})", row.id, problem.reason, problem.hint));
        }
    }
    Ok(exit::OK)
}

fn show_agent(session: &CliContext, id: &str) -> CommandResult {
    let agent: AgentDetails =
        request_from_kernel(session, ControlRequest::Agent { id: id.to_owned() })?;
    let AgentDetails { summary, tools, layers, .. } = &agent;
    let output = session.output;
    let code = if summary.problem.is_some() { exit::FINDINGS } else { exit::OK };
    if output.json {
        output.print_json(&agent)?;
        return Ok(code);
    }
    output.print_line(format!("{BOLD}{}{BOLD:#}  {}", summary.id, display_safe(&summary.name)))?;
    output.print_line(format!("manifest  {}", agent.manifest.display()))?;
    output.print_line(format!("model     {}", agent.model.as_deref().unwrap_or("(default)")))?;
    let tools = if tools.is_empty() { "(none)".to_owned() } else { tools.join(", ") };
    output.print_line(format!("tools     {tools}"))?;
    if let Some(problem) = &summary.problem {
        output.print_line(format!("{RED}error{RED:#}     {}", display_safe(&problem.reason)))?;
        output.print_line(format!("hint      {}", display_safe(&problem.hint)))?;
        return Ok(code);
    }
    output.print_line(format!("layers    {}, approx. {} tokens", layers.len(), summary.tokens))?;
    for (number, layer) in layers.iter().enumerate() {
        output.print_line("")?;
        output.print_line(heading(number + 1, layer))?;
        output.print_line(display_safe(layer.text.trim_end()))?;
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
        display_safe(&kind),
        display_safe(&layer.source),
        layer.tokens
    )
}
