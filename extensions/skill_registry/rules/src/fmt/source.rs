//! Search for the comments and blank lines of a frontmatter, which its tree does not contain.

use yaml_tree::{Mapping, MappingEntry, Scalar, Span, Value, YamlStyle};

/// A standalone line between two fields.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StandaloneLine {
    /// A comment with its `#`, without trailing blanks.
    Comment(String),
    Blank,
}

/// A comment or a blank line with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommentToken {
    pub(super) at: usize,
    /// The column, counted from 1.
    pub(super) column: usize,
    /// Whether only blanks and dashes of list items precede it on its line.
    pub(super) own_line: bool,
    pub(super) line: StandaloneLine,
}

/// A frontmatter with LF line ends, and the conversion of positions to offsets.
pub(super) struct FrontmatterSource<'a> {
    pub(super) text: &'a str,
    line_starts: Vec<usize>,
    first_line: u32,
}

impl<'a> FrontmatterSource<'a> {
    pub(super) fn new(text: &'a str, first_line: u32) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let line_starts = std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect();
        Self { text, line_starts, first_line }
    }

    pub(super) fn offset(&self, span: Span) -> usize {
        let index = usize::try_from(span.line.saturating_sub(self.first_line)).unwrap_or_default();
        let Some(&start) = self.line_starts.get(index) else { return self.text.len() };
        let column = usize::try_from(span.column).unwrap_or_default().max(1);
        let behind = self.text[start..].char_indices().nth(column - 1);
        behind.map_or(self.text.len(), |(at, _)| start + at)
    }

    /// Returns the start of a text; of a block, the position of its indicator.
    pub(super) fn start_of(&self, scalar: &Scalar) -> usize {
        let at = self.offset(scalar.span);
        match scalar.style {
            YamlStyle::Literal | YamlStyle::Folded => self.find_indicator(at),
            _ => at,
        }
    }

    /// Finds the indicator of the block scalar whose first text is at `at`: it is on the last line
    /// above that ends like a block header.
    fn find_indicator(&self, at: usize) -> usize {
        let mut end = at;
        loop {
            let start = self.line_start(end);
            let line = &self.text[start..end];
            let ends_like_header = |&(at, _): &(usize, &str)| {
                let rest =
                    line[at + 1..].trim_start_matches(|c: char| matches!(c, '+' | '-' | '0'..='9'));
                let comment = rest.starts_with([' ', '\t']) && rest.trim_start().starts_with('#');
                line[..at].ends_with([' ', '\t']) && (rest.trim().is_empty() || comment)
            };
            match line.match_indices(['|', '>']).find(ends_like_header) {
                Some((found, _)) => return start + found,
                // No header above: the position is the best answer left.
                None if start == 0 => return at,
                None => end = start - 1,
            }
        }
    }

    /// Returns the start of the line of a byte.
    pub(super) fn line_start(&self, at: usize) -> usize {
        self.text[..at].rfind('\n').map_or(0, |before| before + 1)
    }

    /// Returns the start of the line after that of a byte.
    fn next_line(&self, at: usize) -> usize {
        self.text[at..].find('\n').map_or(self.text.len(), |end| at + end + 1)
    }

    /// Returns the indentation of the map or list around a block scalar at `at`, which is the value
    /// of `key`, or an item if there is no key.
    pub(super) fn parent_indent(&self, key: Option<&Scalar>, at: usize) -> usize {
        let start = match key {
            Some(key) => self.offset(key.span),
            None => self.text[..at].rfind('-').unwrap_or(at),
        };
        start - self.line_start(start)
    }
}

/// A block scalar as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BlockScalar {
    /// `|` or `>`.
    pub(super) indicator: char,
    /// `-`, `+` or empty.
    pub(super) chomp: &'static str,
    /// The lines without their indentation.
    pub(super) lines: Vec<String>,
    /// The first byte after it; trailing blank lines are included only if they belong to the text.
    pub(super) end: usize,
    header_comment: Option<usize>,
}

