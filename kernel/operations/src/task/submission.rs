//! `skillhost task submit`.

use std::time::Duration;

use serde_json::{Value, json};
use skillhost_control::{ControlRequest, KernelLock, SupervisorLock, ToolListing};
use skillhost_conversation::ThreadStore;
use skillhost_home::{Home, discover_manifests};
use skillhost_payload::{OperatorCommand, PreparedTask};
use skillhost_tasks::{
    NewTask, SubmitOutcome, Task, TaskKind, TaskOutcome, TaskQueue, TaskState, TaskSubmitter,
};
use skillhost_terminal::{CliContext, CliError, CommandResult, display_safe, exit, text_or_stdin};
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments::{EndNoticeArg, TaskSubmitArgs};
use crate::task_store::{find_task, to_cli_error};
use crate::task_text::{describe_state, one_line};

/// The namespace of the keys that operators choose.
const SCOPE: &str = "operator";
/// The interval at which `--wait` looks at the task.
const WAIT_INTERVAL: Duration = Duration::from_millis(500);
/// The number of characters of a title that is taken from the text.
const MAX_TITLE_CHARS: usize = 80;

/// The executor and the input of a task.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TaskTarget {
    kind: TaskKind,
    name: String,
    input: String,
    /// The thread that gets the notice.
    thread: Option<String>,
    /// The title that the executor has given.
    title: Option<String>,
}

/// Checks the target as far as that is possible without a start of a kernel: agents by the manifests
/// of the home, tools by the running kernel. The engine checks them again. The tasks of extensions
/// require a running kernel, as the extension itself checks their input. In a shared queue another
/// machine may have a target that this one lacks.
pub(super) fn check_target(
    session: &CliContext,
    home: &Home,
    queue: &TaskQueue,
    args: &TaskSubmitArgs,
) -> Result<TaskTarget, CliError> {
    let allow_missing = |checked: Result<(), CliError>| match checked {
        Err(error) if error.code() == exit::NOT_FOUND && queue.store().is_shared() => {
            session
                .output
                .print_note(format!("{} here: another machine executes it", error.message()));
            Ok(())
        }
        other => other,
    };
    let thread = match &args.thread {
        Some(given) => Some(ThreadStore::new(home).resolve(given)?),
        None if args.on_end == EndNoticeArg::Wake => {
            return Err(CliError::usage("`--on-end wake` requires a thread")
                .with_hint("name it: --thread ID"));
        }
        None => None,
    };
    if let Some(kind) = &args.kind {
        return check_kind(session, home, kind, &args.words, thread);
    }
    match (&args.tool, args.words.as_slice()) {
        // The arguments stay as written: they are the input that the key is bound to.
        (Some(tool), [arguments]) => {
            let input = text_or_stdin(arguments)?;
            check_arguments(&input)?;
            allow_missing(check_tool(session, home, tool))?;
            Ok(TaskTarget { kind: TaskKind::Tool, name: tool.clone(), input, thread, title: None })
        }
        (None, [agent, text]) => {
            allow_missing(check_agent(session, home, agent))?;
            let input = text_or_stdin(text)?;
            if input.trim().is_empty() {
                return Err(CliError::usage("the text of the task is empty")
                    .with_hint("say what the agent shall do"));
            }
            Ok(TaskTarget {
                kind: TaskKind::Agent,
                name: agent.clone(),
                input,
                thread,
                title: None,
            })
        }
        (Some(_), _) => Err(CliError::usage("`--tool` requires only the arguments of the tool")
            .with_hint("such as: skillhost task submit --tool echo '{\"text\": \"hi\"}'")),
        (None, _) => Err(CliError::usage("an agent requires the text of the task")
            .with_hint("such as: skillhost task submit AGENT 'Review the kv extension'")),
    }
}

fn check_kind(
    session: &CliContext,
    home: &Home,
    kind: &str,
    words: &[String],
    thread: Option<String>,
) -> Result<TaskTarget, CliError> {
    let [input] = words else {
        return Err(CliError::usage("`--kind` requires only the input of the task")
            .with_hint("such as: skillhost task submit --kind importer/import '{\"pages\": 3}'"));
    };
    let input = text_or_stdin(input)?;
    check_arguments(&input)?;
    let request = ControlRequest::PrepareTask { target: kind.to_owned(), input: input.clone() };
    let Some(prepared) = session.try_running_kernel::<PreparedTask>(home, &request)? else {
        let message = "no kernel runs, and the extension has to check the input of its task";
        return Err(CliError::new(exit::CONFLICT, message)
            .with_hint(format!("start it: {}", OperatorCommand::RunKernel)));
    };
    let (name, title) = (kind.to_owned(), Some(prepared.title));
    Ok(TaskTarget { kind: TaskKind::Ext, name, input, thread, title })
}

