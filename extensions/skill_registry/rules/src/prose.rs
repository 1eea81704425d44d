//! The text of a body as a reader sees it: passages without markup, and what is not prose.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// What a passage is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A heading of a level from 1 to 6.
    Heading(u8),
    /// A paragraph or the text of a list item.
    Text,
    /// A cell of a table.
    Cell,
}

/// A run of text without markup: soft breaks are blanks, code is kept in backticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Passage {
    pub(crate) kind: Kind,
    pub(crate) text: String,
    /// Whether it stands in a block quote.
    pub(crate) quoted: bool,
    /// Whether it stands in a list.
    pub(crate) listed: bool,
    /// Where the pieces of `text` come from: an offset in it and one in the file, ascending.
    pieces: Vec<(usize, usize)>,
}

impl Passage {
    /// Returns the offset in the file of an offset in `text`.
    pub(crate) fn place(&self, at: usize) -> usize {
        let next = self.pieces.partition_point(|(piece, _)| *piece <= at);
        let (piece, place) = self.pieces[next.saturating_sub(1)];
        place + at.saturating_sub(piece)
    }
}

/// A fenced or indented block of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Code {
    /// Its bytes in the file, fences included.
    pub(crate) range: Range<usize>,
    /// Whether it has an opening fence that nothing closes before the file ends.
    pub(crate) unclosed: bool,
}

/// What a body consists of. Every offset is one in the whole file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prose {
    pub(crate) passages: Vec<Passage>,
    pub(crate) code: Vec<Code>,
    /// Code within a line, backticks included.
    pub(crate) code_spans: Vec<Range<usize>>,
    /// Blocks and pieces of HTML, comments among them.
    pub(crate) html: Vec<Range<usize>>,
    /// Hard line breaks: the blanks or the backslash and the line end.
    pub(crate) breaks: Vec<Range<usize>>,
    /// Every block, outer ones before the ones in them.
    pub(crate) blocks: Vec<Range<usize>>,
}

impl Prose {
    /// Reads the part of `text` from byte `start`.
    pub(crate) fn read(text: &str, start: usize) -> Self {
        let mut reader = Reader::default();
        let options =
            Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
        for (event, range) in Parser::new_ext(&text[start..], options).into_offset_iter() {
            let range = start + range.start..start + range.end;
            match event {
                Event::Start(tag) => reader.open(&tag, range, text),
                Event::End(tag) => reader.close(tag),
                Event::Text(words) => reader.text(&words, range.start),
                Event::Code(code) => {
                    reader.text(&format!("`{code}`"), range.start);
                    reader.prose.code_spans.push(range);
                }
                Event::SoftBreak => reader.text(" ", range.start),
                Event::HardBreak => {
                    reader.text(" ", range.start);
                    reader.prose.breaks.push(range);
                }
                Event::InlineHtml(_) => reader.prose.html.push(range),
                Event::Rule => {
                    reader.flush();
                    reader.prose.blocks.push(range);
                }
                _ => {}
            }
        }
        reader.flush();
        reader.prose
    }

    /// Tells whether a byte of the file lies in code or in HTML.
    pub(crate) fn is_opaque(&self, at: usize) -> bool {
        self.is_verbatim(at) || covers(&self.code_spans, |range| range, at)
    }

    /// Tells whether a byte of the file lies in a block of code or in HTML.
    pub(crate) fn is_verbatim(&self, at: usize) -> bool {
        covers(&self.code, |code| &code.range, at) || covers(&self.html, |range| range, at)
    }

    /// Returns the headings: level, text without blanks around it, where it starts.
    pub(crate) fn headings(&self) -> impl Iterator<Item = (u8, &str, usize)> {
        self.passages.iter().filter_map(|passage| match passage.kind {
            Kind::Heading(level) => Some((level, passage.text.trim(), passage.place(0))),
            Kind::Text | Kind::Cell => None,
        })
    }
}

/// Looks into ranges that come in order and do not overlap.
fn covers<T>(list: &[T], range: impl Fn(&T) -> &Range<usize>, at: usize) -> bool {
    let next = list.partition_point(|item| range(item).start <= at);
    next > 0 && range(&list[next - 1]).contains(&at)
}

#[derive(Default)]
struct Reader {
    prose: Prose,
    kind: Option<Kind>,
    quotes: usize,
    lists: usize,
    in_code: bool,
    text: String,
    pieces: Vec<(usize, usize)>,
}

