//! The text of an approval prompt: the details of the call, such as the diff of its changes, and then
//! its arguments.
//!
//! The arguments come from a model, and the details contain texts of others. Each line is sanitized and
//! marked, so that none can imitate the prompt; those of arguments have another mark than the details.
//! Lines that are too long for the terminal are marked again where they continue.

use serde_json::Value;
use skillhost_conversation::ApprovalRequest;
use skillhost_terminal::{BOLD, DIM, GREEN, RED, ScreenSize, display_safe, wrap_line};
use unicode_width::UnicodeWidthChar as _;

/// The length, in characters, up to which a text is on the line of its name.
const MAX_INLINE_CHARS: usize = 100;

/// The number of lines of the details that a command prints, larger than their limit.
const MAX_LINES: usize = 12_000;

/// The lines of a terminal that a shortened call leaves free.
const RESERVED_LINES: usize = 8;

/// The smallest number of lines of a shortened call.
const MIN_LINES: usize = 8;

/// The mark of a line of the details.
const MARK: &str = "  | ";

/// The mark of an argument, and that of the further lines of one.
const ARGUMENT_MARK: &str = "  > ";
const BLOCK_MARK: &str = "  >| ";

/// The start of a line above a part of a diff.
const HUNK: &str = "@@ -";

/// A prompt.
pub(crate) struct ApprovalPrompt {
    /// The text.
    pub(crate) text: String,
    /// Whether all of the call is shown.
    pub(crate) is_complete: bool,
}

/// A named argument, as a person reads it.
#[derive(Debug, PartialEq, Eq)]
enum ArgumentText {
    /// A short text, on the line of its name.
    Short { name: String, text: String },
    /// Another value, on the line of its name.
    Inline { name: String, value: String },
    /// A text of several lines.
    Block { name: String, text: String },
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
    let arguments = parse_arguments(&request.arguments);
    let mut call = Vec::new();
    // First, so that no argument pushes them off the screen.
    let mut required = 0;
    if let Some(details) = details {
        let before_diff: Vec<_> =
            details.lines().take_while(|line| !line.starts_with(HUNK)).collect();
        required = mark_lines(&before_diff.join("\n"), screen.columns, MARK).len();
        call = mark_lines(details, screen.columns, MARK);
        if !arguments.is_empty() {
            call.push(format!("  {DIM}arguments, as the agent wrote them:{DIM:#}"));
        }
    }
    for argument in &arguments {
        // The details show the same text as a change.
        call.extend(argument.format(screen.columns, details.is_some() && !complete));
    }
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

/// Formats the details of a call, each line marked so that none can imitate the prompt. Details
/// beyond the limit end with a note on the omitted lines.
#[must_use]
pub fn format_details(details: &str) -> Vec<String> {
    let lines = details.lines().count();
    let shown: Vec<_> = details.lines().take(MAX_LINES).collect();
    let mut rendered = mark_lines(&shown.join("\n"), usize::MAX, MARK);
    if lines > MAX_LINES {
        rendered.push(format!("  {RED}{} more lines are not shown{RED:#}", lines - MAX_LINES));
    }
    rendered
}

/// Returns the arguments of a call on one line, texts of several lines only with their size.
pub(crate) fn summarize_arguments(arguments: &str) -> String {
    let parts: Vec<_> = parse_arguments(arguments)
        .iter()
        .map(|argument| match argument {
            ArgumentText::Short { name, text } => {
                // A text whose limits cannot be seen is quoted.
                let is_plain = !text.is_empty() && text.trim() == text;
                let value = if is_plain { text.clone() } else { format!("{text:?}") };
                format!("{}: {}", clean(name), clean(&value))
            }
            ArgumentText::Inline { name, value } => format!("{}: {}", clean(name), clean(value)),
            ArgumentText::Block { name, text } => {
                format!("{}: {} lines", clean(name), text.lines().count())
            }
        })
        .collect();
    parts.join(", ")
}

/// Returns the arguments in their order, nested ones with the path of their names.
fn parse_arguments(arguments: &str) -> Vec<ArgumentText> {
    let mut texts = Vec::new();
    match serde_json::from_str::<Value>(arguments) {
        Ok(Value::Object(fields)) => {
            for (name, value) in fields {
                add_argument(&mut texts, quote_name(&name), value);
            }
        }
        // What is not an object is shown as the model wrote it.
        _ => texts.push(ArgumentText::Inline {
            name: "arguments".to_owned(),
            value: format!("{arguments:?}"),
        }),
    }
    texts
}

fn add_argument(texts: &mut Vec<ArgumentText>, name: String, value: Value) {
    match value {
        Value::String(text) if text.contains('\n') || text.chars().count() > MAX_INLINE_CHARS => {
            texts.push(ArgumentText::Block { name, text });
        }
        Value::String(text) => {
            texts.push(ArgumentText::Short { name, text });
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.into_iter().enumerate() {
                add_argument(texts, format!("{name}[{index}]"), item);
            }
        }
        Value::Object(fields) if !fields.is_empty() => {
            for (key, field) in fields {
                add_argument(texts, format!("{name}.{}", quote_name(&key)), field);
            }
        }
        other => texts.push(ArgumentText::Inline { name, value: other.to_string() }),
    }
}

/// Quotes a text; characters that are not printable are escaped when the prompt is printed.
fn quote_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Quotes a name that could pass for something else.
fn quote_name(name: &str) -> String {
    let is_plain = !name.is_empty()
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '/'));
    if is_plain { name.to_owned() } else { format!("{name:?}") }
}

