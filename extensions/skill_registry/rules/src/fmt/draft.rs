//! The draft of a formatted frontmatter: fields with their comments.

use yaml_tree::{Mapping, MappingEntry, Scalar, Value, YamlStyle};

use super::source::{
    BlockScalar, CommentToken, FrontmatterSource, SourceLayout, StandaloneLine, quoted_length,
    raw_lines, read_block_scalar,
};

/// A `key: value` pair or a list item.
#[derive(Clone, Debug)]
pub(super) struct DraftNode {
    /// The key; `None` for an item.
    pub(super) key: Option<Scalar>,
    pub(super) shape: ValueShape,
    /// The comments and blank lines above it.
    pub(super) leading: Vec<StandaloneLine>,
    /// The comments after it on its line.
    pub(super) trailing: Vec<String>,
    /// The comments in its brackets or braces.
    inside: Vec<StandaloneLine>,
    place: NodePosition,
}

/// The position of a node in the source.
#[derive(Clone, Copy, Debug, Default)]
struct NodePosition {
    start: usize,
    /// The column, counted from 1; of an item, the column of its list.
    column: usize,
    value: usize,
    end: usize,
}

/// The form of a value.
#[derive(Clone, Debug)]
pub(super) enum ValueShape {
    /// A text with the lines of its author, and its block if it is written as one.
    Text { scalar: Scalar, lines: Vec<String>, block: Option<BlockScalar> },
    /// A value in brackets or braces, kept unchanged.
    Flow { lines: Vec<String>, own_line: bool, column: usize },
    /// Nodes on the lines below the key.
    Block(DraftChildren),
}

/// The fields of a map or the items of a list, and the lines after the last one.
#[derive(Clone, Debug, Default)]
pub(super) struct DraftChildren {
    pub(super) list: bool,
    pub(super) nodes: Vec<DraftNode>,
    pub(super) tail: Vec<StandaloneLine>,
    column: usize,
}

impl DraftNode {
    /// Creates a field without a position in the source.
    pub(super) fn new(key: Scalar, shape: ValueShape, leading: Vec<StandaloneLine>) -> Self {
        let (trailing, inside) = (Vec::new(), Vec::new());
        Self { key: Some(key), shape, leading, trailing, inside, place: NodePosition::default() }
    }

    /// Collects all comments in and around the node.
    pub(super) fn into_comments(self) -> Vec<StandaloneLine> {
        let mut comments = self.leading;
        comments.extend(self.inside);
        comments.extend(self.trailing.into_iter().map(StandaloneLine::Comment));
        if let ValueShape::Block(children) = self.shape {
            comments.extend(children.nodes.into_iter().flat_map(Self::into_comments));
            comments.extend(children.tail);
        }
        comments
    }
}

/// Builds the draft of a frontmatter. With `open_metadata`, a `metadata` in braces becomes a block
/// map, so that fields can be added to it.
pub(super) fn build_draft(
    source: &FrontmatterSource<'_>,
    layout: &SourceLayout<'_>,
    tokens: &[CommentToken],
    root: &Mapping,
    open_metadata: bool,
) -> DraftChildren {
    let builder = DraftBuilder { source, layout, tokens, open_metadata };
    let mut draft = builder.build_fields(&root.entries);
    attach_comments(tokens, source, &mut draft);
    draft
}

struct DraftBuilder<'a> {
    source: &'a FrontmatterSource<'a>,
    layout: &'a SourceLayout<'a>,
    tokens: &'a [CommentToken],
    open_metadata: bool,
}

