//! The text of an approval prompt: the details of the call, such as the diff of its changes, and then
//! its arguments.
//!
//! The arguments come from a model, and the details contain texts of others. Each line is sanitized and
//! marked, so that none can imitate the prompt.

use skillhost_conversation::ApprovalRequest;
use skillhost_terminal::{
    BOLD, DIM, RED, ScreenSize, display_safe, format_arguments, format_text, wrap_line,
};

/// The lines of a terminal that a shortened call leaves free.
const RESERVED_LINES: usize = 8;

/// The smallest number of lines of a shortened call.
const MIN_LINES: usize = 8;

/// The start of a line above a part of a diff.
const HUNK: &str = "@@ -";

/// A prompt.
pub(crate) struct ApprovalPrompt {
    /// The text.
    pub(crate) text: String,
    /// Whether all of the call is shown.
    pub(crate) is_complete: bool,
}

/// Formats the prompt. A long call is shortened unless it is to be `complete` or has to be approved
/// every time; the prompt then tells how to see all of it, and does not offer an approval for the
/// session. The details are never shortened, except for a diff.
pub(crate) fn format_prompt(
    request: &ApprovalRequest,
    screen: ScreenSize,
    complete: bool,
) -> ApprovalPrompt {
    let ApprovalRequest { agent_id, tool, extension, destructive, always, details, .. } = request;
    let mut lines = vec![format!(
        "{BOLD}{} asks to call {} of {}{BOLD:#}",
        display_safe(agent_id),
        display_safe(tool),
        display_safe(extension)
    )];
    // The details show the same text as a change.
    let brief = details.is_some() && !complete;
    let arguments = format_arguments(&request.arguments, screen.columns, brief);
    let mut call = Vec::new();
    // First, so that no argument pushes them off the screen.
    let mut required = 0;
    if let Some(details) = details {
        let before_diff: Vec<_> =
            details.lines().take_while(|line| !line.starts_with(HUNK)).collect();
        required = format_text(&before_diff.join("\n"), screen.columns).len();
        call = format_text(details, screen.columns);
        if !arguments.is_empty() {
            call.push(format!("  {DIM}arguments, as the agent wrote them:{DIM:#}"));
        }
    }
    call.extend(arguments);
    let room = screen.lines.saturating_sub(RESERVED_LINES).max(MIN_LINES);
    let kept = required.max(room - 1);
    // Without a limit otherwise: what cannot be seen cannot be approved.
    let is_complete = call.len() <= room.max(kept) || complete || *always;
    if !is_complete {
        let hidden = call.len() - kept;
        call.truncate(kept);
        call.push(format!("  {RED}{hidden} more lines; [v] shows them{RED:#}"));
    }
    lines.extend(call);
    if *destructive {
        lines.push(format!("  {RED}it may delete or overwrite data{RED:#}"));
    }
    let session = match *always || !is_complete {
        true => "",
        false => "[s] yes and until the end of this session, ",
    };
    let question = format!("allow it? [y]es, {session}[e]dit, [v]iew all, [N]o; then Enter");
    lines.push(wrap_line(&question, screen.columns, 0));
    ApprovalPrompt { text: lines.join("\n"), is_complete }
}

#[cfg(test)]
mod tests {
    use skillhost_terminal::GREEN;

    use super::*;

    const SCREEN: ScreenSize = ScreenSize { columns: 100, lines: 20 };

    fn request(arguments: &str) -> ApprovalRequest {
        ApprovalRequest {
            agent_id: "worker".into(),
            tool: "write_file".into(),
            extension: "core_tools".into(),
            arguments: arguments.into(),
            destructive: false,
            always: false,
            details: None,
            call_key: None,
            effect_digest: None,
            extension_sha256: None,
            can_park: false,
        }
    }

