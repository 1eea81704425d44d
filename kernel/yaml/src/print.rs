//! The printer of trees as YAML.

use crate::tree::{Mapping, MappingEntry, Scalar, Value, YamlStyle};

/// The maximum length of a key without `? `; YAML searches only this far for its colon.
const SIMPLE_KEY: usize = 1_000;

const STEP: usize = 2;

/// Prints a map as YAML.
///
/// [`parse_recovering`](crate::parse_recovering) parses the text back to the
/// [same content](Mapping::same_content) if it is within the budget. Styles are kept where they can
/// express the text. Comments, blank lines, anchors and tags are not in the tree and therefore not
/// in the text.
#[must_use]
pub fn print_tree(root: &Mapping) -> String {
    let mut text = String::new();
    print_entries(&root.entries, 0, &mut text);
    text
}

fn print_entries(entries: &[MappingEntry], indent: usize, out: &mut String) {
    for (index, MappingEntry { key, value }) in entries.iter().enumerate() {
        // The first key shares the line of its list item, the others start lines of their own.
        if index > 0 || out.ends_with('\n') {
            push_indent(indent, out);
        }
        let printed = format_inline(key, false);
        if printed.chars().count() > SIMPLE_KEY {
            out.push_str("? ");
            out.push_str(&printed);
            out.push('\n');
            push_indent(indent, out);
        } else {
            out.push_str(&printed);
        }
        out.push(':');
        print_value(value, indent, out);
    }
}

/// Prints a value after its `:` or `-` and ends the line.
fn print_value(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Scalar(scalar) => match format_block(scalar, indent + STEP) {
            Some(block) => {
                out.push(' ');
                out.push_str(&block);
            }
            None => {
                let printed = format_inline(scalar, false);
                if !printed.is_empty() {
                    out.push(' ');
                    out.push_str(&printed);
                }
                out.push('\n');
            }
        },
        Value::Mapping(mapping) if mapping.entries.is_empty() => out.push_str(" {}\n"),
        Value::Mapping(mapping) => {
            out.push('\n');
            print_entries(&mapping.entries, indent + STEP, out);
        }
        Value::Sequence(sequence) if sequence.items.is_empty() => out.push_str(" []\n"),
        Value::Sequence(sequence) => match format_flow(sequence.flow, &sequence.items) {
            Some(flow) => {
                out.push(' ');
                out.push_str(&flow);
                out.push('\n');
            }
            None => {
                out.push('\n');
                for item in &sequence.items {
                    push_indent(indent + STEP, out);
                    out.push('-');
                    match item {
                        Value::Mapping(mapping) if !mapping.entries.is_empty() => {
                            out.push(' ');
                            print_entries(&mapping.entries, indent + 2 * STEP, out);
                        }
                        _ => print_value(item, indent + STEP, out),
                    }
                }
            }
        },
    }
}

fn push_indent(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

/// Formats a list of scalars in brackets if it was written so.
fn format_flow(flow: bool, items: &[Value]) -> Option<String> {
    let scalar = |item: &Value| match item {
        Value::Scalar(scalar) => Some(format_inline(scalar, true)),
        Value::Sequence(_) | Value::Mapping(_) => None,
    };
    if !flow {
        return None;
    }
    let items: Vec<String> = items.iter().map(scalar).collect::<Option<_>>()?;
    Some(format!("[{}]", items.join(", ")))
}

/// Formats a scalar on one line.
fn format_inline(scalar: &Scalar, in_flow: bool) -> String {
    let text = &scalar.text;
    match scalar.style {
        YamlStyle::SingleQuoted if is_printable(text) => single_quoted(text),
        YamlStyle::SingleQuoted | YamlStyle::DoubleQuoted => double_quoted(text),
        _ if is_plain(text, in_flow) => text.clone(),
        _ if text.is_empty() && !in_flow => String::new(),
        _ if is_printable(text) && text.contains(['"', '\\']) => single_quoted(text),
        _ => double_quoted(text),
    }
}

/// Returns whether a text reads back unchanged without quotes in any scalar position.
fn is_plain(text: &str, in_flow: bool) -> bool {
    let opens_something = |c: char| "-?:,[]{}#&*!|>'\"%@`=<~.".contains(c);
    let fits_flow = |c: char| c.is_alphanumeric() || " _-./+*()".contains(c);
    is_printable(text)
        && !text.is_empty()
        && !text.starts_with(opens_something)
        && text.trim() == text
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.ends_with(':')
        && !text.contains('\t')
        && (!in_flow || text.chars().all(fits_flow) && !text.ends_with('-'))
}

/// Returns whether a text can be quoted on one line without escapes.
fn is_printable(text: &str) -> bool {
    text.chars().all(|c| c == '\t' || is_printable_char(c))
}

fn is_printable_char(c: char) -> bool {
    // Line separators and the byte order mark print but do not survive a YAML reader.
    !(c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}'))
}

fn single_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn double_quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if is_printable_char(c) => out.push(c),
            c => out.push_str(&format!("\\U{:08X}", u32::from(c))),
        }
    }
    out.push('"');
    out
}

