//! The recap of a thread that is resumed: its size, the last message and the last reply.

use skillhost_conversation::{Message, ThreadContents};
use skillhost_payload::format_minute;
use skillhost_terminal::{DIM, MarkdownLayout, display_safe};

use crate::pluralize::pluralize;

/// The number of lines of the last message.
const MAX_MESSAGE_LINES: usize = 4;

/// The number of lines of the last reply, its last ones.
const MAX_REPLY_LINES: usize = 12;

/// Formats the recap of a thread; empty if it has no messages.
pub(crate) fn format_recap(contents: &ThreadContents, layout: MarkdownLayout) -> String {
    let messages = contents.messages.len();
    if messages == 0 {
        return String::new();
    }
    let changed = format_minute(i64::try_from(contents.summary.changed).unwrap_or(i64::MAX));
    let count = pluralize(messages as u64, "message");
    let mut text = format!("{DIM}resumed: {count}, the last one of {changed} UTC{DIM:#}\n");
    let user = contents.messages.iter().rev().find_map(|message| match message {
        // Notices and summaries of the kernel are no messages of a user.
        Message::User { text } if !text.starts_with("<kernel_") => Some(text),
        _ => None,
    });
    if let Some(user) = user {
        let lines = user.trim_end().lines();
        let more = lines.clone().count().saturating_sub(MAX_MESSAGE_LINES);
        for line in lines.take(MAX_MESSAGE_LINES) {
            text.push_str(&format!("{DIM}> {}{DIM:#}\n", display_safe(line)));
        }
        if more > 0 {
            text.push_str(&format!("{DIM}> … {more} more lines{DIM:#}\n"));
        }
    }
    let reply = contents.messages.iter().rev().find_map(|message| match message {
        Message::Assistant { text, .. } if !text.trim().is_empty() => Some(text),
        _ => None,
    });
    if let Some(reply) = reply {
        let rendered = layout.render(reply);
        let lines: Vec<&str> = rendered.lines().collect();
        let hidden = lines.len().saturating_sub(MAX_REPLY_LINES);
        if hidden > 0 {
            text.push_str(&format!("{DIM}… {hidden} earlier lines{DIM:#}\n"));
        }
        for line in &lines[hidden..] {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use skillhost_conversation::ThreadSummary;

    use super::*;

    fn recap(messages: Vec<Message>) -> String {
        let summary = ThreadSummary {
            id: "x".into(),
            agent: "worker".into(),
            title: String::new(),
            messages: messages.len(),
            began: 0,
            changed: 60_000,
            problem: None,
        };
        let contents = ThreadContents { summary, messages, skills: Vec::new() };
        let layout = MarkdownLayout { accent: None, width: 40 };
        anstream::adapter::strip_str(&format_recap(&contents, layout)).to_string()
    }

    #[test]
    fn recap_shows_last_exchange() {
        let user = |text: &str| Message::User { text: text.into() };
        let reply = |text: &str| Message::Assistant { text: text.into(), calls: Vec::new() };
        assert_eq!(recap(Vec::new()), "");
        let messages = vec![
            user("first"),
            reply("One."),
            user("a\nb\nc\nd\ne\u{1b}[2J\nf"),
            reply("*Two.*"),
            user("<kernel_notice>restarted</kernel_notice>"),
        ];
        assert_eq!(
            recap(messages),
            "resumed: 5 messages, the last one of 1970-01-01 00:01 UTC\n\
             > a\n> b\n> c\n> d\n> … 2 more lines\nTwo.\n"
        );
        let long: String = (0..20).map(|n| format!("line {n}\n\n")).collect();
        let text = recap(vec![user("go"), reply(&long)]);
        assert!(text.contains("> go\n… 27 earlier lines\n"), "{text}");
        assert!(text.ends_with("line 19\n"), "{text}");
    }
}
