//! Markdown that arrives in parts: each block is rendered once, as soon as it is complete.
//!
//! Printed lines never change, so a terminal needs no redrawing. Items of a list and lines of code
//! count as complete on their own, because lists and code can be long.

use pulldown_cmark::{Event, Parser, Tag};

use super::{MarkdownLayout, options};

/// The size of an incomplete block, in bytes, at which it is rendered as it is.
const MAX_BLOCK_BYTES: usize = 64 * 1024;

/// The size of an incomplete block, in bytes, up to which every line parses the block again. A longer
/// one is parsed again when it has grown by an eighth, or parsing would take quadratic time.
const EAGER_BYTES: usize = 4 * 1024;

/// A text that arrives in parts, and the rendered form of its complete blocks.
#[derive(Debug)]
pub struct MarkdownStream {
    layout: MarkdownLayout,
    /// The last line, until its end arrives.
    partial: String,
    /// The lines of the block that is not complete yet.
    pending: String,
    /// The size of the pending lines from which they are parsed again.
    next_parse: usize,
    fence: Option<CodeFence>,
    /// The pending lines continue a list whose first items are rendered already.
    list: Option<ListPosition>,
    /// Whether a block has been rendered, so that the next one needs a blank line before it.
    has_output: bool,
}

/// The next item of a list.
#[derive(Debug, Clone, Copy)]
enum ListPosition {
    Bullet,
    Number(u64),
}

/// An open fence of code at the outermost level.
#[derive(Debug)]
struct CodeFence {
    mark: char,
    length: usize,
    indent: usize,
}

/// A block at the outermost level.
struct TopLevelBlock {
    start: usize,
    kind: BlockKind,
}

#[derive(Clone, PartialEq, Eq)]
enum BlockKind {
    /// Ends with its line.
    Line,
    /// Ends with a blank line.
    Paragraph,
    /// May continue after a blank line.
    Open,
    /// A list, with the starts of its items and the number of the first one.
    List { items: Vec<usize>, first: Option<u64> },
}

impl MarkdownStream {
    /// Creates an empty stream.
    #[must_use]
    pub fn new(layout: MarkdownLayout) -> Self {
        Self {
            layout,
            partial: String::new(),
            pending: String::new(),
            next_parse: 0,
            fence: None,
            list: None,
            has_output: false,
        }
    }

    /// Replaces the width of the lines that follow.
    pub fn set_width(&mut self, width: usize) {
        self.layout.width = width;
    }

    /// Adds the next part of the text. Returns the lines of the blocks that are complete with it.
    #[must_use]
    pub fn push(&mut self, text: &str) -> String {
        let mut out = String::new();
        for part in text.split_inclusive('\n') {
            self.partial.push_str(part);
            if part.ends_with('\n') {
                let line = std::mem::take(&mut self.partial);
                self.push_line(line.trim_end_matches(['\n', '\r']), &mut out);
            }
        }
        out
    }

    /// Ends the text and returns the remaining lines. The stream is then empty again.
    #[must_use]
    pub fn finish(&mut self) -> String {
        let mut out = String::new();
        let last = std::mem::take(&mut self.partial);
        if !last.is_empty() {
            self.push_line(last.trim_end_matches('\r'), &mut out);
        }
        self.flush(self.pending.len(), &mut out);
        *self = Self::new(self.layout);
        out
    }

    /// Discards the text. Returns whether a part of it has been rendered.
    pub fn discard(&mut self) -> bool {
        let has_output = self.has_output;
        *self = Self::new(self.layout);
        has_output
    }

    fn push_line(&mut self, line: &str, out: &mut String) {
        if let Some(fence) = &self.fence {
            match fence.is_closed_by(line) {
                true => self.fence = None,
                false => {
                    let indent = line.len() - line.trim_start_matches(' ').len();
                    out.push_str(&self.layout.render_code_line(&line[indent.min(fence.indent)..]));
                }
            }
            return;
        }
        if let Some(fence) = CodeFence::open(line)
            && (fence.indent == 0 || !self.is_in_list())
        {
            self.flush(self.pending.len(), out);
            self.separate(out);
            self.fence = Some(fence);
            return;
        }
        self.pending.push_str(line);
        self.pending.push('\n');
        let length = self.pending.len();
        if length > EAGER_BYTES && length < self.next_parse {
            return;
        }
        self.next_parse = length + length / 8;
        let blocks = top_level_blocks(&self.pending);
        let complete = match blocks.last() {
            None if line.trim().is_empty() => self.pending.len(),
            None => 0,
            Some(last) => match &last.kind {
                BlockKind::Line => self.pending.len(),
                BlockKind::Paragraph if line.trim().is_empty() => self.pending.len(),
                BlockKind::List { items, .. } => items.last().copied().unwrap_or(last.start),
                BlockKind::Paragraph | BlockKind::Open => last.start,
            },
        };
        let is_too_long = length > MAX_BLOCK_BYTES;
        self.flush(if is_too_long { length } else { complete }, out);
    }

