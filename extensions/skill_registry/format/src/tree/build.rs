//! The builder of values from parser events.

use std::borrow::Cow;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Tag};

use super::{
    DEPTH_LIMIT, Mapping, MappingEntry, NODE_LIMIT, Scalar, Sequence, Span, Value, YamlStyle,
};
use crate::diagnostic::{Diagnostic, excerpt};

/// The maximum number of parser events for one frontmatter, all attempts together.
pub(super) const EVENT_LIMIT: usize = 16_000;

/// The reasons for keeping valid YAML as text: it exceeds a limit.
pub(super) const OVER_LIMIT: [&str; 3] =
    ["too complex", "nested too deeply", "too many keys and values"];

/// The remaining nodes and events for one frontmatter.
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

/// A range of complete lines of the frontmatter.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineRange<'a> {
    /// The complete frontmatter.
    pub(super) source: &'a str,
    /// The byte offset of the first line in it.
    pub(super) start: usize,
    /// The byte offset behind the last line.
    pub(super) end: usize,
    /// The line of the file of the first line, counted from 1.
    pub(super) line: u32,
}

impl<'a> LineRange<'a> {
    pub(super) fn text(&self) -> &'a str {
        &self.source[self.start..self.end]
    }
}

/// The outcome of parsing valid YAML.
#[derive(Debug)]
pub(super) struct ParsedDocument {
    pub(super) root: Value,
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// An error for text that is not valid YAML or exceeds a limit.
#[derive(Debug)]
pub(super) struct YamlError {
    pub(super) span: Span,
    pub(super) reason: Cow<'static, str>,
}

/// Parses lines as YAML; `depth` is their nesting depth in the frontmatter.
///
/// A text without content is an empty map. An error restores the nodes spent, but not the events.
pub(super) fn parse_lines(
    lines: LineRange<'_>,
    depth: usize,
    budget: &mut ParseBudget,
) -> Result<ParsedDocument, YamlError> {
    let nodes = budget.nodes;
    let outcome = parse_events(lines, depth, budget);
    if outcome.is_err() {
        // The values of a failed attempt are dropped; its events stay spent to bound the time.
        budget.nodes = nodes;
    }
    outcome
}

fn parse_events(
    lines: LineRange<'_>,
    depth: usize,
    budget: &mut ParseBudget,
) -> Result<ParsedDocument, YamlError> {
    let text = lines.text();
    if let Some(nul) = text.find('\0') {
        // The parser treats a NUL as the end of the text and would drop everything after it.
        let line = lines.line + saturate_u32(text[..nul].matches('\n').count());
        let before = text[..nul].rsplit('\n').next().unwrap_or_default();
        let column = 1 + saturate_u32(before.chars().count());
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
        // Counting before the event is used bounds the time even for events without nodes.
        let Some(events) = budget.events.checked_sub(1) else {
            return Err(builder.yaml_error_at_start(OVER_LIMIT[0]));
        };
        budget.events = events;
        let (event, span) = event.map_err(|error| builder.yaml_error(&error))?;
        builder.accept(event, span, budget)?;
    }
    builder.finish()
}

/// Converts a count, saturating instead of wrapping; the size limit keeps inputs far below.
fn saturate_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

struct ValueBuilder<'a> {
    lines: LineRange<'a>,
    depth: usize,
    offsets: OffsetMap<'a>,
    /// The lists and maps that are still open, outermost first.
    open: Vec<OpenNode>,
    documents: Vec<Value>,
    diagnostics: Vec<Diagnostic>,
}

struct OpenNode {
    node: NodeKind,
    /// The end of the last value in it, in characters.
    end: usize,
}