fn check_arguments(text: &str) -> Result<(), CliError> {
    let error = match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(_)) => return Ok(()),
        Ok(_) => "they are another JSON value".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(CliError::usage(format!("the arguments are not a JSON object: {error}"))
        .with_hint("such as '{\"text\": \"hi\"}'"))
}

fn check_agent(session: &CliContext, home: &Home, id: &str) -> Result<(), CliError> {
    // Settings that are not valid are reported by the kernel; here they only hide shadowing.
    let shadowing = session.settings(home).map(|loaded| loaded.settings.allow_shadowing);
    let found = discover_manifests(home, session.installation(), &shadowing.unwrap_or_default());
    let shown = display_safe(id);
    if let Some((known, found)) = found.manifests.iter().find(|(known, _)| known.as_str() == id) {
        return match (found.manifest.agent().is_some(), found.manifest.enabled) {
            (true, true) => Ok(()),
            (true, false) => {
                Err(CliError::new(exit::CONFLICT, format!("agent `{known}` is disabled"))
                    .with_hint(format!("set `enabled: true` in {}", found.path.display())))
            }
            (false, _) => Err(CliError::usage(format!("extension `{known}` is not an agent"))
                .with_hint(format!("see: {}", OperatorCommand::ListAgents))),
        };
    }
    // It exists, so "not found" would mislead.
    if found.unapproved.keys().any(|known| known.as_str() == id) {
        return Err(CliError::new(exit::CONFLICT, format!("agent `{shown}` is not approved"))
            .with_hint(format!("look at it: {}", OperatorCommand::ApproveExtension { id })));
    }
    if let Some(rejected) = found.rejected.iter().find(|rejected| rejected.id == id) {
        let message = format!("agent `{shown}` is rejected: {}", rejected.reason);
        return Err(CliError::new(exit::CONFLICT, message).with_hint(rejected.hint.clone()));
    }
    Err(CliError::new(exit::NOT_FOUND, format!("agent `{shown}` not found"))
        .with_hint(format!("see: {}", OperatorCommand::ListAgents)))
}

fn check_tool(session: &CliContext, home: &Home, name: &str) -> Result<(), CliError> {
    if name.is_empty() {
        return Err(CliError::usage("the name of the tool is empty")
            .with_hint(format!("see: {}", OperatorCommand::ListTools)));
    }
    let request = ControlRequest::Tools { agent: None };
    let Some(listing) = session.try_running_kernel::<ToolListing>(home, &request)? else {
        return Ok(());
    };
    // An extension that did not list its tools may have it.
    let is_known = listing.tools.iter().any(|tool| tool.spec.name == name);
    if is_known || !listing.failed.is_empty() {
        return Ok(());
    }
    Err(CliError::new(exit::NOT_FOUND, format!("tool `{}` not found", display_safe(name)))
        .with_hint(format!("see: {}", OperatorCommand::ListTools)))
}

/// Submits a task, and waits for its end if that is wanted.
pub(super) async fn submit_task(
    session: &CliContext,
    home: &Home,
    queue: &TaskQueue,
    args: &TaskSubmitArgs,
    target: TaskTarget,
) -> CommandResult {
    let TaskTarget { kind, name, input, thread, title } = target;
    // The clock of the store: it decides when the task is due.
    let now_ms = queue.store().now_ms().await.map_err(to_cli_error)?;
    let mut after = Vec::with_capacity(args.after.len());
    for id in &args.after {
        after.push(find_task(queue, id).await?.id);
    }
    let title = args.title.clone().or(title).unwrap_or_else(|| make_title(kind, &name, &input));
    let task = NewTask {
        title,
        lane: args.lane.clone(),
        priority: args.priority,
        due_ms: args.at.map(|at| at.to_ms(now_ms)),
        deadline_ms: args.deadline.map(|deadline| deadline.to_ms(now_ms)),
        budget: args.budget.unwrap_or_default(),
        after,
        scope: SCOPE.to_owned(),
        key: args.key.clone(),
        submitter: TaskSubmitter { thread, ..TaskSubmitter::default() },
        on_end: args.on_end.into(),
        ..NewTask::new(kind, name, input)
    };
    let submitted = queue.submit(task).await.map_err(to_cli_error)?;
    match args.wait {
        true => wait_for_end(session, home, queue, submitted).await,
        false => print_submitted(session, home, queue, &submitted),
    }
}

/// Returns a title: the first line of a text, or the tool.
fn make_title(kind: TaskKind, name: &str, input: &str) -> String {
    match kind {
        TaskKind::Agent => {
            let first = input.trim().lines().next().unwrap_or_default();
            first.chars().take(MAX_TITLE_CHARS).collect()
        }
        _ => name.to_owned(),
    }
}

