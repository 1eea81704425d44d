//! `skillhost agent`: agents and the layers of their instructions.

use serde::Serialize;
use serde_json::{Value, json};
use skillhost_kernel::{Agent, AgentProblem, Layer, LayerKind};

use crate::cli::AgentCommand;
use crate::exit;
use crate::output::{BOLD, DIM, Outcome, RED, show};
use crate::session::Session;

#[derive(Serialize)]
struct AgentRow {
    id: String,
    name: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<AgentProblem>,
    uses_skills: Vec<String>,
    uses_tools: Vec<String>,
    tokens: u32,
}

impl AgentRow {
    fn of(agent: &Agent) -> Self {
        let resolved = agent.resolved();
        let settings = agent.settings();
        Self {
            id: agent.manifest.id.to_string(),
            name: agent.manifest.name.clone(),
            state: if resolved.problem.is_some() { "error" } else { "ready" },
            problem: resolved.problem.clone(),
            uses_skills: settings.uses_skills.iter().map(|s| s.value.clone()).collect(),
            uses_tools: settings.uses_tools.iter().map(|t| t.value.clone()).collect(),
            tokens: resolved.layers.iter().map(|layer| layer.tokens).sum(),
        }
    }
}

pub(super) fn agent(session: &Session, command: &AgentCommand) -> Outcome {
    match command {
        AgentCommand::List => list(session),
        AgentCommand::Show { id } => show_agent(session, id),
    }
}

fn list(session: &Session) -> Outcome {
    let rows = session.with_kernel(async |kernel| {
        Ok(kernel.agents().iter().map(|agent| AgentRow::of(agent)).collect::<Vec<_>>())
    })?;
    let output = session.output;
    if output.json {
        output.object(&json!({ "agents": rows }))?;
        return Ok(exit::OK);
    }
    let cells: Vec<_> = rows
        .iter()
        .map(|row| {
            let skills = row.uses_skills.join(", ");
            vec![row.id.clone(), row.state.into(), row.tokens.to_string(), skills, row.name.clone()]
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
    let (agent, tools) = session.with_kernel(async |kernel| {
        let agent = kernel.agent(id).await?;
        let (tools, _) = kernel.tools(Some(id)).await?;
        Ok((agent, tools.into_iter().map(|tool| tool.spec.name).collect::<Vec<_>>()))
    })?;
    let (row, resolved) = (AgentRow::of(&agent), agent.resolved());
    let output = session.output;
    let code = if resolved.problem.is_some() { exit::FINDINGS } else { exit::OK };
    if output.json {
        let mut object = serde_json::to_value(&row).map_err(std::io::Error::from)?;
        if let Value::Object(fields) = &mut object {
            fields.insert("manifest".into(), agent.path.display().to_string().into());
            fields.insert("layers".into(), json!(resolved.layers));
            fields.insert("tools".into(), json!(tools));
            fields.insert("model".into(), json!(agent.settings().model));
            fields.insert("catalog".into(), json!(agent.settings().catalog));
            fields.insert("limits".into(), json!(agent.settings().limits));
        }
        output.object(&object)?;
        return Ok(code);
    }
    output.line(format!("{BOLD}{}{BOLD:#}  {}", row.id, show(&row.name)))?;
    output.line(format!("manifest  {}", agent.path.display()))?;
    output
        .line(format!("model     {}", agent.settings().model.as_deref().unwrap_or("(default)")))?;
    let tools = if tools.is_empty() { "(none)".to_owned() } else { tools.join(", ") };
    output.line(format!("tools     {tools}"))?;
    if let Some(problem) = &resolved.problem {
        output.line(format!("{RED}error{RED:#}     {}", show(&problem.reason)))?;
        output.line(format!("hint      {}", show(&problem.hint)))?;
        return Ok(code);
    }
    let tokens: u32 = resolved.layers.iter().map(|layer| layer.tokens).sum();
    output.line(format!("layers    {}, approx. {tokens} tokens", resolved.layers.len()))?;
    for (number, layer) in resolved.layers.iter().enumerate() {
        output.line("")?;
        output.line(heading(number + 1, layer))?;
        output.line(show(layer.text.trim_end()))?;
    }
    Ok(code)
}

fn heading(number: usize, layer: &Layer) -> String {
    let kind = match layer.kind {
        LayerKind::Prompt => "prompt".to_owned(),
        LayerKind::Skill => format!("skill {}", layer.skill_id.as_deref().unwrap_or_default()),
        LayerKind::Inline => "instructions".to_owned(),
    };
    let digest = layer.digest.get(..12).unwrap_or(&layer.digest);
    format!(
        "{BOLD}{number}. {}{BOLD:#} {DIM}{} · sha256 {digest} · approx. {} tokens{DIM:#}",
        show(&kind),
        show(&layer.source),
        layer.tokens
    )
}
