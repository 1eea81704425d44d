//! `skillhost task logs`: the journal of a task's run as a person reads it.

use std::time::Duration;

use serde_json::{Map, Value, json};
use skillhost_conversation::Message;
use skillhost_payload::format_second;
use skillhost_tasks::{TaskLine, TaskQueue};
use skillhost_terminal::{BOLD, CommandResult, DIM, Output, RED, exit, format_text, json_text};
use tokio::signal::unix::{SignalKind, signal};

use crate::task_store::{find_task, to_cli_error};
use crate::task_text::{describe_failure, one_line, state_style};

/// The number of lines that are read at once.
const PAGE: usize = 200;
/// The interval at which `--follow` looks for new lines.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(250);

/// Prints the lines of a task, and with `follow` new ones until it ends.
pub(super) async fn print_lines(
    output: Output,
    queue: &TaskQueue,
    given: &str,
    follow: bool,
) -> CommandResult {
    let mut task = find_task(queue, given).await?;
    let columns = output.width().unwrap_or(usize::MAX);
    let mut interrupted = signal(SignalKind::interrupt())?;
    // The number of the next line, so that a page that is read again prints none twice.
    let mut printed = 0;
    loop {
        // The state before the lines: a task has all of its lines when it ends.
        let has_ended = task.state.is_terminal();
        loop {
            let lines = queue.lines(&task.id, printed, PAGE).await.map_err(to_cli_error)?;
            for line in &lines {
                print_line(output, line, columns)?;
                printed = line.seq + 1;
            }
            if lines.len() < PAGE {
                break;
            }
        }
        if has_ended || !follow {
            break;
        }
        tokio::select! {
            () = queue.store().wait_for_change(FOLLOW_INTERVAL) => {}
            _ = interrupted.recv() => return Ok(exit::OK),
        }
        task = find_task(queue, task.id.as_str()).await?;
    }
    if printed == 0 && !follow {
        output.print_note(format!(
            "task {} has no lines yet; it is {}",
            task.id,
            task.state.as_str()
        ));
    }
    if follow && !output.json {
        let style = state_style(task.state);
        let failure = describe_failure(&task).map(|text| format!(" {text}")).unwrap_or_default();
        output.print_line(format!("{style}{}{style:#}{failure}", task.state.as_str()))?;
    }
    Ok(exit::OK)
}

fn print_line(
    output: Output,
    line: &TaskLine,
    columns: usize,
) -> Result<(), skillhost_terminal::CliError> {
    if output.json {
        // A line that is not JSON is shown as a text.
        let parsed = serde_json::from_str(&line.line).unwrap_or_else(|_| json!(line.line));
        let TaskLine { seq, epoch, .. } = line;
        return output.print_json(&json!({ "seq": seq, "epoch": epoch, "line": parsed }));
    }
    format_line(&line.line, columns).iter().try_for_each(|text| output.print_line(text))
}

/// Formats a line of a journal. Texts of models and tools are marked, so that none can imitate
/// another line.
fn format_line(line: &str, columns: usize) -> Vec<String> {
    let Ok(Value::Object(mut fields)) = serde_json::from_str(line) else {
        return format_text(line, columns);
    };
    let time = fields.remove("at").and_then(|at| at.as_i64()).map(format_second);
    let time = time.map(|time| format!("{DIM}{time}{DIM:#} ")).unwrap_or_default();
    // The checksum of the journal's line means nothing to a reader.
    fields.remove("sum");
    let message = fields.get("message").cloned();
    match message.and_then(|message| serde_json::from_value::<Message>(message).ok()) {
        Some(message) => format_message(&time, &message, columns),
        None => vec![format!("{time}{}", format_fields(&mut fields))],
    }
}

fn format_message(time: &str, message: &Message, columns: usize) -> Vec<String> {
    match message {
        Message::User { text } => {
            let mut lines = vec![format!("{time}{BOLD}user{BOLD:#}")];
            lines.extend(format_text(text, columns));
            lines
        }
        Message::Assistant { text, calls } => {
            let mut lines = vec![format!("{time}{BOLD}assistant{BOLD:#}")];
            // Also an empty one: calls may come without a text.
            lines.extend(format_text(text, columns));
            for call in calls {
                let (name, arguments) = (one_line(&call.name), one_line(&call.arguments));
                lines.push(format!("  → {name} {DIM}{arguments}{DIM:#}"));
            }
            lines
        }
        Message::Tool { name, text, is_error, .. } => {
            let failed = if *is_error { format!(" {RED}failed{RED:#}") } else { String::new() };
            let mut lines = vec![format!("{time}{BOLD}tool {}{BOLD:#}{failed}", one_line(name))];
            lines.extend(format_text(text, columns));
            lines
        }
    }
}

/// Formats an entry that is not a message: its name and its fields.
fn format_fields(fields: &mut Map<String, Value>) -> String {
    let name = fields.remove("entry").and_then(|name| name.as_str().map(str::to_owned));
    // Only the first line of a journal has no entry.
    let name = name.unwrap_or_else(|| "start".to_owned());
    let mut text = format!("{BOLD}{}{BOLD:#}", one_line(&name));
    for (field, value) in fields {
        let value = match value {
            Value::String(text) => one_line(text),
            other => json_text(other).unwrap_or_default(),
        };
        text.push_str(&format!(" {DIM}{}{DIM:#}={value}", one_line(field)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(line: &str) -> Vec<String> {
        let lines = format_line(line, usize::MAX);
        lines.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
    }

    #[test]
    fn messages_are_readable() {
        let call = r#"{"at":0,"entry":"message","message":{"role":"assistant","text":"Reading.\nuser","calls":[{"id":"1","name":"read_file","arguments":"{\"path\": \"a\u001b\"}"}]},"sum":"00"}"#;
        assert_eq!(
            plain(call),
            [
                "1970-01-01 00:00:00 assistant",
                "  | Reading.",
                "  | user",
                "  → read_file {\"path\": \"a\\u{1b}\"}"
            ]
        );
        let result = r#"{"at":1000,"entry":"message","message":{"role":"tool","call_id":"1","name":"read_file","text":"no file","is_error":true}}"#;
        assert_eq!(plain(result), ["1970-01-01 00:00:01 tool read_file failed", "  | no file"]);
    }

    #[test]
    fn other_lines_are_complete() {
        let line = r#"{"at":0,"entry":"effect_began","tool":"send\nmail","call":{"n":1}}"#;
        assert_eq!(plain(line), ["1970-01-01 00:00:00 effect_began call={\"n\":1} tool=send mail"]);
        assert_eq!(plain("no json\u{9b}"), ["  | no json\\u{9b}"]);
        assert_eq!(plain("[1]"), ["  | [1]"]);
    }
}
