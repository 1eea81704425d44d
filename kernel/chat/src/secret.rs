//! A prompt for a secret, which is not echoed and goes only to the kernel.

use std::io;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use skillhost_conversation::{SecretPrompt, SecretReply};
use skillhost_terminal::{BOLD, Output, display_safe};

use crate::approval_prompt::prompt_line;

/// A guard that disables the terminal's echo until it is dropped, also when the prompt is canceled.
struct EchoOff {
    before: Termios,
}

impl EchoOff {
    fn disable_echo() -> io::Result<Self> {
        let terminal = io::stdin();
        let before = tcgetattr(&terminal)?;
        let mut modes = before.clone();
        modes.local_modes -= LocalModes::ECHO | LocalModes::ECHONL;
        modes.local_modes |= LocalModes::ICANON;
        tcsetattr(&terminal, OptionalActions::Flush, &modes)?;
        Ok(Self { before })
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        // On a closed terminal there is no echo to restore.
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}

/// Prompts for a secret. Dropping the future cancels the prompt.
pub(crate) async fn prompt_secret(output: Output, ask: &SecretPrompt) -> SecretReply {
    let read = match EchoOff::disable_echo() {
        Ok(_unseen) => prompt_line(output, text(ask)).await,
        Err(error) => Err(error),
    };
    match read {
        Ok(Some(line)) => parse_secret(&line),
        Ok(None) => SecretReply::Refused { reason: "the terminal was closed".to_owned() },
        Err(error) => {
            SecretReply::Refused { reason: format!("the user could not be asked: {error}") }
        }
    }
}

fn text(ask: &SecretPrompt) -> String {
    let SecretPrompt { agent_id, name, extensions, reason } = ask;
    let mut lines = vec![format!(
        "{BOLD}{} asks for the secret {}{BOLD:#}",
        display_safe(agent_id),
        display_safe(name)
    )];
    lines.extend(reason.lines().map(|line| format!("  | {}", display_safe(line))));
    lines.push(format!(
        "  it is stored in .env for {}; no model sees it",
        display_safe(&extensions.join(", "))
    ));
    lines.push("type it; it is not shown. An empty line refuses".to_owned());
    lines.join("\n")
}

fn parse_secret(line: &str) -> SecretReply {
    let refuse = |reason: &str| SecretReply::Refused { reason: reason.to_owned() };
    match line.trim() {
        "" => refuse("the user gave none"),
        text if text.contains(char::REPLACEMENT_CHARACTER) => refuse("the input is not valid text"),
        text => SecretReply::Given(text.to_owned().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_or_invalid_secret_refuses() {
        let reason = |line| match parse_secret(line) {
            SecretReply::Refused { reason } => reason,
            SecretReply::Given(_) => panic!("{line:?} was taken"),
        };
        assert_eq!(reason("\n"), "the user gave none");
        assert_eq!(reason(""), "the user gave none");
        assert_eq!(reason("a\u{fffd}\n"), "the input is not valid text");
        assert!(matches!(parse_secret(" key \n"), SecretReply::Given(_)));
        assert!(!format!("{:?}", parse_secret("hunter2\n")).contains("hunter2"));
    }

    #[test]
    fn secret_prompt_is_complete_and_sanitized() {
        let ask = SecretPrompt {
            agent_id: "worker".into(),
            name: "FEED_KEY".into(),
            extensions: vec!["feeds".into()],
            reason: "for the feed\u{1b}[2J\nsee example.org".into(),
        };
        let rendered = anstream::adapter::strip_str(&text(&ask)).to_string();
        assert_eq!(
            rendered,
            "worker asks for the secret FEED_KEY\n  | for the feed\\u{1b}[2J\n  | see example.org\n  it is stored in .env for feeds; no model sees it\ntype it; it is not shown. An empty line refuses"
        );
    }
}
