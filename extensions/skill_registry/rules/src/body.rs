//! The body of a skill: its Markdown in one pass, the paths it names, phrases and characters in it.

pub(crate) mod invisible;
pub(crate) mod local_links;
pub(crate) mod phrase;

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// What the Markdown of a body consists of, each list in the order of the file.
///
/// Every range and offset is one of bytes in the whole file; [`EntryContent::span_at`] turns it into
/// a line and a column.
///
/// [`EntryContent::span_at`]: crate::EntryContent::span_at
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MarkdownBody {
    /// The text as a reader sees it.
    pub(crate) passages: Vec<TextPassage>,
    /// Links and images outside code, however they are written.
    pub(crate) links: Vec<MarkdownLink>,
    /// Code within a line, such as `scripts/extract.py`.
    pub(crate) code_spans: Vec<CodeSpan>,
    /// Blocks of code, fenced or indented.
    pub(crate) code_blocks: Vec<CodeBlock>,
    /// Blocks and pieces of HTML, comments among them.
    pub(crate) html: Vec<Range<usize>>,
    /// Hard line breaks: the blanks or the backslash and the line end.
    pub(crate) breaks: Vec<Range<usize>>,
    /// Every block, outer ones before the ones in them.
    pub(crate) blocks: Vec<Range<usize>>,
}

/// A run of text without markup: soft breaks are blanks, code is kept in backticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextPassage {
    pub(crate) kind: PassageKind,
    pub(crate) text: String,
    /// The text with its ASCII letters in lower case; offsets are the same.
    pub(crate) lower: String,
    /// Whether it stands in a block quote.
    pub(crate) quoted: bool,
    /// Whether it stands in a list.
    pub(crate) listed: bool,
    /// Where the pieces of `text` come from: an offset in it and one in the file, ascending.
    pieces: Vec<(usize, usize)>,
}

/// What a passage is part of.
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
    /// Where it leads, as it is written, without the title.
    pub(crate) target: String,
    /// The whole link, its text included.
    pub(crate) range: Range<usize>,
    pub(crate) is_image: bool,
}

/// Code within a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CodeSpan {
    /// The whole of it, backticks included.
    pub(crate) range: Range<usize>,
    /// What stands between the backticks and the blanks beside them.
    pub(crate) content: Range<usize>,
}

/// A block of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CodeBlock {
    /// The whole of it, fences included.
    pub(crate) range: Range<usize>,
    /// Whether it has an opening fence that nothing closes before the file ends.
    pub(crate) is_unclosed: bool,
}

impl MarkdownBody {
    /// Reads the part of `text` from byte `start`.
    pub(crate) fn read(text: &str, start: usize) -> Self {
        let mut reader = MarkdownReader::default();
        let options = Options::ENABLE_TABLES
            | Options::ENABLE_FOOTNOTES
            | Options::ENABLE_STRIKETHROUGH
            | Options::ENABLE_TASKLISTS;
        for (event, range) in Parser::new_ext(&text[start..], options).into_offset_iter() {
            let range = start + range.start..start + range.end;
            match event {
                Event::Start(tag) => reader.open(tag, range, text),
                Event::End(tag) => reader.close(tag),
                Event::Text(words) => reader.text(&[&words], range.start),
                Event::Code(code) => {
                    reader.text(&["`", &code, "`"], range.start);
                    let content = content_of_code(text, &range);
                    reader.markdown.code_spans.push(CodeSpan { range, content });
                }
                Event::SoftBreak => reader.text(&[" "], range.start),
                Event::HardBreak => {
                    reader.text(&[" "], range.start);
                    reader.markdown.breaks.push(range);
                }
                Event::InlineHtml(_) => reader.markdown.html.push(range),
                Event::Rule => {
                    reader.flush();
                    reader.markdown.blocks.push(range);
                }
                _ => {}
            }
        }
        reader.flush();
        reader.markdown
    }

    /// Returns the passages that are headings.
    pub(crate) fn headings(&self) -> impl Iterator<Item = &TextPassage> {
        self.passages.iter().filter(|passage| passage.kind == PassageKind::Heading)
    }