/// Parses the block scalar whose indicator is at `at`.
pub(super) fn read_block_scalar(
    source: &FrontmatterSource<'_>,
    at: usize,
    parent_indent: usize,
) -> BlockScalar {
    let text = source.text;
    let header_end = source.next_line(at);
    let line = &text[at..header_end];
    // A `#` starts a comment only after a blank.
    let header_comment = [" #", "\t#"].iter().filter_map(|mark| line.find(*mark)).min();
    let header = &line[..header_comment.unwrap_or(line.len())];
    let chomp = ["-", "+"].into_iter().find(|chomp| header.contains(chomp)).unwrap_or_default();
    let digit = header.bytes().find(u8::is_ascii_digit).map(|digit| usize::from(digit - b'0'));
    let blanks = |line: &str| line.bytes().take_while(|byte| *byte == b' ').count();
    let first = text[header_end..].lines().find(|line| !line.trim().is_empty());
    let indent = match digit {
        // An explicit indentation counts from the parent, not from the margin.
        Some(digit) => parent_indent + digit,
        None => first.map_or(0, blanks).max(parent_indent + 1),
    };
    let mut lines = Vec::new();
    let (mut kept, mut end) = (0, header_end);
    let mut start = header_end;
    while start < text.len() {
        let next = source.next_line(start);
        let line = text[start..next].trim_end_matches('\n');
        let is_content = blanks(line) >= indent && line.len() > indent;
        if !is_content && !line.trim().is_empty() {
            break;
        }
        lines.push(line.get(indent..).unwrap_or_default().to_owned());
        start = next;
        // Trailing blank lines count only with `+`; others belong to the draft.
        if is_content || chomp == "+" {
            (kept, end) = (lines.len(), next);
        }
    }
    lines.truncate(kept);
    let indicator = if header.starts_with('>') { '>' } else { '|' };
    BlockScalar { indicator, chomp, lines, end, header_comment: header_comment.map(|c| at + c + 1) }
}

/// A scalar that the search for comments must skip: `#` in it is text.
struct OpaqueSpan<'a> {
    at: usize,
    scalar: &'a Scalar,
    /// The key of the value, if it has one.
    key: Option<&'a Scalar>,
}

/// The starts of keys, values and opaque scalars.
pub(super) struct SourceLayout<'a> {
    opaque: Vec<OpaqueSpan<'a>>,
    starts: Vec<usize>,
}

impl<'a> SourceLayout<'a> {
    pub(super) fn new(source: &FrontmatterSource<'_>, root: &'a Mapping) -> Self {
        let mut layout = Self { opaque: Vec::new(), starts: Vec::new() };
        layout.add_entries(source, &root.entries);
        layout.opaque.sort_by_key(|scalar| scalar.at);
        layout.starts.sort_unstable();
        layout
    }

    /// Returns the start of the line on which the next key or value after `at` starts.
    pub(super) fn next_line(&self, source: &FrontmatterSource<'_>, at: usize) -> usize {
        let index = self.starts.partition_point(|&start| start <= at);
        self.starts.get(index).map_or(source.text.len(), |&next| source.line_start(next).max(at))
    }

    fn add_entries(&mut self, source: &FrontmatterSource<'_>, entries: &'a [MappingEntry]) {
        for entry in entries {
            self.add_scalar(source, &entry.key, None);
            self.add_value(source, &entry.value, Some(&entry.key));
        }
    }

    fn add_value(
        &mut self,
        source: &FrontmatterSource<'_>,
        value: &'a Value,
        key: Option<&'a Scalar>,
    ) {
        match value {
            // The parser gives a missing value a position somewhere after it.
            Value::Scalar(scalar) if value.is_empty() && scalar.style == YamlStyle::Plain => {}
            Value::Scalar(scalar) => self.add_scalar(source, scalar, key),
            Value::Sequence(sequence) => {
                sequence.items.iter().for_each(|item| self.add_value(source, item, None));
            }
            Value::Mapping(mapping) => self.add_entries(source, &mapping.entries),
        }
    }

    fn add_scalar(
        &mut self,
        source: &FrontmatterSource<'_>,
        scalar: &'a Scalar,
        key: Option<&'a Scalar>,
    ) {
        let at = source.start_of(scalar);
        self.starts.push(at);
        if !matches!(scalar.style, YamlStyle::Plain | YamlStyle::Alias) {
            self.opaque.push(OpaqueSpan { at, scalar, key });
        }
    }
}

