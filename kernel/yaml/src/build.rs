//! The builder of values from parser events.

use std::borrow::Cow;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Tag};

use crate::notice::{Notice, NoticeKind, excerpt};
use crate::tree::{Mapping, MappingEntry, Scalar, Sequence, Span, Value, YamlStyle};

/// The maximum nesting of lists and maps; deeper values are kept as text.
pub const DEPTH_LIMIT: usize = 16;

/// The maximum number of keys and values; a field beyond it is kept as text.
pub const NODE_LIMIT: usize = 2_000;

/// The maximum number of parser events for one text, all attempts together.
pub const EVENT_LIMIT: usize = 16_000;

/// The reasons for keeping valid YAML as text: it exceeds a limit.
pub(crate) const OVER_LIMIT: [&str; 3] =
    ["too complex", "nested too deeply", "too many keys and values"];

/// The remaining nodes and events for one text.
#[derive(Debug)]
pub(crate) struct ParseBudget {
    nodes: usize,
    events: usize,
}

impl ParseBudget {
    pub(crate) fn new() -> Self {
        Self { nodes: NODE_LIMIT, events: EVENT_LIMIT }
    }

    pub(crate) fn events_spent(&self) -> usize {
        EVENT_LIMIT - self.events
    }
}

/// A range of complete lines of the text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineRange<'a> {
    /// The complete text.
    pub(crate) source: &'a str,
    /// The byte offset of the first line in it.
    pub(crate) start: usize,
    /// The byte offset after the last line.
    pub(crate) end: usize,
    /// The line of the file of the first line, counted from 1.
    pub(crate) line: u32,
}

impl<'a> LineRange<'a> {
    pub(crate) fn text(&self) -> &'a str {
        &self.source[self.start..self.end]
    }
}

/// The outcome of parsing valid YAML.
#[derive(Debug)]
pub(crate) struct ParsedDocument {
    pub(crate) root: Value,
    pub(crate) notices: Vec<Notice>,
}

/// An error for text that is not valid YAML or exceeds a limit.
#[derive(Debug)]
pub(crate) struct YamlError {
    pub(crate) span: Span,
    pub(crate) reason: Cow<'static, str>,
}