/// Prints a submitted task, and how it starts if no kernel runs.
pub(super) fn print_submitted(
    session: &CliContext,
    home: &Home,
    queue: &TaskQueue,
    submitted: &SubmitOutcome,
) -> CommandResult {
    let SubmitOutcome { task, created } = submitted;
    let output = session.output;
    let runs = is_kernel_running(home);
    if output.json {
        output.print_json(&json!({ "task": task, "created": created, "kernel_running": runs }))?;
        return Ok(exit::OK);
    }
    let verb = if *created { "submitted" } else { "found, with the same key and input," };
    let (target, state) = (one_line(&task.target), describe_state(task, task.created_ms));
    output.print_line(format!("{verb} {}: {} {target}, {state}", task.id, task.kind.as_str()))?;
    // A task that has ended needs no kernel.
    if !runs && !queue.store().is_shared() && !task.state.is_terminal() {
        let run = session.spell_command(OperatorCommand::RunKernel);
        output.print_line(format!("no kernel runs; this starts it: {run}"))?;
    }
    Ok(exit::OK)
}

fn is_kernel_running(home: &Home) -> bool {
    KernelLock::holder(home).is_some() || SupervisorLock::holder(home).is_some()
}

/// Waits for the end of a task and prints its result.
async fn wait_for_end(
    session: &CliContext,
    home: &Home,
    queue: &TaskQueue,
    submitted: SubmitOutcome,
) -> CommandResult {
    let output = session.output;
    let id = submitted.task.id.clone();
    // Standard output is the result's alone.
    output.print_note(format!("task {id}"));
    let may_run = queue.store().is_shared() || is_kernel_running(home);
    if !submitted.task.state.is_terminal() && !may_run {
        let run = session.spell_command(OperatorCommand::RunKernel);
        output.print_note(format!("no kernel runs; this starts the task: {run}"));
    }
    // An interrupt ends the wait, never the task.
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut asked = Vec::new();
    let task = loop {
        let found = queue.find(&id).await.map_err(to_cli_error)?;
        let Some(task) = found else {
            return Err(CliError::new(exit::NOT_FOUND, format!("task `{id}` not found"))
                .with_hint("see: skillhost task list"));
        };
        if task.state.is_terminal() {
            break task;
        }
        for question in task.waits.questions.iter().filter(|id| !asked.contains(*id)) {
            let show = session.spell_arguments(&format!("inbox show {question}"));
            output.print_note(format!("the task waits for an answer: {show}"));
        }
        // A question that is closed and asked again is announced again.
        asked.clone_from(&task.waits.questions);
        tokio::select! {
            () = queue.store().wait_for_change(WAIT_INTERVAL) => {}
            _ = interrupted.recv() => {
                let show = session.spell_arguments(&format!("task show {id}"));
                return Err(CliError::new(exit::INTERRUPTED, "the task goes on")
                    .with_hint(format!("look at it: {show}")));
            }
        }
    };
    print_result(session, &task, submitted.created)
}

/// Prints the result of a task that has ended.
fn print_result(session: &CliContext, task: &Task, created: bool) -> CommandResult {
    let output = session.output;
    let is_success = matches!(&task.outcome, Some(TaskOutcome::Completed { is_error: false, .. }));
    let code = if is_success { exit::OK } else { exit::FINDINGS };
    if output.json {
        output.print_json(&json!({ "task": task, "created": created }))?;
        return Ok(code);
    }
    match &task.outcome {
        Some(TaskOutcome::Completed { text, .. }) => output.print_text(text)?,
        Some(TaskOutcome::Failed { message, hint, .. }) => {
            let error = CliError::new(exit::FINDINGS, format!("the task failed: {message}"));
            let show = session.spell_arguments(&format!("task show {}", task.id));
            return Err(error.with_hint(hint.clone()).with_hint(format!("look at it: {show}")));
        }
        Some(TaskOutcome::Cancelled { by }) => {
            return Err(CliError::new(exit::FINDINGS, format!("the task was cancelled by {by}")));
        }
        None => debug_assert_ne!(task.state, TaskState::Completed, "it has an outcome"),
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn title_is_first_line() {
        let text = format!("\n  Review it\nthen {}", "x".repeat(200));
        assert_eq!(make_title(TaskKind::Agent, "worker", &text), "Review it");
        assert_eq!(make_title(TaskKind::Tool, "echo", "{}"), "echo");
        let long = make_title(TaskKind::Agent, "worker", &"y".repeat(200));
        assert_eq!(long.len(), MAX_TITLE_CHARS);
    }

    #[test]
    fn arguments_require_object() {
        assert!(check_arguments("{\"a\": 1}").is_ok());
        for text in ["", "[]", "{", "null", "{} {}"] {
            let error = check_arguments(text).unwrap_err();
            assert_eq!(error.code(), exit::USAGE, "{text}");
        }
    }
}
