//! From parser events to values.

use std::borrow::Cow;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Tag};

use super::{
    DEPTH_LIMIT, Mapping, MappingEntry, NODE_LIMIT, Scalar, Sequence, Span, Value, YamlStyle,
};
use crate::diagnostic::{Diagnostic, excerpt};

/// The largest number of parser events spent on one frontmatter, all attempts together.
pub(super) const EVENT_LIMIT: usize = 16_000;

/// Why a text that may well be YAML is not read as such: it is over a limit.
pub(super) const OVER_LIMIT: [&str; 3] =
    ["too complex", "nested too deeply", "too many keys and values"];

/// Counts what is left to spend on one frontmatter.
#[derive(Debug)]
pub(super) struct ParseBudget {
    nodes: usize,
    events: usize,
}

impl ParseBudget {
    pub(super) fn new() -> Self {
        Self { nodes: NODE_LIMIT, events: EVENT_LIMIT }
    }

    pub(super) fn events_spent(&self) -> usize {
        EVENT_LIMIT - self.events
    }
}

/// Whole lines of the frontmatter.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineRange<'a> {
    /// The whole frontmatter.
    pub(super) source: &'a str,
    /// Where the lines start and end in it.
    pub(super) start: usize,
    pub(super) end: usize,
    /// The line of the file they start at, counted from 1.
    pub(super) line: u32,
}

impl<'a> LineRange<'a> {
    pub(super) fn text(&self) -> &'a str {
        &self.source[self.start..self.end]
    }
}

/// What a successful reading found.
#[derive(Debug)]
pub(super) struct ParsedDocument {
    pub(super) root: Value,
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// Why a text cannot be read as YAML.
#[derive(Debug)]
pub(super) struct YamlError {
    pub(super) span: Span,
    pub(super) reason: Cow<'static, str>,
}

/// Reads lines as YAML; `depth` is how deep in the frontmatter they stand.
///
/// A text without content is an empty map. A failure gives back the nodes it spent, not the events.
pub(super) fn parse_lines(
    lines: LineRange<'_>,
    depth: usize,
    budget: &mut ParseBudget,
) -> Result<ParsedDocument, YamlError> {
    let nodes = budget.nodes;
    let outcome = read_all(lines, depth, budget);
    if outcome.is_err() {
        budget.nodes = nodes;
    }
    outcome
}

fn read_all(
    lines: LineRange<'_>,
    depth: usize,
    budget: &mut ParseBudget,
) -> Result<ParsedDocument, YamlError> {
    let text = lines.text();
    if let Some(nul) = text.find('\0') {
        // To the parser a NUL is the end of the text: everything after it would vanish.
        let line = lines.line + count(text[..nul].matches('\n').count());
        let before = text[..nul].rsplit('\n').next().unwrap_or_default();
        let column = 1 + count(before.chars().count());
        return Err(YamlError { span: Span { line, column }, reason: "NUL character".into() });
    }
    let mut builder = ValueBuilder {
        lines,
        depth,
        offsets: OffsetMap::new(text),
        open: Vec::new(),
        documents: Vec::new(),
        diagnostics: Vec::new(),
    };
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let Some(events) = budget.events.checked_sub(1) else {
            return Err(builder.refuse_at_start(OVER_LIMIT[0]));
        };
        budget.events = events;
        let (event, span) = event.map_err(|error| builder.refuse(&error))?;
        builder.accept(event, span, budget)?;
    }
    builder.finish()
}

/// Saturates instead of wrapping; the input is far too small to reach it.
fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

struct ValueBuilder<'a> {
    lines: LineRange<'a>,
    depth: usize,
    offsets: OffsetMap<'a>,
    /// The lists and maps not closed yet, outermost first.
    open: Vec<OpenNode>,
    documents: Vec<Value>,
    diagnostics: Vec<Diagnostic>,
}

struct OpenNode {
    node: NodeKind,
    /// Where the last thing in it ends, in characters.
    end: usize,
}

enum NodeKind {
    Sequence(Sequence),
    /// With the key whose value comes next.
    Mapping(Mapping, Option<Scalar>),
}