/// Parses lines as YAML; `depth` is their nesting depth in the text.
///
/// A text without content is an empty map. An error restores the nodes spent, but not the events.
pub(crate) fn parse_lines(
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
    let mut builder = ValueBuilder::new(lines, depth);
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

/// A builder that collects parser events into values.
// The nesting is an explicit stack, so that deep text cannot overflow the call stack.
pub(crate) struct ValueBuilder<'a> {
    lines: LineRange<'a>,
    depth: usize,
    offsets: OffsetMap<'a>,
    /// The lists and maps that are still open, outermost first.
    open: Vec<OpenNode>,
    documents: Vec<Value>,
    notices: Vec<Notice>,
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
    /// Creates a builder for lines; `depth` is their nesting depth in the text.
    pub(crate) fn new(lines: LineRange<'a>, depth: usize) -> Self {
        Self {
            lines,
            depth,
            offsets: OffsetMap::new(lines.text()),
            open: Vec::new(),
            documents: Vec::new(),
            notices: Vec::new(),
        }
    }

    /// Returns the number of lists and maps that are open.
    pub(crate) fn open_count(&self) -> usize {
        self.open.len()
    }

    /// Returns `true` if the next value is the key of a map.
    pub(crate) fn is_key_next(&self) -> bool {
        matches!(self.open.last(), Some(OpenNode { node: NodeKind::Mapping(_, None), .. }))
    }

    /// Returns the documents without merging them.
    pub(crate) fn into_documents(self) -> Vec<Value> {
        self.documents
    }

    /// Adds a scalar as a key or value.
    pub(crate) fn add_scalar(
        &mut self,
        text: Cow<'a, str>,
        style: ScalarStyle,
        span: saphyr_parser::Span,
    ) {
        let style = to_yaml_style(style);
        let scalar = Scalar { text: text.into_owned(), style, span: self.span(span.start) };
        self.push(Value::Scalar(scalar), span.end.index());
    }

    /// Opens a list that starts at a marker.
    pub(crate) fn open_sequence(&mut self, at: Marker) {
        let start = self.start_offset(at);
        self.push_sequence(self.span(at), start);
    }

    /// Opens a map that starts at a marker.
    pub(crate) fn open_mapping(&mut self, at: Marker) {
        let range = self.start_offset(at);
        let (span, range) = (self.span(at), range..range);
        let mapping = Mapping { entries: Vec::new(), flow: false, span, range };
        self.open(NodeKind::Mapping(mapping, None));
    }

    fn push_sequence(&mut self, span: Span, start: usize) {
        let sequence = Sequence { items: Vec::new(), flow: false, span, range: start..start };
        self.open(NodeKind::Sequence(sequence));
    }

    /// Returns the byte offset of a marker in the source.
    fn start_offset(&mut self, at: Marker) -> usize {
        self.lines.start + self.offsets.byte_offset(at.index())
    }

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
                self.add_scalar(text, style, span);
            }
            Event::Alias(_) => {
                self.spend(budget)?;
                // The event carries only an anchor number, so the text of the alias is read from the source.
                let start = self.offsets.byte_offset(span.start.index());
                let end = self.offsets.byte_offset(span.end.index());
                let text = self.lines.source.get(start + self.lines.start..end + self.lines.start);
                let text = text.unwrap_or_default().trim_end().to_owned();
                let place = self.span(span.start);
                let kind = NoticeKind::Alias { text: excerpt(&text).to_owned() };
                self.notices.push(Notice::new(kind, place));
                let scalar = Scalar { text, style: YamlStyle::Alias, span: place };
                self.push(Value::Scalar(scalar), span.end.index());
            }
            Event::SequenceStart(anchor, tag) => {
                self.start(span.start, anchor, tag.as_deref(), budget)?;
                let (mut start, mut place) = (self.start_offset(span.start), self.span(span.start));
                self.move_to_dash(&mut place, &mut start);
                self.push_sequence(place, start);
            }
            Event::MappingStart(anchor, tag) => {
                self.start(span.start, anchor, tag.as_deref(), budget)?;
                self.open_mapping(span.start);
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
    ) -> Result<(), YamlError> {
        self.spend(budget)?;
        // A recovered field is parsed on its own, so its depth in the text is added.
        if self.depth + self.open.len() >= DEPTH_LIMIT {
            return Err(YamlError { span: self.span(at), reason: OVER_LIMIT[1].into() });
        }
        self.report_properties(at, anchor, tag);
        Ok(())
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

    /// Closes the innermost list or map.
    pub(crate) fn close(&mut self, span: saphyr_parser::Span) {
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
                None => *key = Some(to_key(value, self.lines.source, &mut self.notices)),
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
        let text = excerpt(&written).to_owned();
        let kind =
            if tag.is_some() { NoticeKind::Tag { text } } else { NoticeKind::Anchor { text } };
        self.notices.push(Notice::new(kind, self.span(at)));
    }

    fn finish(self) -> Result<ParsedDocument, YamlError> {
        let error = self.yaml_error_at_start("several documents that are not maps");
        let mut notices = self.notices;
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
            notices.push(Notice::new(NoticeKind::SeveralDocuments, Span { column: 0, ..place }));
        }
        Ok(ParsedDocument { root, notices })
    }

    /// Returns the position of a marker in the file.
    pub(crate) fn span(&self, at: Marker) -> Span {
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

/// Returns a comma with the blanks and comments after it.
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

fn to_key(value: Value, source: &str, notices: &mut Vec<Notice>) -> Scalar {
    let span = match value {
        Value::Scalar(scalar) => return scalar,
        Value::Sequence(Sequence { span, .. }) | Value::Mapping(Mapping { span, .. }) => span,
    };
    notices.push(Notice::new(NoticeKind::ComplexKey, span));
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
