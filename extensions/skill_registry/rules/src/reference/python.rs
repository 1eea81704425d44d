//! What Python does with text and the reference relies on, as Python 3.11 does it.

use std::fmt::Write as _;

use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory as _};

use super::yaml::{StrictYamlMap, StrictYamlValue};

/// Where the stand-ins of lone surrogates begin.
///
/// A Python text can hold half of a UTF-16 pair, which `"\ud83d"` in YAML makes, and Rust's cannot.
/// The last private-use characters of Unicode stand for them, in the order of the surrogates.
const STAND_INS: u32 = 0x10_f800;
const SURROGATES: std::ops::RangeInclusive<u32> = 0xd800..=0xdfff;

/// Returns the stand-in of a surrogate.
pub(super) fn surrogate_standin(code: u32) -> Option<char> {
    SURROGATES.contains(&code).then(|| char::from_u32(code - SURROGATES.start() + STAND_INS))?
}

/// Returns the code of a character, that of the surrogate for a stand-in.
fn code_point(c: char) -> u32 {
    match u32::from(c) {
        code @ STAND_INS.. => code - STAND_INS + SURROGATES.start(),
        code => code,
    }
}

/// Tells whether a text can be written as UTF-8.
pub(super) fn is_encodable(text: &str) -> bool {
    !text.chars().any(|c| u32::from(c) >= STAND_INS)
}

/// Makes a text fit to be written: every stand-in becomes the replacement character.
pub(super) fn make_encodable(text: String) -> String {
    if is_encodable(&text) {
        return text;
    }
    let replaced = |c| if u32::from(c) >= STAND_INS { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().map(replaced).collect()
}

/// `str.strip()`.
pub(super) fn str_strip(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}'))
}

/// `len(str)`.
pub(super) fn str_len(text: &str) -> usize {
    text.chars().count()
}

/// `str.isalnum()` of one character.
pub(super) fn is_alnum(c: char) -> bool {
    use GeneralCategoryGroup as Group;
    matches!(c.general_category_group(), Group::Letter | Group::Number)
}

/// `html.escape(str)`.
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

/// `str(value)`.
pub(super) fn to_str(value: &StrictYamlValue) -> String {
    match value {
        StrictYamlValue::Text(text) | StrictYamlValue::Odd(text) => text.clone(),
        other => {
            let mut out = String::new();
            repr(other, &mut out);
            out
        }
    }
}

/// `repr(str)`.
pub(super) fn repr_of(text: &str) -> String {
    let mut out = String::new();
    repr_text(text, &mut out);
    out
}

fn repr(value: &StrictYamlValue, out: &mut String) {
    match value {
        StrictYamlValue::Text(text) | StrictYamlValue::Odd(text) => repr_text(text, out),
        StrictYamlValue::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                repr(item, out);
            }
            out.push(']');
        }
        StrictYamlValue::Map(StrictYamlMap(entries)) => {
            out.push('{');
            for (index, entry) in entries.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                repr_text(&entry.key, out);
                out.push_str(": ");
                repr(&entry.value, out);
            }
            out.push('}');
        }
    }
}

fn repr_text(text: &str, out: &mut String) {
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

/// `str.isprintable()` of one character.
fn is_printable(c: char) -> bool {
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

/// `json.dumps(value, indent=2)`; nothing for what Python does not make JSON of.
pub(super) fn json_dumps(value: &StrictYamlValue) -> Option<String> {
    let mut out = String::new();
    json_value(value, 0, &mut out).then_some(out)
}

fn json_value(value: &StrictYamlValue, depth: usize, out: &mut String) -> bool {
    let line = |depth: usize, out: &mut String| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    match value {
        StrictYamlValue::Text(text) => json_text(text, out),
        StrictYamlValue::Odd(_) => return false,
        StrictYamlValue::List(items) if items.is_empty() => out.push_str("[]"),
        StrictYamlValue::Map(StrictYamlMap(entries)) if entries.is_empty() => out.push_str("{}"),
        StrictYamlValue::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                line(depth + 1, out);
                if !json_value(item, depth + 1, out) {
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
                json_text(&entry.key, out);
                out.push_str(": ");
                if !json_value(&entry.value, depth + 1, out) {
                    return false;
                }
            }
            line(depth, out);
            out.push('}');
        }
    }
    true
}

fn json_text(text: &str, out: &mut String) {
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
            ' '..='~' => out.push(c),
            c => {
                // A stand-in is one surrogate, any other character beyond the first plane two.
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
