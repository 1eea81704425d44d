//! `skillhost chat`: a conversation, line by line.

mod command;
mod complete;
mod input;

use serde::Deserialize;
use serde_json::json;
use skillhost_kernel::control::{AgentSummary, ControlRequest, ToolListing};
use skillhost_kernel::{CallContext, CallOrigin, ToolOutput};

use super::talk::{self, InThread, Talk};
use crate::cli::ChatArgs;
use crate::error::CliError;
use crate::exit;
use crate::output::{DIM, Outcome, show};
use crate::session::Session;
use command::{HELP, Said};
use complete::Names;
use input::{Input, Line};

/// The tool that lists skills; a home without the registry has no `/skills`.
const LIST_SKILLS: &str = "list_skills";

pub(super) fn chat(session: &Session, args: &ChatArgs) -> Outcome {
    // Before anything listens for Ctrl-C: the line editor takes the signal for itself.
    let mut input = Input::open(session)?;
    talk::with(session, &args.talk, async |talk| {
        greet(talk);
        if args.talk.thread.is_some() {
            owed(talk).await?;
        }
        // A script wants to know how its last turn went; a person has seen it.
        let mut code = exit::OK;
        loop {
            if input.is_terminal() {
                input.offer(names(talk).await);
            }
            match input.next(&mut talk.interrupted).await? {
                Line::End => break,
                Line::Interrupted => {
                    code = exit::INTERRUPTED;
                    break;
                }
                Line::Text(line) => match follow(talk, &line).await {
                    Ok(Next::Quit) => break,
                    Ok(Next::Prompt) => code = exit::OK,
                    Err(error) => {
                        session.output.error(&error);
                        code = if input.is_terminal() { exit::OK } else { error.code() };
                    }
                },
            }
        }
        input.close(session);
        Ok(code)
    })
}

/// What comes after a line.
enum Next {
    Prompt,
    Quit,
}

/// The answer to what was said before this chat began, if one is owed.
async fn owed(talk: &mut Talk<'_>) -> Result<(), CliError> {
    match talk.owed().await {
        Ok(Some(outcome)) if talk.session.output.json => {
            talk.session.output.object(&talk.json(&outcome)?)
        }
        Ok(_) => Ok(()),
        // The chat goes on without it.
        Err(error) => {
            talk.session.output.error(&error);
            Ok(())
        }
    }
}

fn greet(talk: &Talk<'_>) {
    let (agent, id) = (show(talk.agent()), talk.thread());
    talk.session.output.aside(format!(
        "{DIM}talking to {agent} in thread {id}; /help says what else there is{DIM:#}"
    ));
}

/// Does what a line says.
async fn follow(talk: &mut Talk<'_>, line: &str) -> Result<Next, CliError> {
    let output = talk.session.output;
    match command::parse(line)? {
        Said::Nothing => {}
        Said::Text(text) => turn(talk, text).await?,
        Said::Help => output.aside(HELP),
        Said::Quit => return Ok(Next::Quit),
        Said::Skills => skills(talk).await?,
        Said::Skill { id, text } => {
            let skill = talk.activate(id).await?;
            let digest = skill.digest.get(..12).unwrap_or(&skill.digest);
            let (id, digest) = (show(&skill.skill_id), show(digest));
            output.aside(format!("{DIM}skill {id} is active, sha256 {digest}{DIM:#}"));
            if let Some(text) = text {
                turn(talk, text).await?;
            }
        }
        Said::Agents => agents(talk).await?,
        Said::Agent(id) => {
            talk.switch(id).await?;
            greet(talk);
        }
        Said::Reset => {
            talk.reset()?;
            output.aside(format!("{DIM}the thread is empty again{DIM:#}"));
        }
        Said::Approve(tool) => {
            talk.person.approve(tool);
            let tools: Vec<_> = talk.person.approved().iter().map(|tool| show(tool)).collect();
            output.aside(format!("{DIM}called without asking: {}{DIM:#}", tools.join(", ")));
        }
        Said::Thread => thread(talk)?,
    }
    Ok(Next::Prompt)
}

