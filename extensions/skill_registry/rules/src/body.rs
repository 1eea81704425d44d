//! The body of a skill: its Markdown structure from one pass, its local paths, phrases and hidden
//! characters.

pub(crate) mod invisible;
pub(crate) mod local_links;
pub(crate) mod phrase;

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// The Markdown structure of a body, each list in the order of the file.
///
/// Every range and offset counts bytes of the file; `SkillDocument::span_at` converts it to a line
/// and a column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MarkdownBody {
    /// The text without markup.
    pub(crate) passages: Vec<TextPassage>,
    /// Links and images outside code, in any notation.
    pub(crate) links: Vec<MarkdownLink>,
    /// Code within a line, such as `scripts/extract.py`.
    pub(crate) code_spans: Vec<CodeSpan>,
    /// Blocks of code, fenced or indented.
    pub(crate) code_blocks: Vec<CodeBlock>,
    /// Blocks and pieces of HTML, comments among them.
    pub(crate) html: Vec<Range<usize>>,
    /// Hard line breaks: blanks or a backslash, with the line end.
    pub(crate) breaks: Vec<Range<usize>>,
    /// All blocks, outer ones before inner ones.
    pub(crate) blocks: Vec<Range<usize>>,
}

/// A run of text without markup: soft breaks are blanks, code keeps its backticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextPassage {
    pub(crate) kind: PassageKind,
    pub(crate) text: String,
    /// The text with its ASCII letters in lower case; offsets are the same.
    pub(crate) lower: String,
    /// Whether it is part of a block quote.
    pub(crate) quoted: bool,
    /// Whether it is part of a list.
    pub(crate) listed: bool,
    /// The origins of the pieces of `text`: an offset in it and one in the file, ascending.
    pieces: Vec<(usize, usize)>,
}

/// The kind of block that a passage belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PassageKind {
    /// A heading of any level.
    Heading,
    /// A paragraph or the text of a list item.
    Text,
    /// A cell of a table.
    Cell,
}

/// A link or an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MarkdownLink {
    /// The target as written, without the title.
    pub(crate) target: String,
    /// The range with its text.
    pub(crate) range: Range<usize>,
    pub(crate) is_image: bool,
}

/// Code within a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CodeSpan {
    /// The range with its backticks.
    pub(crate) range: Range<usize>,
    /// The range between the backticks, without one blank next to each of them.
    pub(crate) content: Range<usize>,
}

/// A block of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CodeBlock {
    /// The range with its fences.
    pub(crate) range: Range<usize>,
    /// Whether it has an opening fence without a closing one.
    pub(crate) is_unclosed: bool,
}

impl MarkdownBody {
    /// Parses the part of `text` from byte `start`.
    pub(crate) fn parse(text: &str, start: usize) -> Self {
        let mut reader = MarkdownReader::default();
        let options = Options::ENABLE_TABLES
            | Options::ENABLE_FOOTNOTES
            | Options::ENABLE_STRIKETHROUGH
            | Options::ENABLE_TASKLISTS;
        for (event, range) in Parser::new_ext(&text[start..], options).into_offset_iter() {
            // The parser sees only the body; ranges are kept in bytes of the file.
            let range = start + range.start..start + range.end;
            match event {
                Event::Start(tag) => reader.start_block(tag, range, text),
                Event::End(tag) => reader.end_block(tag),
                Event::Text(words) => reader.text(&[&words], range.start),
                Event::Code(code) => {
                    // The backticks let phrase rules recognize code and skip it.
                    reader.text(&["`", &code, "`"], range.start);
                    let content = code_content_range(text, &range);
                    reader.markdown.code_spans.push(CodeSpan { range, content });
                }
                Event::SoftBreak => reader.text(&[" "], range.start),
                Event::HardBreak => {
                    reader.text(&[" "], range.start);
                    reader.markdown.breaks.push(range);
                }
                // Blocks of HTML are recorded at their start tag, with their full range.
                Event::InlineHtml(_) => reader.markdown.html.push(range),
                Event::Rule => {
                    reader.finish_passage();
                    reader.markdown.blocks.push(range);
                }
                _ => {}
            }
        }
        reader.finish_passage();
        reader.markdown
    }

    /// Returns the ranges of all code: the blocks, then the spans without their backticks.
    pub(crate) fn code_ranges(&self) -> impl Iterator<Item = &Range<usize>> {
        let blocks = self.code_blocks.iter().map(|code| &code.range);
        blocks.chain(self.code_spans.iter().map(|code| &code.content))
    }

    /// Returns the passages that are headings.
    pub(crate) fn headings(&self) -> impl Iterator<Item = &TextPassage> {
        self.passages.iter().filter(|passage| passage.kind == PassageKind::Heading)
    }

    /// Returns `true` if a byte of the file belongs to code or HTML.
    pub(crate) fn is_opaque(&self, at: usize) -> bool {
        contains_offset(&self.code_blocks, |code| &code.range, at)
            || contains_offset(&self.code_spans, |code| &code.range, at)
            || contains_offset(&self.html, |range| range, at)
    }
}

