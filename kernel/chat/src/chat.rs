//! The command `chat`: a thread, line by line.

mod command;
mod complete;
mod input;

use serde::Deserialize;
use serde_json::json;
use skillhost_control::{AgentDetails, AgentSummary, ControlRequest, ToolListing};
use skillhost_conversation::{ThreadStore, ThreadSummary};
use skillhost_home::ModelsSettings;
use skillhost_payload::{
    ApprovalPolicy, CallContext, CallOrigin, OperatorCommand, ToolOutput, format_minute,
};
use skillhost_terminal::{
    CliContext, CliError, CommandResult, DIM, TableColumn, display_safe, exit,
};

use crate::arguments::ChatArgs;
use crate::connection::{KernelBoot, ThreadOverview};
use crate::screen::wrap_for_stderr;
use crate::session::{ChatSession, with_chat_session};
use command::{ChatInput, HELP};
use complete::CompletionNames;
use input::{InputLine, LineInput};

/// The tool that lists skills; a home without the registry has no `/skills`.
const LIST_SKILLS: &str = "list_skills";

/// The argument of `/model` that returns to the model of the settings or of the agent.
const DEFAULT_MODEL: &str = "default";

/// The number of threads that `/resume` lists and completes.
const MAX_THREADS: usize = 20;

/// The length of a thread's title in a list, in characters.
const MAX_TITLE_CHARS: usize = 60;

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
            if talk.is_resumed {
                talk.print_recap()?;
                print_pending_reply(talk).await?;
            }
            let ended = read_lines(talk, &mut input).await;
            let id = talk.thread().to_owned();
            let closed = talk.close_thread().await;
            if matches!(closed, Ok(false)) {
                print_resume_command(talk, &id);
            }
            input.close(session);
            let code = ended?;
            closed.map(|_| code)
        })
    })
}

/// The exit code of a chat whose terminal was closed: 128 and the number of the signal.
const HUNG_UP: u8 = 129;

/// Reads and executes lines until the input ends; returns the exit code.
async fn read_lines(talk: &mut ChatSession<'_>, input: &mut LineInput) -> CommandResult {
    // A script needs the code of its last turn; on a terminal the user has seen it.
    let mut code = exit::OK;
    loop {
        // The editing of an approval that has timed out may still use the terminal.
        talk.person.wait_for_terminal().await;
        if input.is_terminal() {
            input.set_completions(completion_names(talk).await);
        }
        let line = match input.next(&mut talk.interrupted).await? {
            InputLine::End => return Ok(code),
            InputLine::Interrupted if talk.interrupted.is_hung_up() => return Ok(HUNG_UP),
            InputLine::Interrupted => return Ok(exit::INTERRUPTED),
            InputLine::Text(line) => line,
        };
        match run_line(talk, &line).await {
            Ok(ChatAction::Quit) => return Ok(code),
            Ok(ChatAction::Prompt) => code = exit::OK,
            Err(error) => {
                talk.session.output.print_error(&error);
                code = if input.is_terminal() { exit::OK } else { error.code() };
            }
        }
        if talk.interrupted.is_hung_up() {
            return Ok(HUNG_UP);
        }
    }
}

