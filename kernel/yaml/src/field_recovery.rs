//! The recovery of broken YAML: fields are read one by one, invalid ones as text.

use crate::build::{self, LineRange, ParseBudget, ParsedDocument, YamlError};
use crate::fragment::{self, FragmentKind, YamlFragment};
use crate::notice::{MISSING_BLANK, Notice, NoticeKind, excerpt};
use crate::tree::{Mapping, MappingEntry, Scalar, Sequence, Span, Value, YamlStyle};

/// The maximum depth of a field that is read on its own inside a broken one.
const MAX_DEPTH: usize = 3;

/// Reads the fields of a broken text one by one; `None` if no line starts a field.
pub(crate) fn recover_fields(
    lines: LineRange<'_>,
    error: &YamlError,
    known_keys: &[&str],
    budget: &mut ParseBudget,
) -> Option<(Mapping, Vec<Notice>, Option<Span>)> {
    let mut reader = RecoveryReader { known_keys, budget, notices: Vec::new(), gap: None };
    let entries = reader.read_fields(lines, 0, &FieldPath::Root)?;
    if reader.notices.is_empty() {
        // Every field is valid on its own; only their combination is not.
        let kind = NoticeKind::NotCombined { reason: error.reason.clone() };
        reader.notices.push(Notice::new(kind, error.span));
    }
    let span = entries.first().map_or(Span { line: lines.line, column: 1 }, |e| e.key.span);
    let root = Mapping { entries, flow: false, span, range: lines.start..lines.end };
    Some((root, reader.notices, reader.gap))
}

struct RecoveryReader<'b> {
    known_keys: &'b [&'b str],
    budget: &'b mut ParseBudget,
    notices: Vec<Notice>,
    /// The first position of lost content.
    gap: Option<Span>,
}

/// The path of a field in messages: its key and those of the enclosing maps.
enum FieldPath<'a> {
    Root,
    Field { parent: &'a FieldPath<'a>, key: &'a str },
}

impl FieldPath<'_> {
    fn depth(&self) -> usize {
        match self {
            Self::Root => 0,
            Self::Field { parent, .. } => 1 + parent.depth(),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Field { parent: Self::Root, key } => excerpt(key).to_owned(),
            Self::Field { parent, key: "" } => parent.name(),
            Self::Field { parent, key } => format!("{}.{}", parent.name(), excerpt(key)),
        }
    }
}

