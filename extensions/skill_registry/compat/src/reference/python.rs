//! Text functions of Python 3.11 that the reference relies on.

use std::fmt::Write as _;

use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory as _};

use super::surrogate::code_point;
use super::yaml::{StrictYamlMap, StrictYamlValue};

/// Implements `str.strip()`.
pub(super) fn str_strip(text: &str) -> &str {
    // Python also strips the separators U+001C to U+001F, which Rust does not.
    text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}'))
}

/// Implements `len(str)`.
pub(super) fn str_len(text: &str) -> usize {
    text.chars().count()
}

/// Implements `str.isalnum()` for one character.
pub(super) fn is_alnum(c: char) -> bool {
    use GeneralCategoryGroup as Group;
    matches!(c.general_category_group(), Group::Letter | Group::Number)
}

/// Implements `html.escape(str)`.
pub(super) fn html_escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#x27;"),
            c => out.push(c),
        }
    }
    out
}

/// Implements `str(value)`.
pub(super) fn to_str(value: &StrictYamlValue) -> String {
    match value {
        StrictYamlValue::Text(text) | StrictYamlValue::Odd(text) => text.clone(),
        other => {
            let mut out = String::new();
            write_repr(other, &mut out);
            out
        }
    }
}

/// Implements `repr(str)`.
pub(super) fn repr_of(text: &str) -> String {
    let mut out = String::new();
    write_text_repr(text, &mut out);
    out
}

fn write_repr(value: &StrictYamlValue, out: &mut String) {
    match value {
        StrictYamlValue::Text(text) | StrictYamlValue::Odd(text) => write_text_repr(text, out),
        StrictYamlValue::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                write_repr(item, out);
            }
            out.push(']');
        }
        StrictYamlValue::Map(StrictYamlMap(entries)) => {
            out.push('{');
            for (index, entry) in entries.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                write_text_repr(&entry.key, out);
                out.push_str(": ");
                write_repr(&entry.value, out);
            }
            out.push('}');
        }
    }
}

fn write_text_repr(text: &str, out: &mut String) {
    // Python prefers single quotes unless only they would need escapes.
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => out.extend(['\\', c]),
            c if is_printable(c) => out.push(c),
            c => {
                let _ = match code_point(c) {
                    code @ ..=0xff => write!(out, "\\x{code:02x}"),
                    code @ ..=0xffff => write!(out, "\\u{code:04x}"),
                    code => write!(out, "\\U{code:08x}"),
                };
            }
        }
    }
    out.push(quote);
}

/// Implements `str.isprintable()` for one character.
fn is_printable(c: char) -> bool {
    // Of all blanks, Python prints only U+0020 unescaped.
    use GeneralCategory as Category;
    c == ' '
        || !matches!(
            c.general_category(),
            Category::Control
                | Category::Format
                | Category::Surrogate
                | Category::PrivateUse
                | Category::Unassigned
                | Category::LineSeparator
                | Category::ParagraphSeparator
                | Category::SpaceSeparator
        )
}

/// Implements `json.dumps(value, indent=2)`; `None` for values that Python cannot serialize.
pub(super) fn json_dumps(value: &StrictYamlValue) -> Option<String> {
    let mut out = String::new();
    write_json(value, 0, &mut out).then_some(out)
}

fn write_json(value: &StrictYamlValue, depth: usize, out: &mut String) -> bool {
    let line = |depth: usize, out: &mut String| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    match value {
        StrictYamlValue::Text(text) => write_json_text(text, out),
        StrictYamlValue::Odd(_) => return false,
        // Empty collections stay on one line even with an indentation.
        StrictYamlValue::List(items) if items.is_empty() => out.push_str("[]"),
        StrictYamlValue::Map(StrictYamlMap(entries)) if entries.is_empty() => out.push_str("{}"),
        StrictYamlValue::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                line(depth + 1, out);
                if !write_json(item, depth + 1, out) {
                    return false;
                }
            }
            line(depth, out);
            out.push(']');
        }
        StrictYamlValue::Map(StrictYamlMap(entries)) => {
            out.push('{');
            for (index, entry) in entries.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                line(depth + 1, out);
                write_json_text(&entry.key, out);
                out.push_str(": ");
                if !write_json(&entry.value, depth + 1, out) {
                    return false;
                }
            }
            line(depth, out);
            out.push('}');
        }
    }
    true
}

fn write_json_text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            // `ensure_ascii` is the default: everything else is escaped.
            ' '..='~' => out.push(c),
            c => {
                // A stand-in is one surrogate; any other character beyond the first plane is a
                // pair.
                let _ = match code_point(c) {
                    code @ ..=0xffff => write!(out, "\\u{code:04x}"),
                    code => {
                        let low = 0xdc00 + (code - 0x1_0000) % 0x400;
                        write!(out, "\\u{:04x}\\u{low:04x}", 0xd7c0 + code / 0x400)
                    }
                };
            }
        }
    }
    out.push('"');
}
