//! Notation of texts in YAML.

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory as _};
use yaml_tree::{Scalar, YamlStyle, fold_lines};

use super::source::BlockScalar;

/// The notation of a text in the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScalarForm {
    /// A value on one line; empty for a missing value.
    Inline(String),
    /// A block: its header and its lines without indentation.
    Block(String, Vec<String>),
}

/// Chooses the notation of a text.
///
/// `lines` are the lines of its author; `block` is its block in the source, if it has one.
pub(super) fn choose_form(
    scalar: &Scalar,
    lines: &[String],
    block: Option<&BlockScalar>,
) -> ScalarForm {
    let text = &scalar.text;
    let written = match scalar.style {
        // The extent of a block of line breaks alone depends on its neighbors.
        YamlStyle::Literal | YamlStyle::Folded if text.trim().is_empty() => None,
        YamlStyle::Literal | YamlStyle::Folded => block.map(copy_block),
        // Lines are kept only if folding them gives the same text.
        _ if lines.len() > 1 && fold_lines(lines) == *text => {
            Some(ScalarForm::Block(">-".to_owned(), lines.to_vec()))
        }
        // A recovered text is literal: folding would join its lines.
        YamlStyle::Raw if text.contains('\n') => {
            Some(ScalarForm::Block("|-".to_owned(), text.split('\n').map(str::to_owned).collect()))
        }
        // A plain text that YAML parsed stays valid without quotes.
        YamlStyle::Plain if is_printable(text) => return ScalarForm::Inline(text.clone()),
        _ => None,
    };
    // Blocks cannot express every text, so each is parsed again before it is used.
    written
        .filter(|written| round_trips(written, text))
        .unwrap_or_else(|| ScalarForm::Inline(format_inline(scalar)))
}

/// Writes a text on one line, without quotes if that is safe for every reader.
pub(super) fn format_inline(scalar: &Scalar) -> String {
    let text = &scalar.text;
    let keeps_type = !looks_typed(text) || scalar.style == YamlStyle::Plain;
    if scalar.style == YamlStyle::Raw && text.is_empty() {
        return String::new();
    }
    if is_plain(text) && keeps_type { text.clone() } else { quote(text) }
}

fn copy_block(block: &BlockScalar) -> ScalarForm {
    // YAML infers the indentation from the first line with text, so that a leading blank there
    // requires an explicit indentation.
    let misleading = |line: &&String| line.starts_with([' ', '\t']);
    let first = block.lines.iter().position(|line| !line.trim().is_empty());
    let until_first = &block.lines[..first.map_or(block.lines.len(), |first| first + 1)];
    let indent = if until_first.iter().any(|line| misleading(&line)) { "2" } else { "" };
    let header = format!("{}{indent}{}", block.indicator, block.chomp);
    ScalarForm::Block(header, block.lines.clone())
}

/// Returns `true` if a YAML parser reads the notation as the text.
fn round_trips(written: &ScalarForm, text: &str) -> bool {
    let ScalarForm::Block(header, lines) = written else { return true };
    let mut yaml = format!("k: {header}\n");
    for line in lines {
        push_line(line, 2, &mut yaml);
    }
    // A following key shows whether the block ends where it should.
    yaml.push_str("l:\n");
    let tree = skill_format::tree::parse_frontmatter(&yaml, 1);
    let yaml_tree::Value::Mapping(root) = &tree.root else { return false };
    tree.diagnostics.is_empty()
        && root.entries.len() == 2
        && root.get("k").and_then(yaml_tree::Value::as_str) == Some(text)
}

/// Appends a line of a block; an empty line is not indented.
pub(super) fn push_line(line: &str, indent: usize, out: &mut String) {
    if !line.is_empty() {
        out.extend(std::iter::repeat_n(' ', indent));
        out.push_str(line);
    }
    out.push('\n');
}

/// Returns `true` if every reader of YAML 1.1 or 1.2 that infers no type reads a text without
/// quotes as itself.
fn is_plain(text: &str) -> bool {
    let is_indicator = |c: char| "-?:,[]{}#&*!|>'\"%@`=<~".contains(c);
    !text.chars().any(must_escape)
        && !text.is_empty()
        && text.trim() == text
        && !text.starts_with(is_indicator)
        && !text.starts_with("...")
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.ends_with(':')
        && !text.contains('\t')
}

/// Returns `true` if a reader of YAML 1.1 or 1.2 may parse a text without quotes as a number, a
/// date, a boolean or null. In doubt, the result is `true`.
pub(super) fn looks_typed(text: &str) -> bool {
    const WORDS: [&str; 11] =
        ["null", "~", "true", "false", "yes", "no", "on", "off", "y", "n", "<<"];
    // Covers hexadecimal, octal, sexagesimal numbers and timestamps of YAML 1.1.
    let numeric = |c: char| c.is_ascii_hexdigit() || "_.:+- xotzTZ".contains(c);
    let number = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    let infinite = text.to_ascii_lowercase();
    let infinite = infinite.trim_start_matches(['+', '-']);
    text.is_empty()
        || text == "="
        || WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
        || number && text.chars().all(numeric)
        || matches!(infinite, ".inf" | ".nan")
}

fn is_printable(text: &str) -> bool {
    let odd = |c: char| {
        c.is_control() && c != '\t'
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}')
    };
    !text.chars().any(odd)
}

/// Writes a text in double quotes, or in single ones if that saves escapes.
fn quote(text: &str) -> String {
    let doubles = text.matches(['"', '\\']).count();
    let singles = text.matches('\'').count();
    // Single quotes cannot express escapes of invisible characters.
    if doubles > singles && !text.chars().any(must_escape) {
        return format!("'{}'", text.replace('\'', "''"));
    }
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if must_escape(c) => match u32::from(c) {
                code @ 0..=0xFF => out.push_str(&format!("\\x{code:02X}")),
                code @ 0x100..=0xFFFF => out.push_str(&format!("\\u{code:04X}")),
                code => out.push_str(&format!("\\U{code:08X}")),
            },
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Returns `true` if a character must be escaped because it is invisible. Joiners stay, because
/// emoji and some scripts need them.
fn must_escape(c: char) -> bool {
    let hidden = c.general_category() == GeneralCategory::Format;
    !is_printable(c.encode_utf8(&mut [0; 4])) || hidden && !matches!(c, '\u{200C}' | '\u{200D}')
}