impl DraftBuilder<'_> {
    fn build_fields(&self, entries: &[MappingEntry]) -> DraftChildren {
        let field = |entry: &MappingEntry| {
            let start = self.source.offset(entry.key.span);
            let place =
                NodePosition { start, column: self.column(start), ..NodePosition::default() };
            self.build_node(Some(&entry.key), &entry.value, place)
        };
        let nodes: Vec<DraftNode> = entries.iter().map(field).collect();
        let column = nodes.first().map_or(1, |first| first.place.column);
        DraftChildren { list: false, nodes, tail: Vec::new(), column }
    }

    fn build_items(&self, items: &[Value], column: usize) -> DraftChildren {
        let item = |item: &Value| {
            let start = match item {
                Value::Scalar(scalar) => self.source.start_of(scalar),
                Value::Sequence(_) | Value::Mapping(_) => self.source.offset(item.span()),
            };
            self.build_node(None, item, NodePosition { start, column, ..NodePosition::default() })
        };
        DraftChildren {
            list: true,
            nodes: items.iter().map(item).collect(),
            tail: Vec::new(),
            column,
        }
    }

    fn build_node(&self, key: Option<&Scalar>, value: &Value, place: NodePosition) -> DraftNode {
        let at = match value {
            Value::Scalar(scalar) => self.source.start_of(scalar),
            Value::Sequence(_) | Value::Mapping(_) => self.source.offset(value.span()),
        };
        let (shape, end) = match value {
            Value::Scalar(scalar) => self.build_text(key, scalar, at, place.start),
            Value::Sequence(sequence) if sequence.flow => {
                (self.build_flow(&sequence.range, place.start), sequence.range.end)
            }
            Value::Mapping(mapping) if mapping.flow && !self.opens_braces(key, place) => {
                (self.build_flow(&mapping.range, place.start), mapping.range.end)
            }
            Value::Sequence(sequence) => {
                let column = usize::try_from(sequence.span.column).unwrap_or(1);
                (ValueShape::Block(self.build_items(&sequence.items, column)), place.start)
            }
            Value::Mapping(mapping) => {
                (ValueShape::Block(self.build_fields(&mapping.entries)), place.start)
            }
        };
        DraftNode {
            key: key.cloned(),
            shape,
            leading: Vec::new(),
            trailing: Vec::new(),
            inside: Vec::new(),
            place: NodePosition { value: at, end, ..place },
        }
    }

    fn opens_braces(&self, key: Option<&Scalar>, place: NodePosition) -> bool {
        self.open_metadata && place.column == 1 && key.is_some_and(|key| key.text == "metadata")
    }

    fn build_text(
        &self,
        key: Option<&Scalar>,
        scalar: &Scalar,
        at: usize,
        start: usize,
    ) -> (ValueShape, usize) {
        let text = self.source.text;
        let mut written = None;
        let (lines, end) = match scalar.style {
            YamlStyle::Literal | YamlStyle::Folded => {
                let block = read_block_scalar(self.source, at, self.source.parent_indent(key, at));
                let end = block.end;
                written = Some(block);
                (Vec::new(), end)
            }
            YamlStyle::SingleQuoted | YamlStyle::DoubleQuoted => {
                // Escapes may span lines, so that the end cannot come from the parsed text.
                let end = at + quoted_length(&text[at..]);
                let inner = text.get(at + 1..end - 1).unwrap_or_default();
                (quoted_lines(inner, scalar.style), end)
            }
            YamlStyle::Raw => {
                let end = self.layout.next_line(self.source, at);
                (raw_text_lines(self.source, at, end), end)
            }
            // The parser gives a missing value a position somewhere after it, so the key's is
            // used.
            YamlStyle::Plain | YamlStyle::Alias if scalar.text.is_empty() => (Vec::new(), start),
            YamlStyle::Plain | YamlStyle::Alias => {
                // A plain text ends before the next comment or the line of the next node.
                let comment =
                    |token: &&CommentToken| token.at > at && token.line != StandaloneLine::Blank;
                let comment = self.tokens.iter().find(comment).map_or(text.len(), |it| it.at);
                let next = self.layout.next_line(self.source, at);
                let written = text[at..next.min(comment).max(at)].trim_end();
                (trimmed_lines(written), at + written.len())
            }
        };
        (ValueShape::Text { scalar: scalar.clone(), lines, block: written }, end)
    }

    fn build_flow(&self, range: &std::ops::Range<usize>, start: usize) -> ValueShape {
        let text = self.source.text.get(range.clone()).unwrap_or_default();
        let lines: Vec<String> = text.split('\n').map(|line| line.trim_end().to_owned()).collect();
        let own_line =
            lines.len() > 1 && self.source.line_start(range.start) != self.source.line_start(start);
        ValueShape::Flow { lines, own_line, column: self.column(range.start) }
    }

    /// Returns the column of a byte, counted from 1.
    fn column(&self, at: usize) -> usize {
        self.source.text[self.source.line_start(at)..at].chars().count() + 1
    }
}