impl<'a> ValueBuilder<'a> {
    fn accept(
        &mut self,
        event: Event<'a>,
        span: saphyr_parser::Span,
        budget: &mut ParseBudget,
    ) -> Result<(), YamlError> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
            Event::DocumentStart(_) => self.spend(budget)?,
            Event::Scalar(text, style, anchor, tag) => {
                self.spend(budget)?;
                self.note_properties(span.start, anchor, tag.as_deref());
                let style = style_of(style);
                let scalar = Scalar { text: text.into_owned(), style, span: self.span(span.start) };
                self.push(Value::Scalar(scalar), span.end.index());
            }
            Event::Alias(_) => {
                self.spend(budget)?;
                let start = self.offsets.byte_offset(span.start.index());
                let end = self.offsets.byte_offset(span.end.index());
                let text = self.lines.source.get(start + self.lines.start..end + self.lines.start);
                let text = text.unwrap_or_default().trim_end().to_owned();
                let place = self.span(span.start);
                self.diagnostics.push(
                    Diagnostic::warning(
                        "frontmatter.alias",
                        format!("the alias `{}` is kept as text and not expanded", excerpt(&text)),
                    )
                    .with_position(place.line, place.column)
                    .with_help("write the value out, or put the text in quotes"),
                );
                let scalar = Scalar { text, style: YamlStyle::Alias, span: place };
                self.push(Value::Scalar(scalar), span.end.index());
            }
            Event::SequenceStart(anchor, tag) => {
                let (mut span, mut start) =
                    self.start(span.start, anchor, tag.as_deref(), budget)?;
                self.back_to_dash(&mut span, &mut start);
                let range = start..start;
                let sequence = Sequence { items: Vec::new(), flow: false, span, range };
                self.open(NodeKind::Sequence(sequence));
            }
            Event::MappingStart(anchor, tag) => {
                let (span, start) = self.start(span.start, anchor, tag.as_deref(), budget)?;
                let range = start..start;
                let mapping = Mapping { entries: Vec::new(), flow: false, span, range };
                self.open(NodeKind::Mapping(mapping, None));
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(span),
        }
        Ok(())
    }

    fn spend(&self, budget: &mut ParseBudget) -> Result<(), YamlError> {
        budget.nodes =
            budget.nodes.checked_sub(1).ok_or_else(|| self.refuse_at_start(OVER_LIMIT[2]))?;
        Ok(())
    }

    fn start(
        &mut self,
        at: Marker,
        anchor: usize,
        tag: Option<&Tag>,
        budget: &mut ParseBudget,
    ) -> Result<(Span, usize), YamlError> {
        self.spend(budget)?;
        let span = self.span(at);
        if self.depth + self.open.len() >= DEPTH_LIMIT {
            return Err(YamlError { span, reason: OVER_LIMIT[1].into() });
        }
        self.note_properties(at, anchor, tag);
        Ok((span, self.lines.start + self.offsets.byte_offset(at.index())))
    }

    /// Moves the start of a list that is not indented below its key to its first dash: the parser
    /// gives the place of the first item.
    fn back_to_dash(&self, span: &mut Span, start: &mut usize) {
        if !matches!(self.open.last(), Some(OpenNode { node: NodeKind::Mapping(_, Some(_)), .. })) {
            return;
        }
        let before = self.lines.source.get(self.lines.start..*start).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        let dash = line.trim_start_matches(' ');
        if dash.starts_with('-') {
            *start -= dash.len();
            span.column = count(line.len() - dash.len()) + 1;
        }
    }

    fn open(&mut self, node: NodeKind) {
        self.open.push(OpenNode { node, end: 0 });
    }

    fn close(&mut self, span: saphyr_parser::Span) {
        let Some(OpenNode { mut node, end }) = self.open.pop() else { return };
        let bracket = match node {
            NodeKind::Sequence(_) => b']',
            NodeKind::Mapping(..) => b'}',
        };
        let mut close = span.start.index();
        let mut at = self.lines.start + self.offsets.byte_offset(close);
        let rest = self.lines.source.get(at..).unwrap_or_default();
        if rest.starts_with(',') {
            // Of a map whose last field has a comma behind it, the parser gives that comma's place.
            let behind = before_bracket(rest);
            at += behind.len();
            close += behind.chars().count();
        }
        let flow = self.lines.source.as_bytes().get(at) == Some(&bracket);
        let end = if flow { close + 1 } else { end };
        let end_offset = self.lines.start + self.offsets.byte_offset(end);
        let (is_flow, range) = match &mut node {
            NodeKind::Sequence(sequence) => (&mut sequence.flow, &mut sequence.range),
            NodeKind::Mapping(mapping, _) => (&mut mapping.flow, &mut mapping.range),
        };
        *is_flow = flow;
        // Block scalars end with their line; the value's own text does not.
        let text = self.lines.source.get(range.start..end_offset).unwrap_or_default();
        range.end = range.start + text.trim_end().len();
        let value = match node {
            NodeKind::Sequence(sequence) => Value::Sequence(sequence),
            NodeKind::Mapping(mapping, _) => Value::Mapping(mapping),
        };
        self.push(value, end);
    }

    fn push(&mut self, value: Value, end: usize) {
        let Some(open) = self.open.last_mut() else {
            self.documents.push(value);
            return;
        };
        open.end = open.end.max(end);
        match &mut open.node {
            NodeKind::Sequence(sequence) => sequence.items.push(value),
            NodeKind::Mapping(mapping, key) => match key.take() {
                Some(key) => mapping.entries.push(MappingEntry { key, value }),
                None => *key = Some(key_of(value, self.lines.source, &mut self.diagnostics)),
            },
        }
    }

    fn note_properties(&mut self, at: Marker, anchor: usize, tag: Option<&Tag>) {
        if anchor == 0 && tag.is_none() {
            return;
        }
        let start = self.lines.start + self.offsets.byte_offset(at.index());
        let rest = self.lines.source.get(start..self.lines.end).unwrap_or_default();
        let properties = rest.split_whitespace().take_while(|word| word.starts_with(['&', '!']));
        let written = properties.collect::<Vec<_>>().join(" ");
        let rule = if tag.is_some() { "frontmatter.tag" } else { "frontmatter.anchor" };
        let what = if tag.is_some() { "tag" } else { "anchor" };
        let place = self.span(at);
        self.diagnostics.push(
            Diagnostic::warning(rule, format!("the {what} `{}` is ignored", excerpt(&written)))
                .with_position(place.line, place.column)
                .with_help("remove it, or put the text in quotes if it is part of it"),
        );
    }

    fn finish(self) -> Result<ParsedDocument, YamlError> {
        let refusal = self.refuse_at_start("several documents that are not maps");
        let mut diagnostics = self.diagnostics;
        let several = self.documents.len() > 1;
        let mut documents = self.documents.into_iter().filter(|document| !document.is_empty());
        let start = self.lines.start;
        let place = Span { line: self.lines.line, column: 1 };
        let mut root = documents.next().unwrap_or_else(|| {
            let range = start..start;
            Value::Mapping(Mapping { span: place, range, ..Mapping::default() })
        });
        for document in documents {
            match (&mut root, document) {
                (Value::Mapping(root), Value::Mapping(more)) => {
                    root.range.end = more.range.end;
                    root.entries.extend(more.entries);
                }
                _ => return Err(refusal),
            }
        }
        if several {
            diagnostics.push(
                Diagnostic::warning(
                    "frontmatter.multipleDocuments",
                    "the frontmatter has several YAML documents; they are read as one",
                )
                .with_position(place.line, 0)
                .with_help("remove the lines `...`"),
            );
        }
        Ok(ParsedDocument { root, diagnostics })
    }

    fn span(&self, at: Marker) -> Span {
        Span {
            line: self.lines.line + count(at.line().saturating_sub(1)),
            column: count(at.col()).saturating_add(1),
        }
    }

    fn refuse(&self, error: &ScanError) -> YamlError {
        YamlError { span: self.span(*error.marker()), reason: error.info().to_owned().into() }
    }

    fn refuse_at_start(&self, reason: &'static str) -> YamlError {
        YamlError { span: Span { line: self.lines.line, column: 1 }, reason: reason.into() }
    }
}