impl RecoveryReader<'_> {
    fn read_fields(
        &mut self,
        lines: LineRange<'_>,
        indent: usize,
        path: &FieldPath<'_>,
    ) -> Option<Vec<MappingEntry>> {
        let (before, fragments) =
            fragment::split_fragments(lines, indent, FragmentKind::Field, self.known_keys);
        if fragments.is_empty() {
            return None;
        }
        self.report_stray(before);
        let mut entries = Vec::with_capacity(fragments.len());
        for piece in fragments {
            let path = FieldPath::Field { parent: path, key: piece.key };
            match self.read_fragment(piece, &path) {
                // A fragment can hold several entries, for example with `? key` lines.
                Ok(Value::Mapping(mapping)) if !mapping.flow => entries.extend(mapping.entries),
                // `key:x` alone is a scalar to YAML: the blank after the colon is missing.
                Ok(_) => {
                    let error = yaml_error_at(piece, MISSING_BLANK);
                    entries.push(self.broken_entry(piece, &error, &path));
                }
                Err(error) => entries.push(self.broken_entry(piece, &error, &path)),
            }
        }
        Some(entries)
    }

    fn read_fragment(
        &mut self,
        piece: YamlFragment<'_>,
        path: &FieldPath<'_>,
    ) -> Result<Value, YamlError> {
        match build::parse_lines(piece.lines, path.depth() - 1, self.budget) {
            Ok(ParsedDocument { root, notices }) => {
                self.notices.extend(notices);
                Ok(root)
            }
            Err(error) => self.read_indented(piece, path).ok_or(error),
        }
    }

    /// Reads a quoted scalar with unindented further lines as if they were indented.
    fn read_indented(&mut self, piece: YamlFragment<'_>, path: &FieldPath<'_>) -> Option<Value> {
        let (value, rest) = piece.value();
        if !value.starts_with(['"', '\'']) || rest.trim().is_empty() {
            return None;
        }
        let text = piece.lines.text();
        let mut indented = text[..text.len() - rest.len()].to_owned();
        for line in rest.split_inclusive('\n') {
            indented.extend(std::iter::repeat_n(' ', piece.key_at + 1));
            indented.push_str(line);
        }
        let lines = LineRange { source: &indented, start: 0, end: indented.len(), ..piece.lines };
        let ParsedDocument { root, .. } =
            build::parse_lines(lines, path.depth() - 1, self.budget).ok()?;
        let Value::Mapping(mapping) = &root else { return None };
        // Any other result would change the structure that the author wrote.
        let [MappingEntry { value: Value::Scalar(_), .. }] = mapping.entries[..] else {
            return None;
        };
        let span = span_in(piece, piece.key_at);
        let kind = NoticeKind::UnindentedLines { field: path.name() };
        self.notices.push(Notice::new(kind, span));
        Some(root)
    }

    fn broken_entry(
        &mut self,
        piece: YamlFragment<'_>,
        error: &YamlError,
        path: &FieldPath<'_>,
    ) -> MappingEntry {
        let key = Scalar {
            text: piece.key.to_owned(),
            style: YamlStyle::Plain,
            span: span_in(piece, piece.key_at),
        };
        MappingEntry { key, value: self.broken_value(piece, error, path) }
    }

    fn broken_value(
        &mut self,
        piece: YamlFragment<'_>,
        error: &YamlError,
        path: &FieldPath<'_>,
    ) -> Value {
        let (first, rest) = piece.value();
        if first.is_empty()
            && path.depth() < MAX_DEPTH
            && let Some(value) = self.read_block(piece, rest, path)
        {
            return value;
        }
        if build::OVER_LIMIT.contains(&error.reason.as_ref()) {
            // The YAML is valid, but its structure is kept only as text.
            self.gap.get_or_insert(error.span);
        }
        let kind = NoticeKind::BrokenField { field: path.name(), reason: error.reason.clone() };
        self.notices.push(Notice::new(kind, error.span));
        let text = piece.lines.text();
        let blanks = text[piece.value_at..].len() - text[piece.value_at..].trim_start().len();
        // An empty first line has no text to point at, so the position is that after the colon.
        let at = if first.is_empty() { piece.value_at } else { piece.value_at + blanks };
        Value::Scalar(Scalar {
            text: join_value_text(first, rest),
            style: YamlStyle::Raw,
            span: span_in(piece, at),
        })
    }

    /// Reads the fields or items of an indented block one by one; `None` if it has neither.
    fn read_block(
        &mut self,
        piece: YamlFragment<'_>,
        rest: &str,
        path: &FieldPath<'_>,
    ) -> Option<Value> {
        // The first line with content sets the indentation; comments before it are skipped.
        let lead = rest.split_inclusive('\n').take_while(|line| is_blank(line));
        let before: Vec<&str> = lead.collect();
        let skipped: usize = before.iter().map(|line| line.len()).sum();
        let content = rest[skipped..].trim_start_matches(' ');
        let indent = rest.len() - skipped - content.len();
        let lines = LineRange {
            start: piece.lines.end - rest.len(),
            line: piece.lines.line.saturating_add(1),
            ..piece.lines
        };
        let span = Span {
            line: lines.line + saturate_u32(before.len()),
            column: saturate_u32(indent + 1),
        };
        let range = lines.start + skipped + indent..lines.start + rest.trim_end().len();
        if content.starts_with('-') {
            let items = self.read_items(lines, indent, path)?;
            return Some(Value::Sequence(Sequence { items, flow: false, span, range }));
        }
        // Fields at or left of the key belong to the outer map; only lists may start there.
        if indent <= piece.key_at || fragment::field_key(content, self.known_keys).is_none() {
            return None;
        }
        let entries = self.read_fields(lines, indent, path)?;
        Some(Value::Mapping(Mapping { entries, flow: false, span, range }))
    }

    fn read_items(
        &mut self,
        lines: LineRange<'_>,
        indent: usize,
        parent: &FieldPath<'_>,
    ) -> Option<Vec<Value>> {
        let (before, fragments) =
            fragment::split_fragments(lines, indent, FragmentKind::Item, self.known_keys);
        if fragments.is_empty() {
            return None;
        }
        self.report_stray(before);
        let path = FieldPath::Field { parent, key: "" };
        let mut items = Vec::with_capacity(fragments.len());
        for piece in fragments {
            match self.read_fragment(piece, &path) {
                Ok(Value::Sequence(sequence)) if !sequence.flow => items.extend(sequence.items),
                Ok(value) => items.push(value),
                Err(error) => items.push(self.broken_value(piece, &error, &path)),
            }
        }
        Some(items)
    }

    fn report_stray(&mut self, before: LineRange<'_>) {
        let stray = |(_, line): &(u32, &str)| !is_blank(line);
        let Some((line, text)) = (before.line..).zip(before.text().lines()).find(stray) else {
            return;
        };
        let kind = NoticeKind::StrayText { text: excerpt(text.trim()).to_owned() };
        let span = Span { line, column: 1 };
        self.gap.get_or_insert(span);
        self.notices.push(Notice::new(kind, span));
    }
}

