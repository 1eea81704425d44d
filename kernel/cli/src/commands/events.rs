//! `skillhost events`: what happened, and what nobody could handle.

use std::time::Duration;

use serde_json::{Value, json};
use skill_store::format_rfc3339;
use skillhost_kernel::{CallError, DeadLetter, Journal, StoredEvent, TailQuery, home_journal};
use tokio::signal::unix::{SignalKind, signal};

use super::run::describe;
use crate::cli::{EventsCommand, TailArgs};
use crate::error::CliError;
use crate::exit;
use crate::output::{DIM, Outcome, Output, show};
use crate::session::Session;

/// How often `--follow` looks for more.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Events read in one go.
const PAGE: usize = 500;

pub(super) fn events(session: &Session, command: &EventsCommand) -> Outcome {
    let (output, journal) = (session.output, home_journal(&session.trusted_home()?));
    session.block_on(async {
        match command {
            EventsCommand::Tail(args) => tail(output, &journal, args).await,
            EventsCommand::Dead => dead(output, &journal).await,
            EventsCommand::Retry { id } => retry(output, &journal, *id).await,
        }
    })?
}

async fn tail(output: Output, journal: &Journal, args: &TailArgs) -> Outcome {
    let limit = usize::try_from(args.lines).unwrap_or(usize::MAX);
    let topic = args.topic.clone();
    let last = TailQuery { after: None, topic: topic.clone(), limit };
    // What comes between the two looks is printed by the second.
    let newest = TailQuery { after: None, topic: String::new(), limit: 1 };
    let mut seen = journal.tail(newest).await.map_err(told)?.last().map_or(0, |event| event.id);
    let events = journal.tail(last).await.map_err(told)?;
    if events.is_empty() && !args.follow {
        output.note("there are no events");
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
        for event in journal.tail(next).await.map_err(told)? {
            seen = event.id;
            print(output, &event)?;
        }
        tokio::select! {
            _ = interrupted.recv() => return Ok(exit::OK),
            _ = terminated.recv() => return Ok(exit::OK),
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

fn print(output: Output, event: &StoredEvent) -> Result<(), CliError> {
    if output.json {
        return output.object(event);
    }
    let mut payload: Value = serde_json::from_str(event.payload.get()).unwrap_or_default();
    payload.sort_all_objects();
    let (time, topic, source) = (shown_time(event.at_ms), show(&event.topic), show(&event.source));
    let what = describe(&payload).replace('\n', " ");
    let id = event.id;
    output.line(format!("{DIM}{id:>5} {time} {source}{DIM:#} {topic} {}", show(&what)))
}

async fn dead(output: Output, journal: &Journal) -> Outcome {
    let letters = journal.dead_letters().await.map_err(told)?;
    if output.json {
        if letters.is_empty() {
            output.object(&json!({ "dead": [] }))?;
        }
        for letter in &letters {
            output.object(letter)?;
        }
        return Ok(exit::OK);
    }
    if letters.is_empty() {
        output.note("no delivery was given up");
        return Ok(exit::OK);
    }
    output.table(
        &["DELIVERY", "EVENT", "TOPIC", "SUBSCRIBER", "ATTEMPTS", "GIVEN UP (UTC)", "ERROR"],
        &letters.iter().map(row).collect::<Vec<_>>(),
    )?;
    output.note("skillhost events retry DELIVERY makes one again");
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
        shown_time(*at_ms),
        error.chars().take(200).collect(),
    ]
}

async fn retry(output: Output, journal: &Journal, id: i64) -> Outcome {
    let letter = journal.retry_dead_letter(id).await.map_err(told)?;
    if output.json {
        output.object(&json!({ "retried": letter }))?;
    } else {
        let (topic, subscriber) = (show(&letter.event.topic), show(&letter.subscriber));
        output.line(format!("delivery {id} of {topic} goes to {subscriber} again"))?;
    }
    Ok(exit::OK)
}

fn told(error: skillhost_kernel::JournalError) -> CliError {
    CallError::from(error).into()
}

pub(super) fn shown_time(ms: u64) -> String {
    let mut text = format_rfc3339(i64::try_from(ms).unwrap_or(i64::MAX)).replacen('T', " ", 1);
    text.truncate("2026-11-22 03:30:05".len());
    text
}
