//! Reads broken YAML field by field and keeps what is not YAML as text.

use super::build::{self, LineRange, ParseBudget, ParsedDocument, YamlError};
use super::piece::{self, FragmentKind, YamlFragment};
use super::{Mapping, MappingEntry, Scalar, Sequence, Span, Value, YamlStyle};
use crate::diagnostic::{Diagnostic, excerpt};

/// The deepest field that is read by itself if what surrounds it is broken.
const DEEPEST: usize = 3;

/// Reads the fields of a broken frontmatter one by one; nothing if no line starts a field.
pub(super) fn recover_fields(
    lines: LineRange<'_>,
    whole: &YamlError,
    budget: &mut ParseBudget,
) -> Option<(Mapping, Vec<Diagnostic>, Option<Span>)> {
    let mut reader = RecoveryReader { budget, diagnostics: Vec::new(), gap: None };
    let entries = reader.fields(lines, 0, &FieldPath::Root)?;
    if reader.diagnostics.is_empty() {
        // Every field is YAML by itself; it is their sum that is not.
        reader.diagnostics.push(
            recovered(whole.span, format!("the frontmatter is not valid YAML ({})", whole.reason))
                .with_help("its fields are read one by one; other readers refuse the file"),
        );
    }
    let span = entries.first().map_or(Span { line: lines.line, column: 1 }, |e| e.key.span);
    let root = Mapping { entries, flow: false, span, range: lines.start..lines.end };
    Some((root, reader.diagnostics, reader.gap))
}

pub(super) const MISSING_BLANK: &str = "a blank is missing after the colon";

struct RecoveryReader<'b> {
    budget: &'b mut ParseBudget,
    diagnostics: Vec<Diagnostic>,
    /// The first place where something is lost.
    gap: Option<Span>,
}

/// Names a field for a message: its key and those of the maps around it.
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
    fn fields(
        &mut self,
        lines: LineRange<'_>,
        indent: usize,
        path: &FieldPath<'_>,
    ) -> Option<Vec<MappingEntry>> {
        let (before, pieces) = piece::split_fragments(lines, indent, FragmentKind::Field);
        if pieces.is_empty() {
            return None;
        }
        self.report_stray(before);
        let mut entries = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let path = FieldPath::Field { parent: path, key: piece.key };
            match self.read(piece, &path) {
                Ok(Value::Mapping(mapping)) if !mapping.flow => entries.extend(mapping.entries),
                Ok(_) => {
                    let refusal = refusal_at(piece, MISSING_BLANK);
                    entries.push(self.entry(piece, &refusal, &path));
                }
                Err(refusal) => entries.push(self.entry(piece, &refusal, &path)),
            }
        }
        Some(entries)
    }

    fn read(&mut self, piece: YamlFragment<'_>, path: &FieldPath<'_>) -> Result<Value, YamlError> {
        match build::parse_lines(piece.lines, path.depth() - 1, self.budget) {
            Ok(ParsedDocument { root, diagnostics }) => {
                self.diagnostics.extend(diagnostics);
                Ok(root)
            }
            Err(refusal) => self.read_indented(piece, path).ok_or(refusal),
        }
    }

    /// Reads a quoted scalar whose further lines are not indented as if they were.
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
        let [MappingEntry { value: Value::Scalar(_), .. }] = mapping.entries[..] else {
            return None;
        };
        let span = span_in(piece, piece.key_at);
        let name = path.name();
        self.diagnostics.push(
            recovered(span, format!("the further lines of `{name}` are not indented"))
                .with_help("indent them by two blanks; other readers refuse the file"),
        );
        Some(root)
    }

    fn entry(
        &mut self,
        piece: YamlFragment<'_>,
        refusal: &YamlError,
        path: &FieldPath<'_>,
    ) -> MappingEntry {
        let key = Scalar {
            text: piece.key.to_owned(),
            style: YamlStyle::Plain,
            span: span_in(piece, piece.key_at),
        };
        MappingEntry { key, value: self.broken_value(piece, refusal, path) }
    }

    fn broken_value(
        &mut self,
        piece: YamlFragment<'_>,
        refusal: &YamlError,
        path: &FieldPath<'_>,
    ) -> Value {
        let (first, rest) = piece.value();
        if first.is_empty()
            && path.depth() < DEEPEST
            && let Some(value) = self.block(piece, rest, path)
        {
            return value;
        }
        let name = path.name();
        let reason = &refusal.reason;
        if build::OVER_LIMIT.contains(&reason.as_ref()) {
            self.gap.get_or_insert(refusal.span);
        }
        let help = if reason == MISSING_BLANK {
            "write a blank after the colon"
        } else {
            "put the value in quotes, or indent it on the next line after `>-`"
        };
        self.diagnostics.push(
            recovered(
                refusal.span,
                format!("`{name}` is not valid YAML ({reason}) and is read as text"),
            )
            .with_help(help),
        );
        let text = piece.lines.text();
        let blanks = text[piece.value_at..].len() - text[piece.value_at..].trim_start().len();
        let at = if first.is_empty() { piece.value_at } else { piece.value_at + blanks };
        Value::Scalar(Scalar {
            text: as_text(first, rest),
            style: YamlStyle::Raw,
            span: span_in(piece, at),
        })
    }

    /// Reads the fields or items of an indented block one by one.
    fn block(
        &mut self,
        piece: YamlFragment<'_>,
        rest: &str,
        path: &FieldPath<'_>,
    ) -> Option<Value> {
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
        let span = Span { line: lines.line + position(before.len()), column: position(indent + 1) };
        let range = lines.start + skipped + indent..lines.start + rest.trim_end().len();
        if content.starts_with('-') {
            let items = self.items(lines, indent, path)?;
            return Some(Value::Sequence(Sequence { items, flow: false, span, range }));
        }
        if indent <= piece.key_at || piece::field_key(content).is_none() {
            return None;
        }
        let entries = self.fields(lines, indent, path)?;
        Some(Value::Mapping(Mapping { entries, flow: false, span, range }))
    }

    fn items(
        &mut self,
        lines: LineRange<'_>,
        indent: usize,
        parent: &FieldPath<'_>,
    ) -> Option<Vec<Value>> {
        let (before, pieces) = piece::split_fragments(lines, indent, FragmentKind::Item);
        if pieces.is_empty() {
            return None;
        }
        self.report_stray(before);
        let path = FieldPath::Field { parent, key: "" };
        let mut items = Vec::with_capacity(pieces.len());
        for piece in pieces {
            match self.read(piece, &path) {
                Ok(Value::Sequence(sequence)) if !sequence.flow => items.extend(sequence.items),
                Ok(value) => items.push(value),
                Err(refusal) => items.push(self.broken_value(piece, &refusal, &path)),
            }
        }
        Some(items)
    }

    fn report_stray(&mut self, before: LineRange<'_>) {
        let stray = |(_, line): &(u32, &str)| !is_blank(line);
        let Some((line, text)) = (before.line..).zip(before.text().lines()).find(stray) else {
            return;
        };
        let message = format!("`{}` belongs to no field and is left out", excerpt(text.trim()));
        let span = Span { line, column: 1 };
        self.gap.get_or_insert(span);
        let found = recovered(span, message);
        self.diagnostics.push(found.with_help("write one `key: value` per line"));
    }
}