/// Returns the comments and blank lines outside of texts, in order.
pub(super) fn collect_comments(
    source: &FrontmatterSource<'_>,
    layout: &SourceLayout<'_>,
) -> Vec<CommentToken> {
    let text = source.text.as_bytes();
    let mut tokens = Vec::new();
    let mut opaque = layout.opaque.iter().peekable();
    let (mut at, mut line_start) = (0, 0);
    while at < text.len() {
        while opaque.next_if(|scalar| scalar.at < at).is_some() {}
        if let Some(scalar) = opaque.next_if(|scalar| scalar.at == at) {
            // An empty raw text has no length; the scan must not go back.
            at = skip_opaque(source, layout, scalar, &mut tokens).max(at);
            line_start = source.line_start(at);
            if at == text.len() {
                break;
            }
            if opaque.peek().is_some_and(|next| next.at == at) {
                continue;
            }
        }
        match text[at] {
            b'\n' => {
                if source.text[line_start..at].trim().is_empty() {
                    let line = StandaloneLine::Blank;
                    tokens.push(CommentToken { at: line_start, column: 0, own_line: true, line });
                }
                at += 1;
                line_start = at;
            }
            b'#' if at == line_start || matches!(text[at - 1], b' ' | b'\t') => {
                at = push_comment(source, at, &mut tokens);
            }
            _ => at += 1,
        }
    }
    tokens
}

/// Stores the comment at `at` and returns the end of its line.
fn push_comment(
    source: &FrontmatterSource<'_>,
    at: usize,
    tokens: &mut Vec<CommentToken>,
) -> usize {
    let end = source.text[at..].find('\n').map_or(source.text.len(), |end| at + end);
    let before = &source.text[source.line_start(at)..at];
    tokens.push(CommentToken {
        at,
        column: before.chars().count() + 1,
        own_line: before.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'-')),
        line: StandaloneLine::Comment(source.text[at..end].trim_end().to_owned()),
    });
    end
}

/// Returns the first byte after a scalar, and stores the comments inside its extent.
fn skip_opaque(
    source: &FrontmatterSource<'_>,
    layout: &SourceLayout<'_>,
    opaque: &OpaqueSpan<'_>,
    tokens: &mut Vec<CommentToken>,
) -> usize {
    let at = opaque.at;
    match opaque.scalar.style {
        YamlStyle::Plain | YamlStyle::Alias => at,
        YamlStyle::SingleQuoted | YamlStyle::DoubleQuoted => at + quoted_length(&source.text[at..]),
        YamlStyle::Literal | YamlStyle::Folded => {
            let block = read_block_scalar(source, at, source.parent_indent(opaque.key, at));
            // The header line is part of the extent, so that the scan would miss its comment.
            if let Some(at) = block.header_comment {
                push_comment(source, at, tokens);
            }
            block.end
        }
        YamlStyle::Raw => {
            let end = layout.next_line(source, at);
            raw_lines(source, at, end, |line_at| {
                push_comment(source, line_at, tokens);
            });
            end
        }
    }
}

/// Returns the length of the quoted text at the start of a text, quotes included.
pub(super) fn quoted_length(text: &str) -> usize {
    let quote = if text.starts_with('\'') { '\'' } else { '"' };
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((at, character)) = characters.next() {
        if character == '\\' && quote == '"' {
            characters.next();
        } else if character == quote {
            let doubled = quote == '\'' && characters.next_if(|(_, next)| *next == quote).is_some();
            if !doubled {
                return at + 1;
            }
        }
    }
    text.len()
}

/// Returns the trimmed lines of a recovered text, and passes the offsets of its comments to
/// `comment`.
///
/// Comments exist only in a text that starts on the line of its key, without quotes and not as a
/// block.
pub(super) fn raw_lines(
    source: &FrontmatterSource<'_>,
    at: usize,
    end: usize,
    mut comment: impl FnMut(usize),
) -> Vec<String> {
    let before = source.text[source.line_start(at)..at].trim_end();
    let on_key_line = before.ends_with(':') || before.ends_with('-');
    let has_comments = on_key_line && !source.text[at..].starts_with(['"', '\'', '|', '>', '\n']);
    let mut lines = Vec::new();
    let mut start = at;
    for line in source.text[at..end].split_inclusive('\n') {
        let text = line.trim();
        if start > at && has_comments && text.starts_with('#') {
            comment(start + (line.len() - line.trim_start().len()));
        } else {
            lines.push(text.to_owned());
        }
        start += line.len();
    }
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}
