//! Fragments of broken YAML that each hold one field.

use crate::build::LineRange;

/// The lines of one `key: value` or one `- item`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct YamlFragment<'a> {
    pub(crate) lines: LineRange<'a>,
    /// The key without its quotes; empty for an item.
    pub(crate) key: &'a str,
    /// The byte offset of the key in the first line.
    pub(crate) key_at: usize,
    /// The byte offset of the value in the first line.
    pub(crate) value_at: usize,
}

impl<'a> YamlFragment<'a> {
    /// Returns the rest of the first line from the value on, and the lines after it.
    pub(crate) fn value(&self) -> (&'a str, &'a str) {
        let text = self.lines.text();
        let first = text.find('\n').map_or(text.len(), |end| end + 1);
        (text[self.value_at..first].trim(), &text[first..])
    }
}

/// The construct that starts a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FragmentKind {
    Field,
    Item,
}

/// Splits lines where a field or an item starts at exactly this indentation.
///
/// `known_keys` need no blank after their colon. Returns the lines before the first fragment, and
/// the fragments.
pub(crate) fn split_fragments<'a>(
    lines: LineRange<'a>,
    indent: usize,
    kind: FragmentKind,
    known_keys: &[&str],
) -> (LineRange<'a>, Vec<YamlFragment<'a>>) {
    let mut before = LineRange { end: lines.start, ..lines };
    let mut fragments: Vec<YamlFragment<'_>> = Vec::new();
    let mut start = lines.start;
    let mut number = lines.line;
    let mut quoted_until = lines.start;
    for line in lines.text().split_inclusive('\n') {
        let end = start + line.len();
        // Lines within a quoted scalar may look like fields.
        let head =
            if start < quoted_until { None } else { fragment_head(line, indent, kind, known_keys) };
        if let Some((key, value_at)) = head {
            // The end is preliminary: `quoted_length` looks ahead, the next lines then extend it.
            let rest = LineRange { source: lines.source, start, end: lines.end, line: number };
            let fragment = YamlFragment { lines: rest, key, key_at: indent, value_at };
            quoted_until = start + quoted_length(fragment, indent, known_keys);
            fragments.push(YamlFragment { lines: LineRange { end, ..rest }, ..fragment });
        } else if let Some(fragment) = fragments.last_mut() {
            fragment.lines.end = end;
        } else {
            before.end = end;
        }
        start = end;
        number = number.saturating_add(1);
    }
    (before, fragments)
}

fn fragment_head<'a>(
    line: &'a str,
    indent: usize,
    kind: FragmentKind,
    known_keys: &[&str],
) -> Option<(&'a str, usize)> {
    let blanks = line.bytes().take_while(|byte| *byte == b' ').count();
    if blanks != indent {
        return None;
    }
    let rest = &line[indent..];
    let (key, length) = match kind {
        FragmentKind::Field => field_key(rest, known_keys)?,
        FragmentKind::Item => {
            ("", if is_blank_or_end(rest.strip_prefix('-')?) { 1 } else { return None })
        }
    };
    Some((key, indent + length))
}

/// Returns the key at the start of a line and the length up to and including its colon.
pub(crate) fn field_key<'a>(line: &'a str, known_keys: &[&str]) -> Option<(&'a str, usize)> {
    let (key, after) = match line.chars().next()? {
        quote @ ('"' | '\'') => {
            // Both quotes count; an open one makes the index run over the end, which `get` rejects.
            let key = line[1..].split(quote).next()?;
            (key, key.len() + 2)
        }
        // Other first characters are YAML indicators, comments or prose.
        first if first.is_alphanumeric() || first == '_' => {
            let ends = |c: char| c == ':' || c.is_whitespace();
            let length = line.find(ends).unwrap_or(line.len());
            (&line[..length], length)
        }
        _ => return None,
    };
    let rest = line.get(after..)?;
    let blanks = rest.len() - rest.trim_start_matches(' ').len();
    let value = rest[blanks..].strip_prefix(':')?;
    (is_blank_or_end(value) || known_keys.contains(&key)).then_some((key, after + blanks + 1))
}

fn is_blank_or_end(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n'])
}

