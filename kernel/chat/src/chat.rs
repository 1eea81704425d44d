//! The command `chat`: a thread, line by line.

mod command;
mod complete;
mod input;

use serde::Deserialize;
use serde_json::json;
use skillhost_control::{AgentSummary, ControlRequest, ToolListing};
use skillhost_payload::{CallContext, CallOrigin, ToolOutput};
use skillhost_terminal::{CliContext, CliError, CommandResult, DIM, display_safe, exit};

use crate::arguments::ChatArgs;
use crate::connection::{KernelBoot, ThreadOverview};
use crate::session::{ChatSession, with_chat_session};
use command::{ChatInput, HELP};
use complete::CompletionNames;
use input::{InputLine, LineInput};

/// The tool that lists skills; a home without the registry has no `/skills`.
const LIST_SKILLS: &str = "list_skills";

/// Runs `chat`: reads lines and sends them until the input ends.
///
/// # Errors
/// The home, the agent or the thread is not usable; errors of single messages are printed.
pub fn cmd_chat<'a>(
    session: &'a CliContext,
    args: &'a ChatArgs,
    boot: &KernelBoot<'a>,
) -> CommandResult {
    // Registered before the line editor, which installs its own handler for Ctrl-C.
    let mut input = LineInput::open(session)?;
    with_chat_session(session, &args.talk, boot, move |mut talk| {
        Box::pin(async move {
            let talk = &mut talk;
            greet(talk);
            if args.talk.thread.is_some() {
                print_pending_reply(talk).await?;
            }
            // A script needs the code of its last turn; on a terminal the user has seen it.
            let mut code = exit::OK;
            loop {
                if input.is_terminal() {
                    input.set_completions(completion_names(talk).await);
                }
                match input.next(&mut talk.interrupted).await? {
                    InputLine::End => break,
                    InputLine::Interrupted => {
                        code = exit::INTERRUPTED;
                        break;
                    }
                    InputLine::Text(line) => match run_line(talk, &line).await {
                        Ok(ChatAction::Quit) => break,
                        Ok(ChatAction::Prompt) => code = exit::OK,
                        Err(error) => {
                            session.output.print_error(&error);
                            code = if input.is_terminal() { exit::OK } else { error.code() };
                        }
                    },
                }
            }
            input.close(session);
            Ok(code)
        })
    })
}

/// The next step of the chat after a line.
enum ChatAction {
    Prompt,
    Quit,
}

/// Prints the pending reply to messages sent before this chat, if there is one.
async fn print_pending_reply(talk: &mut ChatSession<'_>) -> Result<(), CliError> {
    match talk.wait_for_pending_reply().await {
        Ok(Some(outcome)) if talk.session.output.json => {
            talk.session.output.print_json(&talk.to_json(&outcome)?)
        }
        Ok(_) => Ok(()),
        // A failed reply does not end the chat.
        Err(error) => {
            talk.session.output.print_error(&error);
            Ok(())
        }
    }
}

fn greet(talk: &ChatSession<'_>) {
    let (agent, id) = (display_safe(talk.agent()), talk.thread());
    talk.session.output.print_progress(format!(
        "{DIM}talking to {agent} in thread {id}; /help lists the commands{DIM:#}"
    ));
}

/// Executes one line of input.
async fn run_line(talk: &mut ChatSession<'_>, line: &str) -> Result<ChatAction, CliError> {
    let output = talk.session.output;
    match command::parse(line)? {
        ChatInput::Nothing => {}
        ChatInput::Text(text) => send_text(talk, text).await?,
        ChatInput::Help => output.print_progress(HELP),
        ChatInput::Quit => return Ok(ChatAction::Quit),
        ChatInput::Skills => skills(talk).await?,
        ChatInput::Skill { id, text } => {
            let skill = talk.activate_skill(id).await?;
            let digest = skill.digest.get(..12).unwrap_or(&skill.digest);
            let (id, digest) = (display_safe(&skill.skill_id), display_safe(digest));
            output.print_progress(format!("{DIM}skill {id} is active, sha256 {digest}{DIM:#}"));
            if let Some(text) = text {
                send_text(talk, text).await?;
            }
        }
        ChatInput::Agents => agents(talk).await?,
        ChatInput::Agent(id) => {
            talk.switch_agent(id).await?;
            greet(talk);
        }
        ChatInput::Reset => {
            talk.reset().await?;
            output.print_progress(format!("{DIM}the thread is empty again{DIM:#}"));
        }
        ChatInput::Approve(tool) => {
            talk.person.approve_tool(tool);
            let tools: Vec<_> =
                talk.person.approved_tools().iter().map(|tool| display_safe(tool)).collect();
            output
                .print_progress(format!("{DIM}called without asking: {}{DIM:#}", tools.join(", ")));
        }
        ChatInput::Thread => thread(talk)?,
    }
    Ok(ChatAction::Prompt)
}