enum NodeKind {
    Sequence(Sequence),
    /// A map and the key whose value comes next.
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
                self.report_properties(span.start, anchor, tag.as_deref());
                let style = to_yaml_style(style);
                let scalar = Scalar { text: text.into_owned(), style, span: self.span(span.start) };
                self.push(Value::Scalar(scalar), span.end.index());
            }
            Event::Alias(_) => {
                self.spend(budget)?;
                // The event carries only an anchor number, so the text of the alias is read from the source.
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
                self.move_to_dash(&mut span, &mut start);
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
            budget.nodes.checked_sub(1).ok_or_else(|| self.yaml_error_at_start(OVER_LIMIT[2]))?;
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
        // A recovered field is parsed on its own, so its depth in the frontmatter is added.
        if self.depth + self.open.len() >= DEPTH_LIMIT {
            return Err(YamlError { span, reason: OVER_LIMIT[1].into() });
        }
        self.report_properties(at, anchor, tag);
        Ok((span, self.lines.start + self.offsets.byte_offset(at.index())))
    }

    /// Moves the start of a list that is not indented below its key to its first dash: the parser
    /// reports the position of the first item.
    fn move_to_dash(&self, span: &mut Span, start: &mut usize) {
        if !matches!(self.open.last(), Some(OpenNode { node: NodeKind::Mapping(_, Some(_)), .. })) {
            return;
        }
        let before = self.lines.source.get(self.lines.start..*start).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        let dash = line.trim_start_matches(' ');
        if dash.starts_with('-') {
            *start -= dash.len();
            span.column = saturate_u32(line.len() - dash.len()) + 1;
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
            // For a map with a trailing comma, the parser reports the position of that comma.
            let behind = trailing_comma(rest);
            at += behind.len();
            close += behind.chars().count();
        }
        // Events do not carry the notation; the closing bracket in the source decides.
        let flow = self.lines.source.as_bytes().get(at) == Some(&bracket);
        let end = if flow { close + 1 } else { end };
        let end_offset = self.lines.start + self.offsets.byte_offset(end);
        let (is_flow, range) = match &mut node {
            NodeKind::Sequence(sequence) => (&mut sequence.flow, &mut sequence.range),
            NodeKind::Mapping(mapping, _) => (&mut mapping.flow, &mut mapping.range),
        };
        *is_flow = flow;
        // A block scalar includes its line end; the range of the value does not.
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
                None => *key = Some(to_key(value, self.lines.source, &mut self.diagnostics)),
            },
        }
    }

    fn report_properties(&mut self, at: Marker, anchor: usize, tag: Option<&Tag>) {
        if anchor == 0 && tag.is_none() {
            return;
        }
        let start = self.lines.start + self.offsets.byte_offset(at.index());
        let rest = self.lines.source.get(start..self.lines.end).unwrap_or_default();
        // The parser resolves anchors and tags, so their spelling is taken from the source.
        let properties = rest.split_whitespace().take_while(|word| word.starts_with(['&', '!']));
        let written = properties.collect::<Vec<_>>().join(" ");
        let rule = if tag.is_some() { "frontmatter.tag" } else { "frontmatter.anchor" };
        let property = if tag.is_some() { "tag" } else { "anchor" };
        let place = self.span(at);
        self.diagnostics.push(
            Diagnostic::warning(rule, format!("the {property} `{}` is ignored", excerpt(&written)))
                .with_position(place.line, place.column)
                .with_help("remove it, or put the text in quotes if it is part of it"),
        );
    }

    fn finish(self) -> Result<ParsedDocument, YamlError> {
        let error = self.yaml_error_at_start("several documents that are not maps");
        let mut diagnostics = self.diagnostics;
        let several = self.documents.len() > 1;
        // An empty document has no fields; maps are concatenated in their order.
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
                _ => return Err(error),
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
            line: self.lines.line + saturate_u32(at.line().saturating_sub(1)),
            column: saturate_u32(at.col()).saturating_add(1),
        }
    }

    fn yaml_error(&self, error: &ScanError) -> YamlError {
        YamlError { span: self.span(*error.marker()), reason: error.info().to_owned().into() }
    }

    fn yaml_error_at_start(&self, reason: &'static str) -> YamlError {
        YamlError { span: Span { line: self.lines.line, column: 1 }, reason: reason.into() }
    }
}

/// Returns a comma with the blanks and comments behind it.
fn trailing_comma(text: &str) -> &str {
    let mut rest = text[1..].trim_start();
    while rest.starts_with('#') {
        rest = rest.find('\n').map_or("", |end| rest[end..].trim_start());
    }
    &text[..text.len() - rest.len()]
}

fn to_yaml_style(style: ScalarStyle) -> YamlStyle {
    match style {
        ScalarStyle::Plain => YamlStyle::Plain,
        ScalarStyle::SingleQuoted => YamlStyle::SingleQuoted,
        ScalarStyle::DoubleQuoted => YamlStyle::DoubleQuoted,
        ScalarStyle::Literal => YamlStyle::Literal,
        ScalarStyle::Folded => YamlStyle::Folded,
    }
}

fn to_key(value: Value, source: &str, diagnostics: &mut Vec<Diagnostic>) -> Scalar {
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

/// A converter from the character positions of the parser to byte offsets.
///
/// Requested positions mostly rise, so walking from the last one costs one pass over the text.
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
        // The common case needs no walk: in ASCII both counts are equal.
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
