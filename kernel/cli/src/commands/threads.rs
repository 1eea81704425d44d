//! `skillhost thread`: stored threads.

use serde_json::json;
use skillhost_conversation::{Message, ThreadContents, ThreadStore, ThreadSummary};
use skillhost_payload::format_minute;
use skillhost_terminal::{
    BOLD, CliContext, CliError, CommandResult, DIM, TableColumn, display_safe, exit,
};

use crate::cli::ThreadCommand;

pub(super) fn cmd_threads(session: &CliContext, command: &ThreadCommand) -> CommandResult {
    // Threads exist only in trusted homes and hold private messages.
    let threads = ThreadStore::new(&session.trusted_home()?);
    match command {
        ThreadCommand::List => list(session, &threads),
        ThreadCommand::Show { id } => show_thread(session, &threads.read(&threads.resolve(id)?)?),
        ThreadCommand::Delete { ids, yes } => delete(session, &threads, ids, *yes),
    }
}

/// Deletes threads. Nothing is deleted unless all of them exist.
fn delete(
    session: &CliContext,
    threads: &ThreadStore,
    given: &[String],
    yes: bool,
) -> CommandResult {
    let output = session.output;
    let mut ids = given.iter().map(|id| threads.resolve(id)).collect::<Result<Vec<_>, _>>()?;
    ids.sort_unstable();
    ids.dedup();
    if !yes {
        for id in &ids {
            // A damaged thread can be deleted as well.
            let title = threads.read(id).map(|it| it.summary.title).unwrap_or_default();
            output.print_progress(format!("{id}  {}", display_safe(&title)));
        }
        match output.ask_yes_no("delete?")? {
            Some(true) => {}
            Some(false) => return Err(CliError::new(exit::FINDINGS, "nothing was deleted")),
            None => return Err(CliError::usage("a deletion requires a terminal, or --yes")),
        }
    }
    for id in &ids {
        threads.delete(id)?;
        if !output.json {
            output.print_line(format!("deleted {id}"))?;
        }
    }
    if output.json {
        output.print_json(&json!({ "deleted": ids }))?;
    }
    Ok(exit::OK)
}

fn list(session: &CliContext, threads: &ThreadStore) -> CommandResult {
    let threads = threads.list()?;
    let output = session.output;
    if output.json {
        output.print_json(&json!({ "threads": threads }))?;
        return Ok(exit::OK);
    }
    let (broken, readable): (Vec<_>, Vec<_>) = threads.iter().partition(|t| t.problem.is_some());
    if readable.is_empty() {
        output.print_note("there are no threads; `skillhost chat` begins one");
    } else {
        let rows: Vec<_> = readable.into_iter().map(row).collect();
        let columns = [
            TableColumn::fixed("THREAD"),
            TableColumn::fixed("AGENT").with_rank(2),
            TableColumn::fixed("MESSAGES").with_rank(3),
            TableColumn::fixed("CHANGED (UTC)").with_rank(1),
            TableColumn::text("TITLE"),
        ];
        output.print_table(&columns, &rows)?;
    }
    for thread in broken {
        let problem = thread.problem.as_deref().unwrap_or_default();
        output.print_note(format!("thread {} is not listed: {problem}", thread.id));
    }
    Ok(exit::OK)
}

fn row(thread: &ThreadSummary) -> Vec<String> {
    let title: String = thread.title.chars().take(60).collect();
    let (id, agent) = (thread.id.clone(), thread.agent.clone());
    vec![id, agent, thread.messages.to_string(), time(thread.changed), title]
}

fn show_thread(session: &CliContext, thread: &ThreadContents) -> CommandResult {
    let output = session.output;
    if output.json {
        output.print_json(thread)?;
        return Ok(exit::OK);
    }
    let ThreadContents { summary, messages, skills } = thread;
    output.print_line(format!("{BOLD}{}{BOLD:#}  {}", summary.id, display_safe(&summary.agent)))?;
    output.print_line(format!("began    {}", time(summary.began)))?;
    output.print_line(format!("changed  {}", time(summary.changed)))?;
    for skill in skills {
        let digest = skill.skill.digest.get(..12).unwrap_or(&skill.skill.digest);
        output.print_line(format!(
            "skill    {} {}",
            display_safe(&skill.skill.skill_id),
            display_safe(digest)
        ))?;
    }
    for message in messages {
        output.print_line("")?;
        match message {
            Message::User { text } => {
                output.print_line(format!("{BOLD}user{BOLD:#}"))?;
                output.print_line(display_safe(text.trim_end()))?;
            }
            Message::Assistant { text, calls } => {
                output.print_line(format!("{BOLD}assistant{BOLD:#}"))?;
                if !text.is_empty() {
                    output.print_line(display_safe(text.trim_end()))?;
                }
                for call in calls {
                    let (name, arguments) =
                        (display_safe(&call.name), display_safe(&call.arguments));
                    output.print_line(format!("{DIM}→ {name} {arguments}{DIM:#}"))?;
                }
            }
            Message::Tool { name, text, is_error, .. } => {
                let failed = if *is_error { " failed" } else { "" };
                output.print_line(format!("{BOLD}tool {}{failed}{BOLD:#}", display_safe(name)))?;
                output.print_line(display_safe(text.trim_end()))?;
            }
        }
    }
    Ok(exit::OK)
}

fn time(ms: u64) -> String {
    format_minute(i64::try_from(ms).unwrap_or(i64::MAX))
}
