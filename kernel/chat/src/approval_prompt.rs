//! The prompt for the approval of a tool call, and its reply from the terminal.

use std::io::{self, PipeReader, pipe};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{QueueSelector, tcflush};
use skillhost_conversation::{ApprovalDecision, ApprovalRequest};
use skillhost_terminal::{Output, ScreenSize};
use tokio::sync::OwnedMutexGuard;

use crate::approval_view::format_prompt;
use crate::edit_arguments::edit_arguments;

/// The maximum length of an input line, in bytes.
const MAX_LINE_BYTES: usize = 4096;

/// A reply to the prompt.
#[derive(Debug, PartialEq, Eq)]
enum PromptReply {
    Decided(ApprovalDecision),
    Edit,
    ViewAll,
}

/// Prints the call and waits for a decision. Dropping the future cancels the prompt; the terminal is
/// not read after that, except by an edit in progress, which keeps `alone` until it ends.
pub(crate) async fn prompt_approval(
    output: Output,
    request: &ApprovalRequest,
    alone: OwnedMutexGuard<()>,
) -> ApprovalDecision {
    let mut alone = alone;
    let mut complete = false;
    loop {
        // A terminal that has just been closed has no size.
        let screen = ScreenSize::from_stream(&io::stderr()).unwrap_or(ScreenSize::FALLBACK);
        let prompt = format_prompt(request, screen, complete);
        let is_complete = prompt.is_complete;
        let line = match prompt_line(output, prompt.text).await {
            Ok(Some(line)) => line,
            // A terminal that is closed never approves.
            Ok(None) => return refuse("the terminal was closed"),
            Err(error) => return refuse(&format!("the user could not be asked: {error}")),
        };
        match parse_reply(&line, request.always) {
            // Only what was shown can be approved for more than this call.
            PromptReply::Decided(ApprovalDecision::Session) if !is_complete => complete = true,
            PromptReply::Decided(decision) => return decision,
            PromptReply::ViewAll => complete = true,
            PromptReply::Edit => {
                let arguments = request.arguments.clone();
                let editing = tokio::task::spawn_blocking(move || {
                    let edited = edit_arguments(output, &arguments);
                    (edited, alone)
                });
                match editing.await {
                    Ok((Ok(Some(arguments)), _)) => return ApprovalDecision::Edited { arguments },
                    Ok((Ok(None), guard)) => alone = guard,
                    Ok((Err(error), _)) => {
                        return refuse(&format!("the arguments could not be edited: {error}"));
                    }
                    Err(error) => {
                        return refuse(&format!("the arguments could not be edited: {error}"));
                    }
                }
            }
        }
    }
}

fn refuse(reason: &str) -> ApprovalDecision {
    ApprovalDecision::Refuse { reason: reason.to_owned() }
}

/// Prints a prompt and waits for a line; `None` if the terminal is closed. Dropping the future
/// cancels the prompt.
pub(crate) async fn prompt_line(output: Output, text: String) -> io::Result<Option<String>> {
    // The write end closes when this function returns or is dropped, which cancels the blocking
    // read.
    let reader = pipe().map(|(cancelled, keep_open)| {
        let answer = tokio::task::spawn_blocking(move || read_reply(output, &text, &cancelled));
        (answer, keep_open)
    });
    match reader {
        Ok((answer, _keep_open)) => answer.await.unwrap_or_else(|e| Err(io::Error::other(e))),
        Err(error) => Err(error),
    }
}

/// Parses a reply; any input other than a clear yes or a request refuses.
fn parse_reply(line: &str, always: bool) -> PromptReply {
    match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => PromptReply::Decided(ApprovalDecision::Once),
        "s" | "session" if !always => PromptReply::Decided(ApprovalDecision::Session),
        "e" | "edit" => PromptReply::Edit,
        "v" | "view" => PromptReply::ViewAll,
        _ => PromptReply::Decided(refuse("the user refused")),
    }
}

/// Prompts, and waits for a line or for cancellation. Input typed before the prompt is discarded.
fn read_reply(
    output: Output,
    question: &str,
    cancelled: &PipeReader,
) -> io::Result<Option<String>> {
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
        return Ok(Some(String::new()));
    }
    // A line that was typed right before the end of the terminal decides nothing.
    if waited[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
        return Ok(None);
    }
    // `io::stdin` would buffer bytes after the line, which the line editor needs.
    let mut line = [0; MAX_LINE_BYTES];
    let read = rustix::io::read(&terminal, &mut line)?;
    Ok((read > 0).then(|| String::from_utf8_lossy(&line[..read]).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clear_yes_approves() {
        let no = || PromptReply::Decided(refuse("the user refused"));
        let once = || PromptReply::Decided(ApprovalDecision::Once);
        let session = || PromptReply::Decided(ApprovalDecision::Session);
        for (line, expected, always) in [
            ("y\n", once(), once()),
            (" YES ", once(), once()),
            ("s", session(), no()),
            ("session\n", session(), no()),
            ("e\n", PromptReply::Edit, PromptReply::Edit),
            ("V\n", PromptReply::ViewAll, PromptReply::ViewAll),
            ("", no(), no()),
            ("\n", no(), no()),
            ("yes please", no(), no()),
            ("n", no(), no()),
        ] {
            assert_eq!(parse_reply(line, false), expected, "{line:?}");
            assert_eq!(parse_reply(line, true), always, "{line:?}");
        }
    }
}