/// Returns a comma and the blanks and comments behind it.
fn before_bracket(text: &str) -> &str {
    let mut rest = text[1..].trim_start();
    while rest.starts_with('#') {
        rest = rest.find('\n').map_or("", |end| rest[end..].trim_start());
    }
    &text[..text.len() - rest.len()]
}

fn style_of(style: ScalarStyle) -> YamlStyle {
    match style {
        ScalarStyle::Plain => YamlStyle::Plain,
        ScalarStyle::SingleQuoted => YamlStyle::SingleQuoted,
        ScalarStyle::DoubleQuoted => YamlStyle::DoubleQuoted,
        ScalarStyle::Literal => YamlStyle::Literal,
        ScalarStyle::Folded => YamlStyle::Folded,
    }
}

fn key_of(value: Value, source: &str, diagnostics: &mut Vec<Diagnostic>) -> Scalar {
    let span = match value {
        Value::Scalar(scalar) => return scalar,
        Value::Sequence(Sequence { span, .. }) | Value::Mapping(Mapping { span, .. }) => span,
    };
    diagnostics.push(
        Diagnostic::warning("frontmatter.complexKey", "a list or map as a key is kept as text")
            .with_position(span.line, span.column)
            .with_help("put the text in quotes if it is not meant as YAML"),
    );
    Scalar { text: value.into_text(source), style: YamlStyle::Raw, span }
}

/// Turns positions in characters, which the parser counts, into byte offsets.
///
/// The positions asked for mostly rise, so walking from the last one costs one pass over the text.
struct OffsetMap<'a> {
    text: &'a str,
    ascii: bool,
    chars: usize,
    bytes: usize,
}

impl<'a> OffsetMap<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, ascii: text.is_ascii(), chars: 0, bytes: 0 }
    }

    fn byte_offset(&mut self, chars: usize) -> usize {
        if self.ascii {
            return chars.min(self.text.len());
        }
        if chars >= self.chars {
            let mut ahead = self.text[self.bytes..].char_indices();
            let step = ahead.nth(chars - self.chars).map(|(offset, _)| offset);
            self.bytes = step.map_or(self.text.len(), |offset| self.bytes + offset);
        } else {
            let mut behind = self.text[..self.bytes].char_indices();
            self.bytes = behind.nth_back(self.chars - chars - 1).map_or(0, |(offset, _)| offset);
        }
        self.chars = chars;
        self.bytes
    }
}
