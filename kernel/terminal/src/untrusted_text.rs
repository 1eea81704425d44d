//! Texts of others as lines that cannot imitate those of the program: the arguments of tool calls,
//! diffs, and the subjects of questions.
//!
//! Each line is sanitized and marked; those of arguments have another mark than other texts. Lines
//! that are too long for the terminal are marked again where they continue.

use serde_json::Value;
use unicode_width::UnicodeWidthChar as _;

use crate::output::{DIM, GREEN, RED, display_safe};

/// The length, in characters, up to which a text is on the line of its name.
const MAX_INLINE_CHARS: usize = 100;

/// The number of lines of the details that a command prints, larger than their limit.
const MAX_LINES: usize = 12_000;

/// The mark of a line of the details.
const MARK: &str = "  | ";

/// The mark of an argument, and that of the further lines of one.
const ARGUMENT_MARK: &str = "  > ";
const BLOCK_MARK: &str = "  >| ";

/// The start of a line above a part of a diff.
const HUNK: &str = "@@ -";

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

/// Formats the fields of a JSON object, such as the arguments of a call, in their order and nested
/// ones with the path of their names. Another text is shown as it is written. With `brief`, a text of
/// several lines is shown only with its size.
#[must_use]
pub fn format_arguments(arguments: &str, columns: usize, brief: bool) -> Vec<String> {
    parse_arguments(arguments).iter().flat_map(|it| it.format(columns, brief)).collect()
}

/// Marks each line of a text; the lines of a diff are colored.
#[must_use]
pub fn format_text(text: &str, columns: usize) -> Vec<String> {
    mark_lines(text, columns, MARK)
}

/// Returns the arguments of a call on one line, texts of several lines only with their size.
#[must_use]
pub fn summarize_arguments(arguments: &str) -> String {
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

    #[test]
    fn summary_has_sizes_of_texts() {
        assert_eq!(
            summarize_arguments(r#"{"content": "a\nb\n", "path": "x\u001b[2J"}"#),
            "content: 2 lines, path: x\\u{1b}[2J"
        );
        assert_eq!(summarize_arguments("{}"), "");
    }

    #[test]
    fn details_beyond_limit_are_counted() {
        let long = format_details(&"x\n".repeat(MAX_LINES + 2));
        assert_eq!(long.len(), MAX_LINES + 1);
        assert!(long[MAX_LINES].contains("2 more lines are not shown"), "{}", long[MAX_LINES]);
    }
}