/// Returns the minimum length of a fragment in bytes if its value is a quoted scalar over several
/// lines; zero if it is not, or if the quotes are not paired.
///
/// A line of such a scalar may look like a field without being one.
fn quoted_length(fragment: YamlFragment<'_>, indent: usize, known_keys: &[&str]) -> usize {
    let text = fragment.lines.text();
    let value = text[fragment.value_at..].trim_start_matches([' ', '\t']);
    let Some(length) = quoted_scalar_len(value) else { return 0 };
    let close = text.len() - value.len() + length;
    let end = text[close..].find('\n').map_or(text.len(), |end| close + end + 1);
    let after = text[close..end].trim_end();
    let swallowed = text[..close].lines().skip(1);
    let swallows = |line| {
        let head = fragment_head(line, indent, FragmentKind::Field, known_keys);
        head.is_some_and(|(key, _)| known_keys.contains(&key))
    };
    // Text after the closing quote, or a swallowed known field, means an unpaired quote.
    let is_comment = after.starts_with([' ', '\t']) && after.trim_start().starts_with('#');
    if (after.is_empty() || is_comment) && !swallowed.into_iter().any(swallows) { end } else { 0 }
}

/// Returns the length of the quoted scalar at the start of a text, quotes included.
pub(crate) fn quoted_scalar_len(text: &str) -> Option<usize> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' && quote == '"' {
            chars.next();
        } else if c == quote {
            // `''` inside single quotes is an escaped quote.
            let doubled = quote == '\'' && chars.next_if(|&(_, next)| next == quote).is_some();
            if !doubled {
                return Some(at + 1);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN_KEYS: [&str; 3] = ["name", "description", "license"];

    #[test]
    fn field_key_precedes_colon() {
        let cases = [
            ("name: x", Some(("name", 5))),
            ("name:\n", Some(("name", 5))),
            ("name : x", Some(("name", 6))),
            ("allowed-tools:\tx", Some(("allowed-tools", 14))),
            ("when_to_use: x", Some(("when_to_use", 12))),
            ("\"quoted key\": x", Some(("quoted key", 13))),
            ("'q': x", Some(("q", 4))),
            ("größe: x", Some(("größe", 8))),
            ("description:x", Some(("description", 12))),
            ("other:x", None),
            ("http://x", None),
            ("two words: x", None),
            ("- item: x", None),
            (" name: x", None),
            ("# name: x", None),
            ("\"open: x", None),
            ("name", None),
            ("", None),
        ];
        for (line, expected) in cases {
            assert_eq!(field_key(line, &KNOWN_KEYS), expected, "{line:?}");
        }
    }

    #[test]
    fn quoted_scalar_ends_at_own_quote() {
        let cases = [
            ("\"a\" b", Some(3)),
            (r#""a\"b""#, Some(6)),
            ("'it''s' x", Some(7)),
            ("'a\"b'", Some(5)),
            ("\"a", None),
            ("a", None),
            ("'", None),
            (r#""\"#, None),
        ];
        for (text, expected) in cases {
            assert_eq!(quoted_scalar_len(text), expected, "{text:?}");
        }
    }

    fn fragments(
        source: &str,
        indent: usize,
        kind: FragmentKind,
    ) -> (&str, Vec<(&str, u32, &str)>) {
        let lines = LineRange { source, start: 0, end: source.len(), line: 2 };
        let (before, fragments) = split_fragments(lines, indent, kind, &KNOWN_KEYS);
        let shown = fragments.iter().map(|p| (p.key, p.lines.line, p.lines.text())).collect();
        (before.text(), shown)
    }

    #[test]
    fn every_line_has_one_fragment() {
        let source = "# c\nname: x\n\ndescription: a\nprose goes on\n  k: v\n---- x\ntags:\n- a: b";
        let (before, fields) = fragments(source, 0, FragmentKind::Field);
        assert_eq!(before, "# c\n");
        assert_eq!(
            fields,
            [
                ("name", 3, "name: x\n\n"),
                ("description", 5, "description: a\nprose goes on\n  k: v\n---- x\n"),
                ("tags", 9, "tags:\n- a: b"),
            ]
        );
        let (_, items) = fragments("  - a\n    b\n  - c: d\n  -\n", 2, FragmentKind::Item);
        assert_eq!(items, [("", 2, "  - a\n    b\n"), ("", 4, "  - c: d\n"), ("", 5, "  -\n")]);
    }

    #[test]
    fn multiline_quoted_scalar_is_not_cut() {
        let whole = "a: \"one\nNote: two\nthree\"\nb: x\n";
        let (_, fields) = fragments(whole, 0, FragmentKind::Field);
        assert_eq!(fields, [("a", 2, &whole[..25]), ("b", 5, "b: x\n")]);
        for (unpaired, count) in [
            ("a: \"one\nb: two\nc: \"x\" y\n", 3),
            ("a: \"one\nlicense: two\nb: \"\n", 3),
            ("a: \"one\nb: two\n", 2),
            ("a: \"one\nb: \"#\n", 2),
        ] {
            assert_eq!(fragments(unpaired, 0, FragmentKind::Field).1.len(), count, "{unpaired}");
        }
    }
}