/// Tells whether a line holds nothing or only a comment.
fn is_blank(line: &str) -> bool {
    line.trim().is_empty() || line.trim_start().starts_with('#')
}

fn recovered(span: Span, message: String) -> Diagnostic {
    Diagnostic::warning("frontmatter.recovered", message).with_position(span.line, span.column)
}

fn refusal_at(piece: YamlFragment<'_>, reason: &'static str) -> YamlError {
    YamlError { span: span_in(piece, piece.key_at), reason: reason.into() }
}

/// Returns the place of a byte of the piece's first line.
fn span_in(piece: YamlFragment<'_>, at: usize) -> Span {
    let column = piece.lines.text()[..at].chars().count() + 1;
    Span { line: piece.lines.line, column: position(column) }
}

fn position(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Reads a value as its author most likely meant it: the text after the key and the lines below.
fn as_text(first: &str, rest: &str) -> String {
    let lines: Vec<&str> = rest.trim_end().lines().map(str::trim).collect();
    if first.is_empty() {
        return lines.join("\n").trim().to_owned();
    }
    match block_header(first) {
        Some('|') => lines.join("\n"),
        Some(_) => fold(&lines),
        None if first.starts_with(['"', '\'']) => unquote(&fold(&[&[first], &lines[..]].concat())),
        None => {
            let text = lines.into_iter().filter(|line| !line.starts_with('#'));
            fold(&std::iter::once(first).chain(text).collect::<Vec<_>>())
        }
    }
}

/// Returns the indicator if the text is the header of a block scalar, such as `|` or `>-`.
fn block_header(first: &str) -> Option<char> {
    let indicator = first.chars().next().filter(|c| matches!(c, '|' | '>'))?;
    let header = first[1..].split(" #").next().unwrap_or_default().trim();
    header.chars().all(|c| matches!(c, '+' | '-' | '1'..='9')).then_some(indicator)
}

/// Joins lines by blanks; an empty line starts a new paragraph.
fn fold(lines: &[&str]) -> String {
    let mut text = String::new();
    for line in lines {
        if line.is_empty() {
            text.push('\n');
        } else {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push(' ');
            }
            text.push_str(line);
        }
    }
    text.trim().to_owned()
}

/// Takes off quotes around the whole text, or an opening one that is never closed.
fn unquote(text: &str) -> String {
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