async fn turn(talk: &mut Talk<'_>, text: &str) -> Result<(), CliError> {
    let outcome = talk.turn(text.to_owned()).await?;
    if talk.session.output.json {
        talk.session.output.object(&talk.json(&outcome)?)?;
    }
    Ok(())
}

async fn skills(talk: &Talk<'_>) -> Result<(), CliError> {
    let context = CallContext {
        agent_id: talk.agent().to_owned(),
        session_id: talk.thread().to_owned(),
        origin: CallOrigin::Operator,
        ..CallContext::default()
    };
    let answer: ToolOutput = talk.answer(list_skills(context)).await?;
    let active: Vec<_> = talk.in_thread()?.skills.into_iter().map(|skill| skill.skill).collect();
    let output = talk.session.output;
    if output.json {
        let listed = answer.structured.as_ref().map(|value| value.get());
        let listed = listed.and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
        return output.object(&json!({ "skills": listed, "active": active }));
    }
    output.line(show(answer.text.trim_end()))?;
    for skill in active {
        output.line(format!("active: {}", show(&skill.skill_id)))?;
    }
    Ok(())
}

fn list_skills(context: CallContext) -> ControlRequest {
    ControlRequest::Invoke { context, tool: LIST_SKILLS.to_owned(), arguments: "{}".to_owned() }
}

async fn agents(talk: &Talk<'_>) -> Result<(), CliError> {
    let agents: Vec<AgentSummary> = talk.answer(ControlRequest::Agents).await?;
    let output = talk.session.output;
    if output.json {
        return output.object(&json!({ "agents": agents }));
    }
    let rows: Vec<_> = agents
        .iter()
        .map(|agent| {
            let here = if agent.id.as_str() == talk.agent() { "*" } else { "" };
            let problem = agent.problem.as_ref().map(|problem| problem.reason.clone());
            vec![here.to_owned(), agent.id.to_string(), problem.unwrap_or(agent.name.clone())]
        })
        .collect();
    output.table(&["", "AGENT", "NAME"], &rows)
}

fn thread(talk: &Talk<'_>) -> Result<(), CliError> {
    let InThread { messages, skills } = talk.in_thread()?;
    let output = talk.session.output;
    if output.json {
        return output.object(&json!({
            "thread": talk.thread(),
            "agent": talk.agent(),
            "messages": messages,
            "skills": skills,
        }));
    }
    output.line(format!("thread    {}", talk.thread()))?;
    output.line(format!("agent     {}", show(talk.agent())))?;
    output.line(format!("messages  {messages}"))?;
    for skill in skills {
        output.line(format!("skill     {}", show(&skill.skill.skill_id)))?;
    }
    Ok(())
}

/// What Tab offers. What cannot be asked for now is not offered.
async fn names(talk: &Talk<'_>) -> Names {
    #[derive(Deserialize)]
    struct Listed {
        skills: Vec<Skill>,
    }
    #[derive(Deserialize)]
    struct Skill {
        id: String,
    }
    let context = CallContext { origin: CallOrigin::Operator, ..CallContext::default() };
    let listed: Option<ToolOutput> = talk.answer(list_skills(context)).await.ok();
    let listed = listed.and_then(|answer| answer.structured);
    let listed = listed.and_then(|value| serde_json::from_str::<Listed>(value.get()).ok());
    let listing = talk.answer::<ToolListing>(ControlRequest::Tools { agent: None }).await;
    let tools = listing.map(|listing| listing.tools).unwrap_or_default();
    let agents: Vec<AgentSummary> = talk.answer(ControlRequest::Agents).await.unwrap_or_default();
    Names {
        skills: listed.into_iter().flat_map(|l| l.skills).map(|skill| skill.id).collect(),
        agents: agents.iter().map(|agent| agent.id.to_string()).collect(),
        tools: tools.into_iter().map(|tool| tool.spec.name).collect(),
    }
}