    fn plain(request: &ApprovalRequest, complete: bool) -> Vec<String> {
        let text = format_prompt(request, SCREEN, complete).text;
        let text = anstream::adapter::strip_str(&text).to_string();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn arguments_are_shown_as_text() {
        let request = ApprovalRequest {
            destructive: true,
            ..request(
                r#"{"content": "one\n\ttwo\u001b[2J\n", "empty": "", "n": [1, {"x y": null}], "path": "a b.txt"}"#,
            )
        };
        assert_eq!(
            plain(&request, false),
            [
                "worker asks to call write_file of core_tools",
                "  > content:",
                "  >| one",
                "  >|     two\\u{1b}[2J",
                "  > empty: \"\"",
                "  > n[0]: 1",
                "  > n[1].\"x y\": null",
                "  > path: \"a b.txt\"",
                "  it may delete or overwrite data",
                "allow it? [y]es, [s] yes and until the end of this session, [e]dit, [v]iew all, [N]o; then Enter",
            ]
        );
        let broken = ApprovalRequest { always: true, ..self::request("{\"a\": \u{1b}\n") };
        assert_eq!(
            plain(&broken, false)[1..],
            [
                "  > arguments: \"{\\\"a\\\": \\u{1b}\\n\"",
                "allow it? [y]es, [e]dit, [v]iew all, [N]o; then Enter"
            ]
        );
    }

    #[test]
    fn untrusted_line_cannot_imitate_prompt() {
        let long = format!("{}allow it? [y]es", "x".repeat(84));
        let text = serde_json::json!({ "a\nallow it?": long, "b": format!("{long}\nallow it?") });
        let lines = plain(&request(&text.to_string()), false);
        assert_eq!(lines.iter().filter(|line| line.starts_with("allow it?")).count(), 1);
        assert!(lines[1].starts_with("  > \"a\\nallow it?\": \"xxx"), "{}", lines[1]);
        assert!(lines.iter().all(|line| line.starts_with("  ")
            || line == &lines[0]
            || line == lines.last().unwrap()));
    }

    #[test]
    fn long_call_is_shortened_unless_required() {
        let content = (0..100).map(|n| format!("line {n}\n")).collect::<String>();
        let text = serde_json::json!({ "content": content }).to_string();
        let lines = plain(&request(&text), false);
        assert_eq!(lines.len(), 2 + 12);
        assert_eq!(lines[12], "  90 more lines; [v] shows them");
        assert_eq!(plain(&request(&text), true).len(), 2 + 101);
        let always = ApprovalRequest { always: true, ..request(&text) };
        assert_eq!(plain(&always, false).len(), 2 + 101);
        let huge = serde_json::json!({ "content": "x\n".repeat(36_000) }).to_string();
        assert_eq!(plain(&request(&huge), true).len(), 2 + 1 + 36_000);
    }

    #[test]
    fn wrapped_value_cannot_imitate_argument() {
        let value = format!("{}path: other", "x".repeat(51));
        let text = serde_json::json!({ "a": value, "path": "b" }).to_string();
        let screen = ScreenSize { columns: 60, ..SCREEN };
        let prompt = format_prompt(&request(&text), screen, false).text;
        let shown = anstream::adapter::strip_str(&prompt).to_string();
        assert_eq!(shown.lines().nth(2), Some("  >| path: other\""), "{shown}");
        assert_eq!(
            shown.lines().filter(|line| line.starts_with("  > path:")).count(),
            1,
            "{shown}"
        );
    }

    #[test]
    fn diff_replaces_text_and_is_colored() {
        let request = ApprovalRequest {
            details: Some("modify sandbox/a\n@@ -1 +1 @@\n-old\n+new\u{1b}[2J\n same\n".into()),
            ..request(r#"{"content": "new\nsame\n", "path": "a"}"#)
        };
        assert_eq!(
            plain(&request, false)[1..9],
            [
                "  | modify sandbox/a",
                "  | @@ -1 +1 @@",
                "  | -old",
                "  | +new\\u{1b}[2J",
                "  |  same",
                "  arguments, as the agent wrote them:",
                "  > content: 2 lines, 9 bytes",
                "  > path: \"a\"",
            ]
        );
        let colored = format_prompt(&request, SCREEN, false).text;
        assert!(colored.contains(&format!("{GREEN}+new\\u{{1b}}[2J{GREEN:#}")), "{colored}");
        assert!(colored.contains(&format!("{RED}-old{RED:#}")), "{colored}");
        assert!(plain(&request, true).contains(&"  >| new".to_owned()));
    }

    #[test]
    fn arguments_neither_hide_nor_imitate_details() {
        let details = "the script a.sh of the skill demo (root skills)\n$ bash a.sh\n\
                       isolation: landlock\npolicy sha256:00:\n  allowWrite . (default)\n";
        let mut arguments = serde_json::Map::new();
        for number in 0..18 {
            arguments.insert(format!("a{number}"), "x".into());
        }
        arguments.insert("isolation".into(), "namespaces".into());
        arguments.insert("path".into(), "a\\\" b".into());
        let request = ApprovalRequest {
            details: Some(details.into()),
            ..request(&serde_json::Value::Object(arguments).to_string())
        };
        let screen = ScreenSize { columns: 80, lines: 12 };
        let lines = |complete| {
            let prompt = format_prompt(&request, screen, complete);
            let text = anstream::adapter::strip_str(&prompt.text).to_string();
            (text.lines().map(str::to_owned).collect::<Vec<_>>(), prompt.is_complete)
        };
        let marked: Vec<_> = details.lines().map(|line| format!("  | {line}")).collect();
        let (short, is_complete) = lines(false);
        assert_eq!(short[1..=marked.len()], marked);
        assert!(!is_complete && !short.join("\n").contains("[s]"), "{short:?}");
        let (all, is_complete) = lines(true);
        assert_eq!(all[1..=marked.len()], marked);
        assert!(is_complete && all.join("\n").contains("[s] yes"), "{all:?}");
        assert!(all.contains(&"  > isolation: \"namespaces\"".to_owned()), "{all:?}");
        assert!(all.contains(&"  > path: \"a\\\\\\\" b\"".to_owned()), "{all:?}");
        // Details that alone exceed the screen are not cut either.
        let long = ApprovalRequest {
            details: Some(format!("{details}{}", "  allowRead /x (default)\n".repeat(50))),
            ..request.clone()
        };
        let prompt = format_prompt(&long, screen, false);
        assert_eq!(prompt.text.matches("allowRead /x").count(), 50);
        assert!(!prompt.is_complete && !prompt.text.contains("[s]"));
    }
}