/// Returns whether a line is blank or only a comment.
fn is_blank(line: &str) -> bool {
    line.trim().is_empty() || line.trim_start().starts_with('#')
}

fn yaml_error_at(piece: YamlFragment<'_>, reason: &'static str) -> YamlError {
    YamlError { span: span_in(piece, piece.key_at), reason: reason.into() }
}

/// Returns the position of a byte of the fragment's first line.
fn span_in(piece: YamlFragment<'_>, at: usize) -> Span {
    let column = piece.lines.text()[..at].chars().count() + 1;
    Span { line: piece.lines.line, column: saturate_u32(column) }
}

fn saturate_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Joins the text after a key and the lines below it as the author most likely meant them.
fn join_value_text(first: &str, rest: &str) -> String {
    let lines: Vec<&str> = rest.trim_end().lines().map(str::trim).collect();
    if first.is_empty() {
        return lines.join("\n").trim().to_owned();
    }
    match block_header(first) {
        Some('|') => lines.join("\n"),
        Some(_) => fold_lines(&lines).trim().to_owned(),
        None if first.starts_with(['"', '\'']) => {
            strip_quotes(fold_lines(&[&[first], &lines[..]].concat()).trim())
        }
        None => {
            // In a plain scalar a line that starts with `#` is a comment.
            let text = lines.into_iter().filter(|line| !line.starts_with('#'));
            let lines: Vec<_> = std::iter::once(first).chain(text).collect();
            fold_lines(&lines).trim().to_owned()
        }
    }
}

/// Returns the indicator of a block scalar header such as `|` or `>-`.
fn block_header(first: &str) -> Option<char> {
    let indicator = first.chars().next().filter(|c| matches!(c, '|' | '>'))?;
    let header = first[1..].split(" #").next().unwrap_or_default().trim();
    header.chars().all(|c| matches!(c, '+' | '-' | '1'..='9')).then_some(indicator)
}

/// Joins lines as YAML does: with blanks, and an empty line as a line break.
#[must_use]
pub fn fold_lines<S: AsRef<str>>(lines: &[S]) -> String {
    let mut text = String::new();
    for line in lines.iter().map(AsRef::as_ref) {
        if line.is_empty() {
            text.push('\n');
        } else {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push(' ');
            }
            text.push_str(line);
        }
    }
    text
}

/// Removes quotes around the complete text, or an opening one that is never closed.
fn strip_quotes(text: &str) -> String {
    let Some(quote) = text.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
        return text.to_owned();
    };
    let inner = &text[1..];
    let inner = match inner.strip_suffix(quote) {
        Some(inner) => inner,
        None if !inner.contains(quote) => inner,
        None => return text.to_owned(),
    };
    if quote == '"' { inner.replace("\\\"", "\"") } else { inner.replace("''", "'") }
}