    fn is_in_list(&self) -> bool {
        let last = top_level_blocks(&self.pending).pop();
        last.is_some_and(|last| matches!(last.kind, BlockKind::List { .. }))
    }

    /// Renders the pending text before an index.
    fn flush(&mut self, end: usize, out: &mut String) {
        let rest = self.pending.split_off(end);
        let text = std::mem::replace(&mut self.pending, rest);
        if text.trim().is_empty() {
            return;
        }
        let rendered = match self.list {
            Some(ListPosition::Number(number)) => self.layout.render_numbered(&text, number),
            Some(ListPosition::Bullet) | None => self.layout.render(&text),
        };
        let blocks = top_level_blocks(&text);
        let continues = self.list.is_some()
            && matches!(blocks.first(), Some(first) if matches!(first.kind, BlockKind::List { .. }));
        if !rendered.is_empty() {
            if !continues {
                self.separate(out);
            }
            self.has_output = true;
            out.push_str(&rendered);
        }
        // The list goes on only if its next item is what remains.
        let is_cut = top_level_blocks(&self.pending)
            .first()
            .is_some_and(|next| matches!(next.kind, BlockKind::List { .. }));
        self.list = match blocks.as_slice() {
            [.., TopLevelBlock { kind: BlockKind::List { items, first }, .. }] if is_cut => {
                let before = match (self.list, blocks.len()) {
                    (Some(ListPosition::Number(number)), 1) => Some(number),
                    _ => *first,
                };
                Some(match before {
                    Some(number) => ListPosition::Number(number + items.len() as u64),
                    None => ListPosition::Bullet,
                })
            }
            _ => None,
        };
    }

    /// Prints the blank line between two blocks.
    fn separate(&mut self, out: &mut String) {
        if std::mem::replace(&mut self.has_output, true) {
            out.push('\n');
        }
        self.list = None;
    }
}

impl CodeFence {
    fn open(line: &str) -> Option<Self> {
        let text = line.trim_start_matches(' ');
        let indent = line.len() - text.len();
        let mark = text.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let length = text.chars().take_while(|c| *c == mark).count();
        // Three backticks on one line with text after them and more backticks are inline code.
        let is_inline = mark == '`' && text[length..].contains('`');
        (indent <= 3 && length >= 3 && !is_inline).then_some(Self { mark, length, indent })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let text = line.trim_start_matches(' ');
        let length = text.chars().take_while(|c| *c == self.mark).count();
        line.len() - text.len() <= 3
            && length >= self.length
            && text[length * self.mark.len_utf8()..].trim().is_empty()
    }
}