impl TextPassage {
    /// Converts an offset in `text` to an offset in the file.
    pub(crate) fn file_offset(&self, at: usize) -> usize {
        let next = self.pieces.partition_point(|(piece, _)| *piece <= at);
        let (piece, place) = self.pieces[next.saturating_sub(1)];
        place + at.saturating_sub(piece)
    }
}

/// Returns `true` if one of the ranges, which are sorted and disjoint, contains an offset.
fn contains_offset<T>(list: &[T], range: impl Fn(&T) -> &Range<usize>, at: usize) -> bool {
    let next = list.partition_point(|item| range(item).start <= at);
    next > 0 && range(&list[next - 1]).contains(&at)
}

#[derive(Default)]
struct MarkdownReader {
    markdown: MarkdownBody,
    kind: Option<PassageKind>,
    quotes: usize,
    lists: usize,
    in_code: bool,
    text: String,
    pieces: Vec<(usize, usize)>,
}

impl MarkdownReader {
    fn start_block(&mut self, tag: Tag<'_>, range: Range<usize>, text: &str) {
        let kind = match tag {
            // Inline markup does not end a passage.
            Tag::Emphasis | Tag::Strong | Tag::Strikethrough => return,
            Tag::Link { dest_url, .. } => {
                return self.push_link(dest_url.into_string(), range, false);
            }
            Tag::Image { dest_url, .. } => {
                return self.push_link(dest_url.into_string(), range, true);
            }
            Tag::Heading { .. } => PassageKind::Heading,
            Tag::TableCell => PassageKind::Cell,
            _ => PassageKind::Text,
        };
        self.finish_passage();
        self.kind = Some(kind);
        match tag {
            Tag::BlockQuote(_) => self.quotes += 1,
            Tag::List(_) => self.lists += 1,
            Tag::CodeBlock(_) => {
                self.in_code = true;
                let is_unclosed = is_unclosed(text, &range);
                self.markdown.code_blocks.push(CodeBlock { range: range.clone(), is_unclosed });
            }
            Tag::HtmlBlock => self.markdown.html.push(range.clone()),
            _ => {}
        }
        // A suppression applies to a table, not to a single cell.
        if kind != PassageKind::Cell {
            self.markdown.blocks.push(range);
        }
    }

    fn push_link(&mut self, target: String, range: Range<usize>, is_image: bool) {
        self.markdown.links.push(MarkdownLink { target, range, is_image });
    }

    fn end_block(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Emphasis
            | TagEnd::Strong
            | TagEnd::Strikethrough
            | TagEnd::Link
            | TagEnd::Image => return,
            // The passage ends first, because it was written inside the quote.
            TagEnd::BlockQuote(_) => {
                self.finish_passage();
                self.quotes -= 1;
            }
            TagEnd::List(_) => {
                self.finish_passage();
                self.lists -= 1;
            }
            TagEnd::CodeBlock => self.in_code = false,
            _ => {}
        }
        self.finish_passage();
    }

    fn text(&mut self, parts: &[&str], at: usize) {
        if !self.in_code {
            self.pieces.push((self.text.len(), at));
            self.text.extend(parts.iter().copied());
        }
    }

    /// Stores the current passage. The buffers are reused, so that each passage has exact capacity.
    fn finish_passage(&mut self) {
        let kind = self.kind.replace(PassageKind::Text).unwrap_or(PassageKind::Text);
        if !self.text.trim_start().is_empty() {
            self.markdown.passages.push(TextPassage {
                kind,
                text: self.text.clone(),
                lower: self.text.to_ascii_lowercase(),
                quoted: self.quotes > 0,
                listed: self.lists > 0,
                pieces: self.pieces.clone(),
            });
        }
        self.text.clear();
        self.pieces.clear();
    }
}

/// Returns the range of the content of inline code: without the backticks and, if there is one on
/// both sides, a blank.
fn code_content_range(text: &str, range: &Range<usize>) -> Range<usize> {
    let source = &text[range.clone()];
    let width = source.len() - source.trim_start_matches('`').len();
    let (start, end) = (range.start + width, range.end.saturating_sub(width));
    match text.get(start..end).map(str::as_bytes) {
        // CommonMark strips one blank on each side, so that code can start with a backtick.
        Some([b' ', _, .., b' ']) => start + 1..end - 1,
        Some(_) => start..end,
        None => range.clone(),
    }
}

/// Returns `true` if a block of code starts with a fence and extends to the end of the file without
/// a closing one.
fn is_unclosed(text: &str, range: &Range<usize>) -> bool {
    let source = text[range.clone()].trim_end_matches(['\r', '\n']);
    let marker = match source.as_bytes() {
        [b'`', b'`', b'`', ..] => '`',
        [b'~', b'~', b'~', ..] => '~',
        _ => return false,
    };
    // An unclosed fence swallows the rest of the file.
    if !text[range.end..].trim_start().is_empty() {
        return false;
    }
    let width = source.len() - source.trim_start_matches(marker).len();
    let closed = source.lines().skip(1).last().is_some_and(|line| {
        // Fences in lists and quotes are indented or marked.
        let line = line.trim_start_matches([' ', '\t', '>']).trim_end();
        line.len() >= width && line.chars().all(|c| c == marker)
    });
    !closed
}

#[cfg(test)]
mod tests;
