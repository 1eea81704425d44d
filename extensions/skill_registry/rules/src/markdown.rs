//! What rules want to know of a body's Markdown: links, headings, code.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd};
use skill_format::Span;

/// The parts of a body that rules look at, each list in the order of the file.
///
/// Spans and ranges are places in the whole file, not in the body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Markdown {
    /// Links and images outside code, however they are written.
    pub links: Vec<Link>,
    /// Headings of both kinds.
    pub headings: Vec<Heading>,
    /// Code within a line.
    pub code_spans: Vec<CodeSpan>,
    /// Blocks of code, fenced or indented.
    pub code_blocks: Vec<CodeBlock>,
}

/// A link or an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Where it leads, as it is written, without the title.
    pub target: String,
    /// Where the link starts.
    pub span: Span,
    /// The bytes of the whole link, its text included.
    pub range: Range<usize>,
    /// Whether it is an image.
    pub is_image: bool,
}

/// A heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// From 1, the largest, to 6.
    pub level: u8,
    /// Its text without markup.
    pub text: String,
    /// Where it starts.
    pub span: Span,
    /// The bytes of the whole heading.
    pub range: Range<usize>,
}

/// Code within a line, such as `scripts/extract.py`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeSpan {
    /// What stands between the backticks.
    pub text: String,
    /// Where it starts.
    pub span: Span,
    /// The bytes it takes, backticks included.
    pub range: Range<usize>,
}

/// A block of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeBlock {
    /// What stands behind the opening fence; empty if there is nothing or no fence.
    pub info: String,
    /// The lines of the file it takes, fences included.
    pub lines: Range<u32>,
    /// The bytes it takes, fences included.
    pub range: Range<usize>,
}

impl Markdown {
    /// Reads a body: the part of `text` from byte `start`, which is on line `line`.
    pub(crate) fn read(text: &str, start: usize, line: u32) -> Self {
        let body = &text[start..];
        let options = Options::ENABLE_TABLES
            | Options::ENABLE_FOOTNOTES
            | Options::ENABLE_STRIKETHROUGH
            | Options::ENABLE_TASKLISTS;
        let mut places = Places { text: body, at: 0, span: Span { line, column: 1 } };
        let mut markdown = Self::default();
        let mut in_heading = false;
        for (event, range) in Parser::new_ext(body, options).into_offset_iter() {
            let whole = start + range.start..start + range.end;
            match event {
                Event::Start(Tag::Link { dest_url, .. }) => {
                    markdown.link(&dest_url, false, places.of(range.start), whole);
                }
                Event::Start(Tag::Image { dest_url, .. }) => {
                    markdown.link(&dest_url, true, places.of(range.start), whole);
                }
                Event::Start(Tag::Heading { level, .. }) => {
                    in_heading = true;
                    markdown.headings.push(Heading {
                        level: level as u8,
                        text: String::new(),
                        span: places.of(range.start),
                        range: whole,
                    });
                }
                Event::End(TagEnd::Heading(_)) => in_heading = false,
                Event::Start(Tag::CodeBlock(kind)) => {
                    let info = match kind {
                        CodeBlockKind::Fenced(info) => info.trim().to_owned(),
                        CodeBlockKind::Indented => String::new(),
                    };
                    let first = places.of(range.start).line;
                    let inner = body[range].trim_end_matches('\n');
                    let count = inner.bytes().filter(|&byte| byte == b'\n').count() + 1;
                    let end = first.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
                    markdown.code_blocks.push(CodeBlock { info, lines: first..end, range: whole });
                }
                Event::Code(code) => {
                    markdown.heading_text(in_heading, &code);
                    let span = places.of(range.start);
                    let text = code.into_string();
                    markdown.code_spans.push(CodeSpan { text, span, range: whole });
                }
                Event::Text(text) => markdown.heading_text(in_heading, &text),
                Event::SoftBreak | Event::HardBreak => markdown.heading_text(in_heading, " "),
                _ => {}
            }
        }
        markdown
    }

    /// Tells whether a line of the file belongs to a block of code.
    #[must_use]
    pub fn is_code_line(&self, line: u32) -> bool {
        let next = self.code_blocks.partition_point(|block| block.lines.start <= line);
        next > 0 && self.code_blocks[next - 1].lines.contains(&line)
    }

    fn link(&mut self, target: &CowStr<'_>, is_image: bool, span: Span, range: Range<usize>) {
        self.links.push(Link { target: target.to_string(), span, range, is_image });
    }

    fn heading_text(&mut self, in_heading: bool, text: &str) {
        if let (true, Some(heading)) = (in_heading, self.headings.last_mut()) {
            heading.text.push_str(text);
        }
    }
}

/// Turns offsets into places. Offsets come in order, so every character is counted once, however
/// long its line is.
struct Places<'a> {
    text: &'a str,
    at: usize,
    span: Span,
}

impl Places<'_> {
    /// Returns the place of an offset; of one that was passed, the place reached.
    fn of(&mut self, offset: usize) -> Span {
        for c in self.text.get(self.at..offset).unwrap_or_default().chars() {
            if c == '\n' {
                self.span = Span { line: self.span.line.saturating_add(1), column: 1 };
            } else {
                self.span.column = self.span.column.saturating_add(1);
            }
        }
        self.at = self.at.max(offset);
        self.span
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "---\n---\n# The `é` *way*\n\nSee [a](references/A.md \"t\"), ![b](b.png) and `scripts/x.py`.\n\n```sh run\n[no](link)\n```\nUnder\nline\n---\n\n    indented\n\n[r] <https://e.org>\n\n[r]: ../up.md\n";

    fn place(span: Span) -> (u32, u32) {
        (span.line, span.column)
    }

    #[test]
    fn places_are_those_of_the_file() {
        let markdown = Markdown::read(TEXT, 8, 3);
        let links: Vec<_> = markdown
            .links
            .iter()
            .map(|link| (&*link.target, place(link.span), link.is_image, &TEXT[link.range.clone()]))
            .collect();
        assert_eq!(
            links,
            [
                ("references/A.md", (5, 5), false, "[a](references/A.md \"t\")"),
                ("b.png", (5, 31), true, "![b](b.png)"),
                ("../up.md", (16, 1), false, "[r]"),
                ("https://e.org", (16, 5), false, "<https://e.org>"),
            ]
        );
        let headings: Vec<_> =
            markdown.headings.iter().map(|it| (it.level, &*it.text, place(it.span))).collect();
        assert_eq!(headings, [(1, "The é way", (3, 1)), (2, "Under line", (10, 1))]);
        let spans: Vec<_> = markdown
            .code_spans
            .iter()
            .map(|code| (&*code.text, place(code.span), &TEXT[code.range.clone()]))
            .collect();
        assert_eq!(spans, [("é", (3, 7), "`é`"), ("scripts/x.py", (5, 47), "`scripts/x.py`")]);
    }

    #[test]
    fn lines_of_code_are_known() {
        let markdown = Markdown::read(TEXT, 8, 3);
        let infos: Vec<_> = markdown.code_blocks.iter().map(|block| &*block.info).collect();
        assert_eq!(infos, ["sh run", ""]);
        let lines: Vec<_> = (1..=20).filter(|line| markdown.is_code_line(*line)).collect();
        assert_eq!(lines, [7, 8, 9, 14]);
    }
}