    /// Tells whether a byte of the file lies in code or in HTML.
    pub(crate) fn is_opaque(&self, at: usize) -> bool {
        covers(&self.code_blocks, |code| &code.range, at)
            || covers(&self.code_spans, |code| &code.range, at)
            || covers(&self.html, |range| range, at)
    }
}

impl TextPassage {
    /// Returns the offset in the file of an offset in `text`.
    pub(crate) fn file_offset(&self, at: usize) -> usize {
        let next = self.pieces.partition_point(|(piece, _)| *piece <= at);
        let (piece, place) = self.pieces[next.saturating_sub(1)];
        place + at.saturating_sub(piece)
    }
}

/// Looks into ranges that come in order and do not overlap.
fn covers<T>(list: &[T], range: impl Fn(&T) -> &Range<usize>, at: usize) -> bool {
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
    fn open(&mut self, tag: Tag<'_>, range: Range<usize>, text: &str) {
        let kind = match tag {
            Tag::Emphasis | Tag::Strong | Tag::Strikethrough => return,
            Tag::Link { dest_url, .. } => return self.link(dest_url.into_string(), range, false),
            Tag::Image { dest_url, .. } => return self.link(dest_url.into_string(), range, true),
            Tag::Heading { .. } => PassageKind::Heading,
            Tag::TableCell => PassageKind::Cell,
            _ => PassageKind::Text,
        };
        self.flush();
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
        if kind != PassageKind::Cell {
            self.markdown.blocks.push(range);
        }
    }

    fn link(&mut self, target: String, range: Range<usize>, is_image: bool) {
        self.markdown.links.push(MarkdownLink { target, range, is_image });
    }

    fn close(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Emphasis
            | TagEnd::Strong
            | TagEnd::Strikethrough
            | TagEnd::Link
            | TagEnd::Image => return,
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.quotes -= 1;
            }
            TagEnd::List(_) => {
                self.flush();
                self.lists -= 1;
            }
            TagEnd::CodeBlock => self.in_code = false,
            _ => {}
        }
        self.flush();
    }

    fn text(&mut self, parts: &[&str], at: usize) {
        if !self.in_code {
            self.pieces.push((self.text.len(), at));
            self.text.extend(parts.iter().copied());
        }
    }

    /// Ends a passage. The buffers stay, so that each passage takes no more room than it needs.
    fn flush(&mut self) {
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

/// Returns where the content of inline code is: without the backticks and, if there is one on
/// either side, a blank.
fn content_of_code(text: &str, range: &Range<usize>) -> Range<usize> {
    let source = &text[range.clone()];
    let width = source.len() - source.trim_start_matches('`').len();
    let (start, end) = (range.start + width, range.end.saturating_sub(width));
    match text.get(start..end).map(str::as_bytes) {
        Some([b' ', _, .., b' ']) => start + 1..end - 1,
        Some(_) => start..end,
        None => range.clone(),
    }
}

/// Tells whether a block of code starts with a fence and runs to the end of the file without one.
fn is_unclosed(text: &str, range: &Range<usize>) -> bool {
    let source = text[range.clone()].trim_end_matches(['\r', '\n']);
    let marker = match source.as_bytes() {
        [b'`', b'`', b'`', ..] => '`',
        [b'~', b'~', b'~', ..] => '~',
        _ => return false,
    };
    // Only the last one can be.
    if !text[range.end..].trim_start().is_empty() {
        return false;
    }
    let width = source.len() - source.trim_start_matches(marker).len();
    let closed = source.lines().skip(1).last().is_some_and(|line| {
        let line = line.trim_start_matches([' ', '\t', '>']).trim_end();
        line.len() >= width && line.chars().all(|c| c == marker)
    });
    !closed
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "---\n---\n# The `é` *way*\n\nUse `x` or\n[y](z).\n\n> quoted\n\n- one\n- two\n  - deep  \n    end\n\n| a | b |\n|---|---|\n| c | `` d` `` |\n\n```sh\nrun [no](link)\n```\n<!-- note -->\n\n***\n\n![i](<a b.png> \"t\") [r]\n\n[r]: ../up.md\n\n~~~\nopen\n";

    fn at(text: &str) -> usize {
        TEXT.find(text).unwrap()
    }

    #[test]
    fn passages_have_no_markup_and_know_their_place() {
        let markdown = MarkdownBody::read(TEXT, 8);
        let passages: Vec<_> = markdown
            .passages
            .iter()
            .map(|it| (it.kind, it.text.as_str(), it.quoted, it.listed))
            .collect();
        assert_eq!(
            passages,
            [
                (PassageKind::Heading, "The `é` way", false, false),
                (PassageKind::Text, "Use `x` or y.", false, false),
                (PassageKind::Text, "quoted", true, false),
                (PassageKind::Text, "one", false, true),
                (PassageKind::Text, "two", false, true),
                (PassageKind::Text, "deep end", false, true),
                (PassageKind::Cell, "a", false, false),
                (PassageKind::Cell, "b", false, false),
                (PassageKind::Cell, "c", false, false),
                (PassageKind::Cell, "`d``", false, false),
                (PassageKind::Text, "i r", false, false),
            ]
        );
        let place = |passage: usize, word: &str| {
            let passage = &markdown.passages[passage];
            &TEXT[passage.file_offset(passage.text.find(word).unwrap())..][..word.len()]
        };
        for (passage, word) in [(0, "way"), (1, "or"), (1, "y"), (5, "deep"), (5, "end")] {
            assert_eq!(place(passage, word), word);
        }
        let headings: Vec<_> = markdown.headings().map(|it| it.file_offset(0)).collect();
        assert_eq!(headings, [at("The")]);
    }

    #[test]
    fn links_and_code_are_those_of_the_file() {
        let markdown = MarkdownBody::read(TEXT, 8);
        let links: Vec<_> = markdown
            .links
            .iter()
            .map(|link| (&*link.target, &TEXT[link.range.clone()], link.is_image))
            .collect();
        assert_eq!(
            links,
            [
                ("z", "[y](z)", false),
                ("a b.png", "![i](<a b.png> \"t\")", true),
                ("../up.md", "[r]", false),
            ]
        );
        let spans: Vec<_> = markdown
            .code_spans
            .iter()
            .map(|code| (&TEXT[code.range.clone()], &TEXT[code.content.clone()]))
            .collect();
        assert_eq!(spans, [("`é`", "é"), ("`x`", "x"), ("`` d` ``", "d`")]);
    }

    #[test]
    fn what_is_not_prose_is_known() {
        let markdown = MarkdownBody::read(TEXT, 8);
        let code: Vec<_> = markdown
            .code_blocks
            .iter()
            .map(|code| (&TEXT[code.range.clone()], code.is_unclosed))
            .collect();
        assert_eq!(code, [("```sh\nrun [no](link)\n```", false), ("~~~\nopen\n", true)]);
        let html: Vec<_> = markdown.html.iter().map(|range| &TEXT[range.clone()]).collect();
        assert_eq!(html, ["<!-- note -->\n"]);
        let breaks: Vec<_> = markdown.breaks.iter().map(|range| &TEXT[range.clone()]).collect();
        assert_eq!(breaks, ["  \n"]);
        for opaque in ["x` or", "run", "note"] {
            assert!(markdown.is_opaque(at(opaque)), "{opaque}");
        }
        assert!(!markdown.is_opaque(at("quoted")));
    }

    #[test]
    fn footnotes_are_text_and_no_links() {
        let markdown = MarkdownBody::read("See[^1] it.\n\n[^1]: the-note\n", 0);
        let passages: Vec<_> = markdown.passages.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(passages, ["See it.", "the-note"]);
        assert_eq!(markdown.links, []);
    }

    #[test]
    fn a_fence_is_unclosed_only_if_it_runs_to_the_end() {
        let unclosed = |text: &str| {
            let blocks = MarkdownBody::read(text, 0).code_blocks;
            blocks.iter().map(|code| code.is_unclosed).collect::<Vec<_>>()
        };
        assert_eq!(unclosed("```\na\n```\n"), [false]);
        assert_eq!(unclosed("```\na\n"), [true]);
        assert_eq!(unclosed("```\na\n``\n"), [true]);
        assert_eq!(unclosed("````\n```\n````"), [false]);
        assert_eq!(unclosed("> ```\n> a\n> ```\n"), [false]);
        assert_eq!(unclosed("- ```\n  a\n\ntext\n"), [false]);
        assert_eq!(unclosed("```"), [true]);
        assert_eq!(unclosed("    indented\n"), [false]);
    }
}