fn trimmed_lines(text: &str) -> Vec<String> {
    text.split('\n').map(|line| line.trim().to_owned()).collect()
}

/// Returns the lines of a quoted text, or none if they depend on its escapes.
fn quoted_lines(inner: &str, style: YamlStyle) -> Vec<String> {
    let quote =
        if style == YamlStyle::SingleQuoted { inner.replace("''", "'") } else { inner.into() };
    if inner.contains('\\') && style == YamlStyle::DoubleQuoted {
        return Vec::new();
    }
    trimmed_lines(&quote)
}

fn raw_text_lines(source: &FrontmatterSource<'_>, at: usize, end: usize) -> Vec<String> {
    let mut lines = raw_lines(source, at, end, |_| ());
    // Loading strips quotes around the text, so that lines must lack them as well.
    if let (Some(first), true) = (lines.first(), lines.len() > 1)
        && let Some(quote) = first.chars().next().filter(|c| matches!(c, '"' | '\''))
    {
        lines[0].remove(0);
        if let Some(last) = lines.last_mut()
            && last.ends_with(quote)
        {
            last.pop();
        }
    }
    lines
}

/// The path to a node: indexes, outermost first.
type NodePath = Vec<usize>;

struct NodeStart {
    path: NodePath,
    start: usize,
    column: usize,
}

/// Attaches every comment and blank line to a node: a comment after a value to that value, a line
/// above a node to that node, and a line indented like the fields of a map that ends there to the
/// end of that map.
fn attach_comments(
    tokens: &[CommentToken],
    source: &FrontmatterSource<'_>,
    root: &mut DraftChildren,
) {
    let mut stops = Vec::new();
    let mut kept = Vec::new();
    collect_stops(root, &mut Vec::new(), &mut stops, &mut kept);
    let mut run = 0;
    while run < tokens.len() {
        let token = &tokens[run];
        run += 1;
        let index = stops.partition_point(|stop| stop.start <= token.at);
        let previous = index.checked_sub(1).map(|previous| &stops[previous]);
        let next = stops.get(index);
        if kept.iter().any(|&(start, end)| (start..end).contains(&token.at)) {
            // Values in brackets are printed verbatim; their comments are only collected here.
            if let Some(node) = previous.and_then(|stop| find_node(root, &stop.path))
                && token.line != StandaloneLine::Blank
            {
                node.inside.push(token.line.clone());
            }
            continue;
        }
        match &token.line {
            StandaloneLine::Comment(text) if !token.own_line => {
                match previous.and_then(|stop| find_node(root, &stop.path)) {
                    Some(node) => node.trailing.push(text.clone()),
                    None => root.tail.push(token.line.clone()),
                }
            }
            StandaloneLine::Blank => {
                let inside = previous.and_then(|stop| find_node(root, &stop.path));
                // A blank line inside a text belongs to the text.
                if inside.is_some_and(|node| token.at < node.place.end) {
                    continue;
                }
                // A blank line stays above the comment that follows it.
                let bound = next.map_or(source.text.len(), |next| next.start);
                let mut below = tokens[run..].iter().take_while(|token| token.at < bound);
                match below.find(|token| token.own_line && token.line != StandaloneLine::Blank) {
                    Some(below) => place_line(root, previous, next, below, StandaloneLine::Blank),
                    None if next.is_some() => {
                        place_line(root, None, next, token, StandaloneLine::Blank);
                    }
                    None => {}
                }
            }
            StandaloneLine::Comment(_) => {
                place_line(root, previous, next, token, token.line.clone());
            }
        }
    }
}