fn top_level_blocks(text: &str) -> Vec<TopLevelBlock> {
    let mut blocks = Vec::new();
    let mut depth = 0_usize;
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                if depth == 0 {
                    let kind = match tag {
                        Tag::Heading { .. } => BlockKind::Line,
                        Tag::List(first) => BlockKind::List { items: Vec::new(), first },
                        Tag::CodeBlock(_) => BlockKind::Open,
                        _ => BlockKind::Paragraph,
                    };
                    blocks.push(TopLevelBlock { start: range.start, kind });
                } else if let (1, Tag::Item, Some(TopLevelBlock { kind, .. })) =
                    (depth, tag, blocks.last_mut())
                    && let BlockKind::List { items, .. } = kind
                {
                    items.push(range.start);
                }
                depth += 1;
            }
            Event::End(_) => depth = depth.saturating_sub(1),
            Event::Rule if depth == 0 => {
                blocks.push(TopLevelBlock { start: range.start, kind: BlockKind::Line });
            }
            _ => {}
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(width: usize) -> MarkdownStream {
        MarkdownStream::new(MarkdownLayout { accent: None, width })
    }

    /// Streams a text in parts of a size and returns everything that was rendered.
    fn streamed(text: &str, size: usize) -> String {
        let mut stream = stream(40);
        let characters: Vec<char> = text.chars().collect();
        let mut out: String =
            characters.chunks(size).map(|c| stream.push(&c.iter().collect::<String>())).collect();
        out.push_str(&stream.finish());
        out
    }

    #[test]
    fn block_is_rendered_once_complete() {
        let mut stream = stream(40);
        assert_eq!(stream.push("# Title\nSome *text*"), "# Title\n");
        assert_eq!(stream.push(" that goes\non"), "");
        assert_eq!(stream.push(".\n\n"), "\nSome text that goes on.\n");
        assert_eq!(stream.push("- one\n- tw"), "");
        assert_eq!(stream.push("o\n"), "\n\u{2022} one\n");
        assert_eq!(stream.push("\nEnd"), "");
        assert_eq!(stream.finish(), "\u{2022} two\n\nEnd\n");
        assert_eq!(stream.push("discarded"), "");
        assert!(!stream.discard());
        assert_eq!(stream.push("# Void\n"), "# Void\n");
        assert!(stream.discard());
        assert_eq!(stream.finish(), "");
    }

    #[test]
    fn code_is_rendered_by_line() {
        let mut stream = stream(40);
        assert_eq!(stream.push("Run:\n```sh\ncargo"), "Run:\n\n");
        assert_eq!(
            stream.push(" test\n  # not a title\n"),
            "    cargo test\n      # not a title\n"
        );
        assert_eq!(stream.push("```\nDone"), "");
        assert_eq!(stream.finish(), "\nDone\n");
    }

    #[test]
    fn numbers_continue_across_items() {
        assert_eq!(streamed("1. a\n1. b\n1. c\n\nend\n", 3), "1. a\n2. b\n3. c\n\nend\n");
        assert_eq!(streamed("7. a\n\n8. b\n", 1), "7. a\n8. b\n");
    }

    #[test]
    fn streamed_text_equals_complete_text() {
        let text = "Intro *one*\ntwo.\n\n## Steps\n\n1. First\n   - deep\n   - er\n2. Second:\n\n   ```sh\n   \
                    rm *.tmp\n   ```\n\n   Then wait.\n3. Third\n\n> quoted\n> text\n\n| a | b |\n|---|---|\n\
                    | 1 | 2 |\n\n---\n\nLast `code` & more.\n";
        let complete = MarkdownLayout { accent: None, width: 40 }.render(text);
        for size in [1, 2, 7, 1000] {
            assert_eq!(streamed(text, size), complete, "{size}");
        }
    }

    #[test]
    fn control_characters_stay_visible() {
        let hostile = "a\u{1b}[2Jb\r\n\n```\n\u{1b}]0;x\u{7}\n```\n&#27;[31m\n";
        for size in [1, 1000] {
            assert_eq!(
                streamed(hostile, size),
                "a\\u{1b}[2Jb\n\n    \\u{1b}]0;x\\u{7}\n\n\\u{1b}[31m\n"
            );
        }
    }

    #[test]
    fn narrow_layout_keeps_text() {
        let text = "# Title\n\n| a | 日本語 |\n|---|---|\n| 1 | 2 |\n\n1. one\n   - two 日本\n     - \
                    three **bo\n\n> quoted 日本語\n\n```\na line that does not fit\n```\n\n---\n***a `d\n";
        for width in 0..40 {
            let accent = (width % 2 == 0).then_some(termimad::crossterm::style::Color::Cyan);
            let mut stream = MarkdownStream::new(MarkdownLayout { accent, width });
            let mut shown = stream.push(text);
            shown.push_str(&stream.finish());
            assert!(shown.contains("quoted") && shown.contains("three"), "{width}: {shown}");
        }
    }

    #[test]
    fn endless_paragraph_is_bounded() {
        let mut stream = stream(40);
        let mut out = String::new();
        for _ in 0..2_000 {
            out.push_str(&stream.push("a line without an end of its paragraph, again and again\n"));
        }
        assert!(!out.is_empty());
        assert!(stream.pending.len() <= MAX_BLOCK_BYTES * 9 / 8);
    }

    #[test]
    fn long_block_is_rarely_parsed() {
        let mut stream = stream(40);
        let mut parses = 0;
        let mut parsed = 0;
        while stream.pending.len() < MAX_BLOCK_BYTES - 2 {
            let before = stream.next_parse;
            assert_eq!(stream.push("a\n"), "");
            if stream.next_parse != before {
                parses += 1;
                parsed += stream.pending.len();
            }
            assert!(parses < 2_100 && parsed < 6 << 20, "{parses} {parsed}");
        }
    }

    #[test]
    fn long_blocks_equal_complete_text() {
        let paragraph = "word and *more* words\n".repeat(300);
        let text = format!("{paragraph}\n# Title\n\n{paragraph}\n- one\n- two\n\n> {paragraph}");
        let complete = MarkdownLayout { accent: None, width: 40 }.render(&text);
        for size in [1, 1000] {
            assert_eq!(streamed(&text, size), complete, "{size}");
        }
    }
}