impl Reader {
    fn open(&mut self, tag: &Tag<'_>, range: Range<usize>, text: &str) {
        let kind = match tag {
            Tag::Heading { level, .. } => Kind::Heading(*level as u8),
            Tag::TableCell => Kind::Cell,
            Tag::Emphasis
            | Tag::Strong
            | Tag::Strikethrough
            | Tag::Link { .. }
            | Tag::Image { .. } => return,
            _ => Kind::Text,
        };
        self.flush();
        self.kind = Some(kind);
        match tag {
            Tag::BlockQuote(_) => self.quotes += 1,
            Tag::List(_) => self.lists += 1,
            Tag::CodeBlock(_) => {
                self.in_code = true;
                let unclosed = is_unclosed(text, &range);
                self.prose.code.push(Code { range: range.clone(), unclosed });
            }
            Tag::HtmlBlock => self.prose.html.push(range.clone()),
            _ => {}
        }
        if kind != Kind::Cell {
            self.prose.blocks.push(range);
        }
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

    fn text(&mut self, text: &str, at: usize) {
        if !self.in_code {
            self.pieces.push((self.text.len(), at));
            self.text.push_str(text);
        }
    }

    fn flush(&mut self) {
        let kind = self.kind.replace(Kind::Text).unwrap_or(Kind::Text);
        let text = std::mem::take(&mut self.text);
        let pieces = std::mem::take(&mut self.pieces);
        if !text.trim().is_empty() {
            let (quoted, listed) = (self.quotes > 0, self.lists > 0);
            self.prose.passages.push(Passage { kind, text, quoted, listed, pieces });
        }
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
    let width = source.len() - source.trim_start_matches(marker).len();
    let closed = source.lines().skip(1).last().is_some_and(|line| {
        let line = line.trim_start_matches([' ', '\t', '>']).trim_end();
        line.len() >= width && line.chars().all(|c| c == marker)
    });
    !closed && text[range.end..].trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "---\n---\n# The *way*\n\nUse `x` or\n[y](z).\n\n> quoted\n\n- one\n- two\n  - deep  \n    end\n\n| a | b |\n|---|---|\n| c | `d` |\n\n```sh\nrun\n```\n<!-- note -->\n\n***\n\n~~~\nopen\n";

    #[test]
    fn passages_have_no_markup_and_know_their_place() {
        let prose = Prose::read(TEXT, 8);
        let passages: Vec<_> = prose
            .passages
            .iter()
            .map(|it| (it.kind, it.text.as_str(), it.quoted, it.listed))
            .collect();
        assert_eq!(
            passages,
            [
                (Kind::Heading(1), "The way", false, false),
                (Kind::Text, "Use `x` or y.", false, false),
                (Kind::Text, "quoted", true, false),
                (Kind::Text, "one", false, true),
                (Kind::Text, "two", false, true),
                (Kind::Text, "deep end", false, true),
                (Kind::Cell, "a", false, false),
                (Kind::Cell, "b", false, false),
                (Kind::Cell, "c", false, false),
                (Kind::Cell, "`d`", false, false),
            ]
        );
        let place = |passage: usize, word: &str| {
            let passage = &prose.passages[passage];
            &TEXT[passage.place(passage.text.find(word).unwrap())..][..word.len()]
        };
        for (passage, word) in [(0, "way"), (1, "or"), (1, "y"), (5, "deep"), (5, "end")] {
            assert_eq!(place(passage, word), word);
        }
        assert_eq!(prose.headings().collect::<Vec<_>>(), [(1, "The way", 10)]);
    }

    #[test]
    fn what_is_not_prose_is_known() {
        let prose = Prose::read(TEXT, 8);
        let code: Vec<_> =
            prose.code.iter().map(|code| (&TEXT[code.range.clone()], code.unclosed)).collect();
        assert_eq!(code, [("```sh\nrun\n```", false), ("~~~\nopen\n", true)]);
        let html: Vec<_> = prose.html.iter().map(|range| &TEXT[range.clone()]).collect();
        assert_eq!(html, ["<!-- note -->\n"]);
        let breaks: Vec<_> = prose.breaks.iter().map(|range| &TEXT[range.clone()]).collect();
        assert_eq!(breaks, ["  \n"]);
        let at = |text: &str| TEXT.find(text).unwrap();
        assert!(prose.is_opaque(at("x` or")) && !prose.is_verbatim(at("x` or")));
        assert!(prose.is_verbatim(at("run")) && prose.is_verbatim(at("note")));
        assert!(!prose.is_opaque(at("quoted")));
    }

    #[test]
    fn a_fence_is_unclosed_only_if_it_runs_to_the_end() {
        let unclosed = |text: &str| {
            Prose::read(text, 0).code.iter().map(|code| code.unclosed).collect::<Vec<_>>()
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