/// Prints the command that resumes a thread.
fn print_resume_command(talk: &ChatSession<'_>, id: &str) {
    let command = talk.session.spell_command(OperatorCommand::ResumeThread { id });
    // The command is copied, so it is on one line.
    let line = format!("resume this thread: {command}");
    let line = match wrap_for_stderr(&line).contains('\n') {
        true => format!("resume this thread:\n{command}"),
        false => line,
    };
    talk.session.output.print_progress(format!("{DIM}{line}{DIM:#}"));
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
    let line = format!("talking to {agent} in thread {id}; /help lists the commands");
    talk.session.output.print_progress(format!("{DIM}{}{DIM:#}", wrap_for_stderr(&line)));
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
        ChatInput::Model(name) => model(talk, name).await?,
        ChatInput::Tools => tools(talk).await?,
        ChatInput::Cost => cost(talk)?,
        ChatInput::Compact => compact(talk).await?,
        ChatInput::Clear => {
            let (agent, id) = (talk.agent().to_owned(), talk.thread().to_owned());
            let is_used = talk.thread_overview()?.messages > 0;
            talk.switch_agent(&agent).await?;
            if is_used {
                print_resume_command(talk, &id);
            }
            greet(talk);
        }
        ChatInput::Resume(None) => list_threads(talk)?,
        ChatInput::Resume(Some(named)) => {
            let id = talk.threads.resolve(named)?;
            if id != talk.thread() {
                talk.switch_thread(&id).await?;
            }
            greet(talk);
            talk.print_recap()?;
            print_pending_reply(talk).await?;
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
    let context = Box::new(context);
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
    let columns = [TableColumn::fixed(""), TableColumn::fixed("AGENT"), TableColumn::text("NAME")];
    output.print_table(&columns, &rows)
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

/// Returns the names and aliases of the models in the settings.
fn model_names(settings: &ModelsSettings) -> Vec<String> {
    let named = settings.known.keys().chain(settings.agents.values());
    let mut names: Vec<_> = named.chain(settings.aliases.keys()).collect();
    names.push(&settings.default);
    names.sort();
    names.dedup();
    names.into_iter().cloned().collect()
}

/// Sets the model of the next turns, or lists the models.
async fn model(talk: &mut ChatSession<'_>, name: Option<&str>) -> Result<(), CliError> {
    let output = talk.session.output;
    let settings = talk.session.settings(&talk.home)?.settings.models;
    match name {
        Some(DEFAULT_MODEL) => talk.model = None,
        Some(name) => {
            let checked = settings.resolve_name(name);
            checked.map_err(|error| CliError::usage(error.to_string()))?;
            talk.model = Some(name.to_owned());
        }
        None => {}
    }
    let request = ControlRequest::Agent { id: talk.agent().to_owned() };
    let details: AgentDetails = talk.request(request).await?;
    let present = match &talk.model {
        Some(model) => model.clone(),
        None => settings.model_for(talk.agent(), details.model.as_deref()).to_owned(),
    };
    if name.is_some() {
        let model = display_safe(&present);
        output.print_progress(format!("{DIM}from now on with {model}{DIM:#}"));
        return Ok(());
    }
    let mut names = model_names(&settings);
    if !names.contains(&present) {
        names.push(present.clone());
    }
    if output.json {
        return output.print_json(&json!({ "model": present, "models": names }));
    }
    let rows: Vec<_> = names
        .into_iter()
        .map(|name| vec![if name == present { "*" } else { "" }.to_owned(), name])
        .collect();
    output.print_table(&[TableColumn::fixed(""), TableColumn::fixed("MODEL")], &rows)
}

async fn tools(talk: &ChatSession<'_>) -> Result<(), CliError> {
    let request = ControlRequest::Tools { agent: Some(talk.agent().to_owned()) };
    let listing: ToolListing = talk.request(request).await?;
    let output = talk.session.output;
    if output.json {
        return output.print_json(&listing);
    }
    let rows: Vec<_> = listing
        .tools
        .iter()
        .map(|tool| {
            let approval = match tool.spec.needs_approval {
                ApprovalPolicy::Never => "",
                ApprovalPolicy::UnlessGranted => "once",
                ApprovalPolicy::Always => "always",
            };
            let about = first_sentence(&tool.spec.description).to_owned();
            vec![tool.spec.name.clone(), tool.extension.to_string(), approval.to_owned(), about]
        })
        .collect();
    let columns = [
        TableColumn::fixed("TOOL"),
        TableColumn::fixed("EXTENSION").with_rank(1),
        TableColumn::text("APPROVAL"),
        TableColumn::text("DESCRIPTION"),
    ];
    output.print_table(&columns, &rows)?;
    for failed in &listing.failed {
        let (extension, error) = (&failed.extension, &failed.error.message);
        output.print_note(format!("the tools of {extension} are missing: {error}"));
    }
    Ok(())
}

/// Returns the first sentence of a description.
fn first_sentence(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    line.find(['.', ';']).map_or(line, |end| &line[..end])
}

fn cost(talk: &ChatSession<'_>) -> Result<(), CliError> {
    let output = talk.session.output;
    if output.json {
        return output.print_json(&talk.usage);
    }
    let lines = talk.usage.lines();
    if lines.is_empty() {
        output.print_progress(format!("{DIM}no model request in this chat yet{DIM:#}"));
    }
    lines.iter().try_for_each(|line| output.print_wrapped(&display_safe(line), 0))
}

async fn compact(talk: &mut ChatSession<'_>) -> Result<(), CliError> {
    let outcome = talk.compact().await?;
    let output = talk.session.output;
    if output.json {
        return output.print_json(&talk.to_json(&outcome)?);
    }
    output.print_progress(format!("{DIM}{}{DIM:#}", display_safe(&outcome.text)));
    Ok(())
}

/// Lists the threads that were changed last.
fn list_threads(talk: &ChatSession<'_>) -> Result<(), CliError> {
    let recent = recent_threads(&talk.threads)?;
    let output = talk.session.output;
    if output.json {
        return output.print_json(&json!({ "threads": recent }));
    }
    let rows: Vec<_> = recent
        .into_iter()
        .map(|thread| {
            let changed = format_minute(i64::try_from(thread.changed).unwrap_or(i64::MAX));
            let here = if thread.id == talk.thread() { "*" } else { "" };
            let title = thread.title.chars().take(MAX_TITLE_CHARS).collect();
            vec![here.to_owned(), thread.id, thread.agent, changed, title]
        })
        .collect();
    let columns = [
        TableColumn::fixed(""),
        TableColumn::fixed("THREAD"),
        TableColumn::fixed("AGENT").with_rank(2),
        TableColumn::fixed("CHANGED (UTC)").with_rank(1),
        TableColumn::text("TITLE"),
    ];
    output.print_table(&columns, &rows)
}

/// Returns the last threads that hold messages.
fn recent_threads(threads: &ThreadStore) -> Result<Vec<ThreadSummary>, CliError> {
    let recent = threads.recent()?.take(2 * MAX_THREADS);
    let usable = recent.filter(|thread| thread.problem.is_none() && thread.messages > 0);
    Ok(usable.take(MAX_THREADS).collect())
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
    let models = talk.session.settings(&talk.home).map(|loaded| loaded.settings.models);
    let threads = talk.threads.clone();
    CompletionNames {
        models: models.map(|models| model_names(&models)).unwrap_or_default(),
        threads: Some(Box::new(move || {
            let recent = recent_threads(&threads).unwrap_or_default();
            recent.into_iter().map(|thread| (thread.id, thread.title)).collect()
        })),
        sandbox: talk.home.sandbox_dir(),
        workspaces: talk.known_workspaces(),
        skills: listed.into_iter().flat_map(|l| l.skills).map(|skill| skill.id).collect(),
        agents: agents.iter().map(|agent| agent.id.to_string()).collect(),
        tools: tools.into_iter().map(|tool| tool.spec.name).collect(),
    }
}