async fn send_text(talk: &mut ChatSession<'_>, text: &str) -> Result<(), CliError> {
    let outcome = talk.send_message(text.to_owned()).await?;
    if talk.session.output.json {
        talk.session.output.print_json(&talk.to_json(&outcome)?)?;
    }
    Ok(())
}

async fn skills(talk: &ChatSession<'_>) -> Result<(), CliError> {
    let context = CallContext {
        agent_id: talk.agent().to_owned(),
        session_id: talk.thread().to_owned(),
        origin: CallOrigin::Operator,
        ..CallContext::default()
    };
    let answer: ToolOutput = talk.request(list_skills(context)).await?;
    let active: Vec<_> =
        talk.thread_overview()?.skills.into_iter().map(|skill| skill.skill).collect();
    let output = talk.session.output;
    if output.json {
        let listed = answer.structured.as_ref().map(|value| value.get());
        let listed = listed.and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
        return output.print_json(&json!({ "skills": listed, "active": active }));
    }
    output.print_line(display_safe(answer.text.trim_end()))?;
    for skill in active {
        output.print_line(format!("active: {}", display_safe(&skill.skill_id)))?;
    }
    Ok(())
}

fn list_skills(context: CallContext) -> ControlRequest {
    ControlRequest::Invoke { context, tool: LIST_SKILLS.to_owned(), arguments: "{}".to_owned() }
}

async fn agents(talk: &ChatSession<'_>) -> Result<(), CliError> {
    let agents: Vec<AgentSummary> = talk.request(ControlRequest::Agents).await?;
    let output = talk.session.output;
    if output.json {
        return output.print_json(&json!({ "agents": agents }));
    }
    let rows: Vec<_> = agents
        .iter()
        .map(|agent| {
            let here = if agent.id.as_str() == talk.agent() { "*" } else { "" };
            let problem = agent.problem.as_ref().map(|problem| problem.reason.clone());
            vec![here.to_owned(), agent.id.to_string(), problem.unwrap_or(agent.name.clone())]
        })
        .collect();
    output.print_table(&["", "AGENT", "NAME"], &rows)
}

fn thread(talk: &ChatSession<'_>) -> Result<(), CliError> {
    let ThreadOverview { messages, skills } = talk.thread_overview()?;
    let output = talk.session.output;
    if output.json {
        return output.print_json(&json!({
            "thread": talk.thread(),
            "agent": talk.agent(),
            "messages": messages,
            "skills": skills,
        }));
    }
    output.print_line(format!("thread    {}", talk.thread()))?;
    output.print_line(format!("agent     {}", display_safe(talk.agent())))?;
    output.print_line(format!("messages  {messages}"))?;
    for skill in skills {
        output.print_line(format!("skill     {}", display_safe(&skill.skill.skill_id)))?;
    }
    Ok(())
}

/// Returns the names that Tab completes; names that cannot be fetched now are left out.
async fn completion_names(talk: &ChatSession<'_>) -> CompletionNames {
    #[derive(Deserialize)]
    struct SkillListOutput {
        skills: Vec<ListedSkill>,
    }
    #[derive(Deserialize)]
    struct ListedSkill {
        id: String,
    }
    let context = CallContext { origin: CallOrigin::Operator, ..CallContext::default() };
    let listed: Option<ToolOutput> = talk.request(list_skills(context)).await.ok();
    let listed = listed.and_then(|answer| answer.structured);
    let listed = listed.and_then(|value| serde_json::from_str::<SkillListOutput>(value.get()).ok());
    let listing = talk.request::<ToolListing>(ControlRequest::Tools { agent: None }).await;
    let tools = listing.map(|listing| listing.tools).unwrap_or_default();
    let agents: Vec<AgentSummary> = talk.request(ControlRequest::Agents).await.unwrap_or_default();
    CompletionNames {
        skills: listed.into_iter().flat_map(|l| l.skills).map(|skill| skill.id).collect(),
        agents: agents.iter().map(|agent| agent.id.to_string()).collect(),
        tools: tools.into_iter().map(|tool| tool.spec.name).collect(),
    }
}
