//! `skillhost event`: journaled events and dead letters.

use std::time::Duration;

use serde_json::{Value, json};
use skillhost_events::{DeadLetter, Journal, StoredEvent, TailQuery};
use skillhost_payload::CallError;
use skillhost_terminal::{
    CliContext, CliError, CommandResult, DIM, Output, TableColumn, display_safe, exit,
};
use tokio::signal::unix::{SignalKind, signal};

use super::event_text::{format_payload, format_time};
use crate::cli::{EventCommand, TailArgs};

/// The interval at which `--follow` polls the journal.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The number of events read at once.
const PAGE: usize = 500;

pub(super) fn cmd_events(session: &CliContext, command: &EventCommand) -> CommandResult {
    let (output, journal) =
        (session.output, Journal::in_directory(&session.trusted_home()?.data_dir("kernel")));
    session.block_on(Box::pin(async {
        match command {
            EventCommand::Tail(args) => tail(output, &journal, args).await,
            EventCommand::DeadLetters => list_dead_letters(output, &journal).await,
            EventCommand::Retry { id } => retry(output, &journal, *id).await,
        }
    }))?
}

async fn tail(output: Output, journal: &Journal, args: &TailArgs) -> CommandResult {
    let limit = usize::try_from(args.lines).unwrap_or(usize::MAX);
    let topic = args.topic.clone();
    let last = TailQuery { after: None, topic: topic.clone(), limit };
    // Events between this query and the follow loop are printed by the loop.
    let newest = TailQuery { after: None, topic: String::new(), limit: 1 };
    let mut seen =
        journal.tail(newest).await.map_err(to_cli_error)?.last().map_or(0, |event| event.id);
    let events = journal.tail(last).await.map_err(to_cli_error)?;
    if events.is_empty() && !args.follow {
        output.print_note("there are no events");
    }
    for event in &events {
        seen = seen.max(event.id);
        print(output, event)?;
    }
    if !args.follow {
        return Ok(exit::OK);
    }
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    loop {
        let next = TailQuery { after: Some(seen), topic: topic.clone(), limit: PAGE };
        for event in journal.tail(next).await.map_err(to_cli_error)? {
            seen = event.id;
            print(output, &event)?;
        }
        tokio::select! {
            _ = interrupted.recv() => return Ok(exit::OK),
            _ = terminated.recv() => return Ok(exit::OK),
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
    }
}

fn print(output: Output, event: &StoredEvent) -> Result<(), CliError> {
    if output.json {
        return output.print_json(event);
    }
    let mut payload: Value = serde_json::from_str(event.payload.get()).unwrap_or_default();
    payload.sort_all_objects();
    let (time, topic, source) =
        (format_time(event.at_ms), display_safe(&event.topic), display_safe(&event.source));
    let what = format_payload(&payload).replace('\n', " ");
    let id = event.id;
    output
        .print_line(format!("{DIM}{id:>5} {time} {source}{DIM:#} {topic} {}", display_safe(&what)))
}

async fn list_dead_letters(output: Output, journal: &Journal) -> CommandResult {
    let letters = journal.dead_letters().await.map_err(to_cli_error)?;
    if output.json {
        if letters.is_empty() {
            output.print_json(&json!({ "dead": [] }))?;
        }
        for letter in &letters {
            output.print_json(letter)?;
        }
        return Ok(exit::OK);
    }
    if letters.is_empty() {
        output.print_note("no dead letters");
        return Ok(exit::OK);
    }
    let columns = [
        TableColumn::fixed("DELIVERY"),
        TableColumn::fixed("EVENT").with_rank(3),
        TableColumn::fixed("TOPIC"),
        TableColumn::fixed("SUBSCRIBER"),
        TableColumn::fixed("ATTEMPTS").with_rank(2),
        TableColumn::fixed("SINCE (UTC)").with_rank(1),
        TableColumn::text("ERROR"),
    ];
    output.print_table(&columns, &letters.iter().map(row).collect::<Vec<_>>())?;
    output.print_note("skillhost event retry DELIVERY retries one");
    Ok(exit::OK)
}

fn row(letter: &DeadLetter) -> Vec<String> {
    let DeadLetter { id, subscriber, attempts, error, at_ms, event } = letter;
    vec![
        id.to_string(),
        event.id.to_string(),
        event.topic.clone(),
        subscriber.clone(),
        attempts.to_string(),
        format_time(*at_ms),
        error.chars().take(200).collect(),
    ]
}

async fn retry(output: Output, journal: &Journal, id: i64) -> CommandResult {
    let letter = journal.retry_dead_letter(id).await.map_err(to_cli_error)?;
    if output.json {
        output.print_json(&json!({ "retried": letter }))?;
    } else {
        let (topic, subscriber) =
            (display_safe(&letter.event.topic), display_safe(&letter.subscriber));
        output.print_line(format!("delivery {id} of {topic} goes to {subscriber} again"))?;
    }
    Ok(exit::OK)
}

fn to_cli_error(error: skillhost_events::JournalError) -> CliError {
    CallError::from(error).into()
}