/// Formats a text over several lines as a block scalar if that can express it.
fn format_block(scalar: &Scalar, indent: usize) -> Option<String> {
    let content = scalar.text.strip_suffix('\n').unwrap_or(&scalar.text);
    let folded = scalar.style == YamlStyle::Folded && !content.contains('\n');
    let literal = match scalar.style {
        YamlStyle::Literal | YamlStyle::Folded => true,
        YamlStyle::Plain | YamlStyle::Raw | YamlStyle::Alias => content.contains('\n'),
        YamlStyle::SingleQuoted | YamlStyle::DoubleQuoted => false,
    };
    // A block has no escapes, and trailing blanks in it would be invisible to the author.
    let is_line = |line: &str| {
        line.trim() == line && is_printable(line) && !line.contains('\t')
            || line.trim_end() == line && line.starts_with(' ') && is_printable(line)
    };
    // A first line with a blank would need an indentation indicator.
    let opens_with_text = content.starts_with(|c: char| !c.is_whitespace());
    if !literal || !opens_with_text || content.ends_with('\n') || !content.split('\n').all(is_line)
    {
        return None;
    }
    let indicator = if folded { '>' } else { '|' };
    let chomp = if content.len() == scalar.text.len() { "-" } else { "" };
    let mut out = format!("{indicator}{chomp}\n");
    for line in content.split('\n') {
        // Empty lines stay without indentation, or they would have trailing blanks.
        if !line.is_empty() {
            push_indent(indent, &mut out);
            out.push_str(line);
        }
        out.push('\n');
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::print_tree;
    use crate::tree::{Mapping, MappingEntry, Scalar, Sequence, Span, Value, YamlStyle};
    use crate::{NoticeKind, parse_recovering};

    fn scalar(text: &str, style: YamlStyle) -> Scalar {
        Scalar { text: text.to_owned(), style, span: Span::default() }
    }

    fn any_text() -> impl Strategy<Value = String> {
        prop_oneof![
            4 => "[a-z ]{0,12}",
            2 => "[-a-zA-Z0-9 :#,\\[\\]{}&*!|>'\"%@`\\\\.?=~<\t\n]{0,16}",
            1 => any::<String>(),
            1 => "(line one|  more|\t|é|\n|\r|\u{85}|\u{feff}|---|\\.\\.\\.|# x|a: b|- ){0,6}",
            1 => "[a-z]{900,1200}",
        ]
    }

    fn any_style() -> impl Strategy<Value = YamlStyle> {
        proptest::sample::select(vec![
            YamlStyle::Plain,
            YamlStyle::SingleQuoted,
            YamlStyle::DoubleQuoted,
            YamlStyle::Literal,
            YamlStyle::Folded,
            YamlStyle::Alias,
            YamlStyle::Raw,
        ])
    }

    fn any_scalar() -> impl Strategy<Value = Scalar> {
        (any_text(), any_style()).prop_map(|(text, style)| scalar(&text, style))
    }

    fn mapping(entries: Vec<(Scalar, Value)>) -> Mapping {
        let entries = entries.into_iter().map(|(key, value)| MappingEntry { key, value }).collect();
        Mapping { entries, ..Mapping::default() }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        any_scalar().prop_map(Value::Scalar).prop_recursive(5, 24, 4, |inner| {
            prop_oneof![
                (proptest::collection::vec(inner.clone(), 0..4), any::<bool>()).prop_map(
                    |(items, flow)| {
                        let span = Span::default();
                        Value::Sequence(Sequence { items, flow, span, range: 0..0 })
                    }
                ),
                proptest::collection::vec((any_scalar(), inner), 0..4)
                    .prop_map(|entries| Value::Mapping(mapping(entries))),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn printed_tree_parses_back(
            entries in proptest::collection::vec((any_scalar(), any_value()), 0..5)
        ) {
            let root = mapping(entries);
            let printed = print_tree(&root);
            let tree = parse_recovering(&printed, 2, &[]);
            let is_duplicate = |kind: &NoticeKind| matches!(kind, NoticeKind::DuplicateKey { .. });
            prop_assert!(
                tree.notices.iter().all(|notice| is_duplicate(&notice.kind)),
                "{:?}\n{printed}", tree.notices
            );
            prop_assert!(tree.root.same_content(&Value::Mapping(root)), "{printed}\n{:?}", tree.root);
        }
    }

    #[test]
    fn print_keeps_common_notation() {
        let written = "name: beads\n\
            description: >-\n  Counts beads. Use when the user asks.\n\
            license: 'MIT: mostly'\n\
            allowed-tools: [Read, \"Bash(git:*)\"]\n\
            metadata:\n  version: 1.10\n  empty:\n  none: {}\n  \
            steps:\n    - one\n    - kind: two\n      deep:\n        -\n          - x\n    - []\n  \
            text: |\n    first\n\n      indented\n";
        let Value::Mapping(root) = parse_recovering(written, 2, &[]).root else {
            panic!("not a map")
        };
        assert_eq!(print_tree(&root), written);
    }

    #[test]
    fn ambiguous_text_is_quoted() {
        let cases = [
            ("", ""),
            ("1.10", "1.10"),
            ("yes: no", "\"yes: no\""),
            ("say \"hi\": x", "'say \"hi\": x'"),
            ("# no comment", "\"# no comment\""),
            ("*alias", "\"*alias\""),
            (" padded ", "\" padded \""),
            ("bell\u{7}", "\"bell\\U00000007\""),
            ("it's fine", "it's fine"),
            ("two\nlines", "|-\n  two\n  lines"),
            ("two\nlines\n", "|\n  two\n  lines"),
            (" \nblank", "\" \\nblank\""),
        ];
        for (text, printed) in cases {
            let value = Value::Scalar(scalar(text, YamlStyle::Plain));
            let root = mapping(vec![(scalar("k", YamlStyle::Plain), value)]);
            assert_eq!(
                print_tree(&root),
                format!("k: {printed}").trim_end().to_owned() + "\n",
                "{text:?}"
            );
        }
    }
}