fn place_line(
    root: &mut DraftChildren,
    previous: Option<&NodeStart>,
    next: Option<&NodeStart>,
    token: &CommentToken,
    line: StandaloneLine,
) {
    let lines = match find_placement(root, previous, next, token) {
        CommentPlacement::Above(path) => find_node(root, path).map(|node| &mut node.leading),
        CommentPlacement::Behind(path) => {
            find_parent(root, path).map(|children| &mut children.tail)
        }
    };
    if let Some(lines) = lines
        // Several blank lines become one.
        && (line != StandaloneLine::Blank || lines.last() != Some(&StandaloneLine::Blank))
    {
        lines.push(line);
    }
}

/// The placement of a standalone line.
enum CommentPlacement<'a> {
    /// The line goes above the node at the path.
    Above(&'a [usize]),
    /// The line goes after the last node of the map or list that contains the node at the path.
    Behind(&'a [usize]),
}

fn find_placement<'a>(
    root: &mut DraftChildren,
    previous: Option<&'a NodeStart>,
    next: Option<&'a NodeStart>,
    token: &CommentToken,
) -> CommentPlacement<'a> {
    // A comment between a key and its value moves above the key.
    let between = previous.filter(|stop| {
        find_node(root, &stop.path).is_some_and(|node| {
            token.at < node.place.value && !matches!(node.shape, ValueShape::Block(_))
        })
    });
    if let Some(stop) = between {
        return CommentPlacement::Above(&stop.path);
    }
    let next_column = next.map_or(0, |next| next.column);
    if token.column > next_column
        && let Some(previous) = previous
    {
        let mut best: Option<(usize, &[usize])> = None;
        // Of all open maps and lists, the deepest one that the indentation still fits is meant.
        for length in 1..=previous.path.len() {
            let path = &previous.path[..length];
            let column = find_parent(root, path).map_or(0, |children| children.column);
            let fits = (next_column + 1..=token.column).contains(&column);
            if fits && best.is_none_or(|(deepest, _)| column > deepest) {
                best = Some((column, path));
            }
        }
        if let Some((_, path)) = best {
            return CommentPlacement::Behind(path);
        }
    }
    next.map_or(CommentPlacement::Behind(&[]), |next| CommentPlacement::Above(&next.path))
}

fn collect_stops(
    children: &DraftChildren,
    path: &mut NodePath,
    stops: &mut Vec<NodeStart>,
    kept: &mut Vec<(usize, usize)>,
) {
    for (index, node) in children.nodes.iter().enumerate() {
        path.push(index);
        // An empty item has no position of its own; the starts must stay sorted.
        let start = stops.last().map_or(0, |last: &NodeStart| last.start).max(node.place.start);
        stops.push(NodeStart { path: path.clone(), start, column: node.place.column });
        match &node.shape {
            ValueShape::Block(children) => collect_stops(children, path, stops, kept),
            ValueShape::Flow { .. } => kept.push((node.place.value, node.place.end)),
            ValueShape::Text { .. } => {}
        }
        path.pop();
    }
}

/// Returns the map or list that contains the node at a path.
fn find_parent<'a>(root: &'a mut DraftChildren, path: &[usize]) -> Option<&'a mut DraftChildren> {
    match path {
        [] | [_] => Some(root),
        [index, inner @ ..] => match &mut root.nodes.get_mut(*index)?.shape {
            ValueShape::Block(children) => find_parent(children, inner),
            ValueShape::Text { .. } | ValueShape::Flow { .. } => None,
        },
    }
}

fn find_node<'a>(root: &'a mut DraftChildren, path: &[usize]) -> Option<&'a mut DraftNode> {
    let index = *path.last()?;
    find_parent(root, path)?.nodes.get_mut(index)
}