impl ArgumentText {
    /// Formats the lines of an argument; with `brief`, a block only with its size.
    fn format(&self, columns: usize, brief: bool) -> Vec<String> {
        let format_line = |name: &str, value: &str| {
            let line = format!("{}: {}", clean(name), clean(value));
            let mut parts = wrap(&line, columns, BLOCK_MARK.len()).into_iter();
            let first = parts.next().map(|part| format!("{ARGUMENT_MARK}{part}"));
            // With another mark, so that the rest of a value cannot pass for another argument.
            first.into_iter().chain(parts.map(|part| format!("{BLOCK_MARK}{part}"))).collect()
        };
        match self {
            Self::Short { name, text } => format_line(name, &quote_text(text)),
            Self::Inline { name, value } => format_line(name, value),
            Self::Block { name, text } if brief => {
                let lines = text.lines().count();
                let bytes = text.len();
                vec![format!("{ARGUMENT_MARK}{}: {lines} lines, {bytes} bytes", clean(name))]
            }
            Self::Block { name, text } => {
                let mut lines = vec![format!("{ARGUMENT_MARK}{}:", clean(name))];
                lines.extend(mark_lines(text, columns, BLOCK_MARK));
                if !text.ends_with('\n') {
                    lines.push(format!("  {DIM}(no line break at the end){DIM:#}"));
                }
                lines
            }
        }
    }
}

/// Makes a text printable on one line.
fn clean(text: &str) -> String {
    display_safe(text).replace('\n', "\\n").replace('\t', " ")
}

/// Marks each line of a text; the lines of a diff are colored.
fn mark_lines(text: &str, columns: usize, mark: &str) -> Vec<String> {
    let is_diff = text.lines().any(|line| line.starts_with(HUNK));
    let mut marked = Vec::new();
    for line in text.lines() {
        let style = match line.as_bytes().first() {
            Some(b'+') if is_diff => GREEN,
            Some(b'-') if is_diff => RED,
            Some(b'@') if is_diff => DIM,
            _ => anstyle::Style::new(),
        };
        let line = display_safe(line).replace('\t', "    ");
        for part in wrap(&line, columns, mark.len()) {
            marked.push(format!("{mark}{style}{part}{style:#}"));
        }
    }
    marked
}

/// Cuts a line into parts that fit into the columns behind an indentation.
fn wrap(line: &str, columns: usize, indent: usize) -> Vec<String> {
    let room = columns.saturating_sub(indent).max(16);
    let (mut parts, mut part, mut used) = (Vec::new(), String::new(), 0);
    for character in line.chars() {
        let width = character.width().unwrap_or(0);
        if used + width > room {
            parts.push(std::mem::take(&mut part));
            used = 0;
        }
        part.push(character);
        used += width;
    }
    parts.push(part);
    parts
}

#[cfg(test)]
mod tests {
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
    fn summary_has_sizes_of_texts() {
        assert_eq!(
            summarize_arguments(r#"{"content": "a\nb\n", "path": "x\u001b[2J"}"#),
            "content: 2 lines, path: x\\u{1b}[2J"
        );
        assert_eq!(summarize_arguments("{}"), "");
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
        let huge = serde_json::json!({ "content": "x\n".repeat(3 * MAX_LINES) }).to_string();
        assert_eq!(plain(&request(&huge), true).len(), 2 + 1 + 3 * MAX_LINES);
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

    #[test]
    fn details_beyond_limit_are_counted() {
        let long = format_details(&"x\n".repeat(MAX_LINES + 2));
        assert_eq!(long.len(), MAX_LINES + 1);
        assert!(long[MAX_LINES].contains("2 more lines are not shown"), "{}", long[MAX_LINES]);
    }
}
