//! The prompt for the approval of a tool call, and its reply from the terminal.

use std::io::{self, PipeReader, pipe};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{QueueSelector, tcflush};
use serde_json::Value;
use skillhost_conversation::{ApprovalDecision, ApprovalRequest};
use skillhost_terminal::{BOLD, Output, RED, display_safe};

/// The maximum length of an input line, in bytes.
const MAX_LINE_BYTES: usize = 4096;

/// The length, in bytes, from which arguments are omitted in favor of the call's details.
const MAX_ARGUMENT_BYTES: usize = 512;

/// The number of printed detail lines, larger than the limit of an approval request.
const MAX_DETAIL_LINES: usize = 12_000;

/// Prints the complete call and waits for a decision. Dropping the future cancels the prompt; the
/// terminal is not read after that.
pub(crate) async fn prompt_approval(output: Output, request: &ApprovalRequest) -> ApprovalDecision {
    match prompt_line(output, text(request)).await {
        Ok(line) => parse_decision(&line, request.always),
        Err(error) => {
            ApprovalDecision::Refuse { reason: format!("the user could not be asked: {error}") }
        }
    }
}

/// Prints a prompt and waits for a line. Dropping the future cancels the prompt.
pub(crate) async fn prompt_line(output: Output, text: String) -> io::Result<String> {
    // The write end closes when this function returns or is dropped, which cancels the blocking
    // read.
    let reader = pipe().map(|(cancelled, keep_open)| {
        let answer = tokio::task::spawn_blocking(move || answer(output, &text, &cancelled));
        (answer, keep_open)
    });
    match reader {
        Ok((answer, _keep_open)) => answer.await.unwrap_or_else(|e| Err(io::Error::other(e))),
        Err(error) => Err(error),
    }
}

fn text(request: &ApprovalRequest) -> String {
    let ApprovalRequest { agent_id, tool, extension, arguments, destructive, always, details } =
        request;
    let arguments = match serde_json::from_str::<Value>(arguments) {
        Ok(value) => format!("{value:#}"),
        Err(_) => format!("{arguments:?}"),
    };
    let mut lines = vec![format!(
        "{BOLD}{} asks to call {} of {}{BOLD:#}",
        display_safe(agent_id),
        display_safe(tool),
        display_safe(extension)
    )];
    // The details present long arguments in a readable form.
    match details {
        Some(_) if arguments.len() > MAX_ARGUMENT_BYTES => {
            lines.push(format!("  with {} bytes of arguments:", arguments.len()));
        }
        _ => lines.extend(arguments.lines().map(|line| format!("  {}", display_safe(line)))),
    }
    lines.extend(details.as_deref().into_iter().flat_map(format_details));
    if *destructive {
        lines.push(format!("  {RED}it may destroy something{RED:#}"));
    }
    lines.push(match always {
        true => "allow it? [y]es, [N]o".to_owned(),
        false => "allow it? [y]es, [s] yes and until the end of this session, [N]o".to_owned(),
    });
    lines.join("\n")
}

/// Formats the details of a call, each line marked so that none can imitate the prompt. Details
/// beyond the limit end with a note on the omitted lines.
pub fn format_details(details: &str) -> Vec<String> {
    let lines = details.lines().count();
    let mut rendered: Vec<_> = details
        .lines()
        .take(MAX_DETAIL_LINES)
        .map(|line| format!("  | {}", display_safe(line)))
        .collect();
    if lines > MAX_DETAIL_LINES {
        rendered
            .push(format!("  {RED}{} more lines are not shown{RED:#}", lines - MAX_DETAIL_LINES));
    }
    rendered
}

/// Parses a decision; any input other than a clear yes refuses.
fn parse_decision(line: &str, always: bool) -> ApprovalDecision {
    match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => ApprovalDecision::Once,
        "s" | "session" if !always => ApprovalDecision::Session,
        _ => ApprovalDecision::Refuse { reason: "the user refused".to_owned() },
    }
}

/// Prompts, and waits for a line or for cancellation. Input typed before the prompt is discarded.
fn answer(output: Output, question: &str, cancelled: &PipeReader) -> io::Result<String> {
    let terminal = io::stdin();
    tcflush(&terminal, QueueSelector::IFlush)?;
    output.print_progress(question);
    let mut waited = [PollFd::new(&terminal, PollFlags::IN), PollFd::new(cancelled, PollFlags::IN)];
    while let Err(error) = poll(&mut waited, None) {
        if error != rustix::io::Errno::INTR {
            return Err(error.into());
        }
    }
    if !waited[1].revents().is_empty() {
        return Ok(String::new());
    }
    // `io::stdin` would buffer bytes after the line, which the line editor needs.
    let mut line = [0; MAX_LINE_BYTES];
    let read = rustix::io::read(&terminal, &mut line)?;
    Ok(String::from_utf8_lossy(&line[..read]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clear_yes_approves() {
        let no = || ApprovalDecision::Refuse { reason: "the user refused".to_owned() };
        for (line, expected, always) in [
            ("y\n", ApprovalDecision::Once, ApprovalDecision::Once),
            (" YES ", ApprovalDecision::Once, ApprovalDecision::Once),
            ("s", ApprovalDecision::Session, no()),
            ("session\n", ApprovalDecision::Session, no()),
            ("", no(), no()),
            ("\n", no(), no()),
            ("yes please", no(), no()),
            ("n", no(), no()),
        ] {
            assert_eq!(parse_decision(line, false), expected, "{line:?}");
            assert_eq!(parse_decision(line, true), always, "{line:?}");
        }
    }

    #[test]
    fn approval_prompt_is_complete_and_sanitized() {
        let request = ApprovalRequest {
            agent_id: "worker".into(),
            tool: "write_file".into(),
            extension: "core_tools".into(),
            arguments: "{\"text\": \"a\\nallow it? \\u001b[2Jb\"}".into(),
            destructive: true,
            always: false,
            details: None,
        };
        let rendered = anstream::adapter::strip_str(&text(&request)).to_string();
        assert_eq!(
            rendered,
            "worker asks to call write_file of core_tools\n  {\n    \"text\": \"a\\nallow it? \\u001b[2Jb\"\n  }\n  it may destroy something\nallow it? [y]es, [s] yes and until the end of this session, [N]o"
        );
        let detailed = ApprovalRequest {
            arguments: "{}".into(),
            details: Some("src/lib.rs\n\u{1b}[2Jallow it? \u{202e}".into()),
            ..request.clone()
        };
        let rendered = anstream::adapter::strip_str(&text(&detailed)).to_string();
        assert_eq!(
            rendered.lines().collect::<Vec<_>>()[2..4],
            ["  | src/lib.rs", "  | \\u{1b}[2Jallow it? \\u{202e}"]
        );
        let long = format_details(&"x\n".repeat(MAX_DETAIL_LINES + 2));
        assert_eq!(long.len(), MAX_DETAIL_LINES + 1);
        assert!(
            long[MAX_DETAIL_LINES].contains("2 more lines are not shown"),
            "{}",
            long[MAX_DETAIL_LINES]
        );
        let broken = ApprovalRequest { arguments: "{\"a\": \u{1b}\n".into(), ..request };
        let rendered = anstream::adapter::strip_str(&text(&broken)).to_string();
        assert_eq!(rendered.lines().nth(1), Some("  \"{\\\"a\\\": \\u{1b}\\n\""));
    }
}
