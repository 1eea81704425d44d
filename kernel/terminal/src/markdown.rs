//! CommonMark as lines that termimad lays out.
//!
//! termimad's own parser works line by line: it drops lone asterisks, and knows neither fences in
//! lists nor links. Therefore pulldown-cmark parses the text and termimad only lays it out.

mod stream;

use pulldown_cmark::{Alignment, Event, Options, Parser, Tag, TagEnd};
use termimad::crossterm::style::Color;
use termimad::minimad::{
    self, Composite, CompositeStyle, Compound, Line, TableRow, TableRule, Text,
};
use termimad::{CompoundStyle, FmtText, LineStyle, ListItemsIndentationMode, MadSkin, StyledChar};

pub use stream::MarkdownStream;

use crate::output::display_safe;

/// The largest indentation of a list, in columns; deeper lists are indented no further.
const MAX_INDENT: u8 = 8;

/// The heading levels used for indented paragraphs, which termimad lacks. It has eight levels and
/// Markdown six: the other two are the later paragraphs of an item, with their indentation.
const INDENTED: [(u8, usize); 2] = [(7, 2), (8, 4)];

/// A text in one style.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct StyledText {
    text: String,
    bold: bool,
    italic: bool,
    code: bool,
    strikeout: bool,
}

/// A line before it is wrapped.
#[derive(Clone, Debug, PartialEq, Eq)]
enum MarkdownRow {
    Text(CompositeStyle, Vec<StyledText>),
    Cells(Vec<Vec<StyledText>>),
    Columns(Vec<minimad::Alignment>),
    Rule,
}

/// The indentation of code, in columns.
const CODE_INDENT: usize = 4;

/// The smallest width of a layout, in columns: an indentation has to leave room for text.
const MIN_WIDTH: usize = 24;

/// The layout of Markdown on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkdownLayout {
    /// The color of headings, bullets and code; without one there are no escape sequences, and
    /// headings keep their `#`.
    pub accent: Option<Color>,
    /// The maximum width of a line, in columns; below 24, it is 24.
    pub width: usize,
}

impl MarkdownLayout {
    /// Creates the layout of replies.
    #[must_use]
    pub fn new(has_color: bool, width: usize) -> Self {
        Self { accent: has_color.then_some(Color::Cyan), width }
    }

    /// Renders a text: complete lines, sanitized, none wider than the layout.
    #[must_use]
    pub fn render(&self, text: &str) -> String {
        self.lay_out(MarkdownDocument::parse(text, self.accent.is_none(), None).text())
    }

    /// Renders a text whose first list, if it is numbered, starts with a number.
    fn render_numbered(&self, text: &str, number: u64) -> String {
        self.lay_out(MarkdownDocument::parse(text, self.accent.is_none(), Some(number)).text())
    }

    /// Renders one line of code.
    fn render_code_line(&self, line: &str) -> String {
        let text = display_safe(line).replace('\t', "    ");
        let row = MarkdownRow::Text(
            CompositeStyle::Code,
            vec![StyledText { text, ..StyledText::default() }],
        );
        self.lay_out(Text { lines: vec![row.line()] })
    }

    fn lay_out(&self, text: Text<'_>) -> String {
        let skin = self.skin();
        let mut out = String::new();
        for line in
            FmtText::from_text(&skin, text, Some(self.width.max(MIN_WIDTH))).to_string().lines()
        {
            out.push_str(line.trim_end_matches(' '));
            out.push('\n');
        }
        out
    }

    fn skin(&self) -> MadSkin {
        let mut skin = MadSkin::no_style();
        if let Some(accent) = self.accent {
            skin = MadSkin::default();
            skin.set_headers_fg(accent);
            skin.bullet = StyledChar::from_fg_char(accent, '\u{2022}');
            skin.quote_mark = StyledChar::from_fg_char(accent, '\u{258c}');
            // The terminal's own background: it may be dark or light.
            skin.code_block = LineStyle::default();
            skin.inline_code = CompoundStyle::with_fg(accent);
        }
        skin.code_block.left_margin = CODE_INDENT;
        skin.headers[0].align = termimad::minimad::Alignment::Left;
        for (level, margin) in INDENTED {
            let style = LineStyle { left_margin: margin, ..LineStyle::default() };
            skin.headers[usize::from(level) - 1] = style;
        }
        skin.list_items_indentation_mode = ListItemsIndentationMode::Block;
        skin
    }
}

/// A parsed text.
struct MarkdownDocument {
    rows: Vec<MarkdownRow>,
}

/// The state of the parser.
#[derive(Default)]
struct MarkdownBuilder {
    rows: Vec<MarkdownRow>,
    pieces: Vec<StyledText>,
    style: StyledText,
    bold: usize,
    italic: usize,
    /// The next item number of each open list; `None` for bullets.
    lists: Vec<Option<u64>>,
    quotes: usize,
    /// The style of the list item that the next text starts.
    item: Option<CompositeStyle>,
    heading: Option<u8>,
    /// The text of a block that is not Markdown, such as code.
    verbatim: Option<(CompositeStyle, String)>,
    cells: Vec<Vec<StyledText>>,
    /// The targets of the open links and images, and the start of their texts.
    links: Vec<(String, usize)>,
    /// Whether headings are marked with `#`.
    marks: bool,
    /// The number of the first item of the next numbered list, instead of its own.
    first_number: Option<u64>,
}

impl MarkdownDocument {
    /// Parses a text. With `marks`, headings keep their `#`; `first_number` replaces the number of
    /// a numbered list at its start.
    ///
    /// Every text is sanitized once more: a character reference such as `&#27;` is decoded only
    /// here.
    fn parse(text: &str, marks: bool, first_number: Option<u64>) -> Self {
        let mut builder = MarkdownBuilder { marks, first_number, ..MarkdownBuilder::default() };
        for event in Parser::new_ext(text, options()) {
            builder.event(event);
        }
        builder.flush();
        while builder.rows.last().is_some_and(MarkdownRow::is_blank) {
            builder.rows.pop();
        }
        Self { rows: builder.rows }
    }

    /// Returns the lines for termimad.
    fn text(&self) -> Text<'_> {
        Text { lines: self.rows.iter().map(MarkdownRow::line).collect() }
    }
}

impl MarkdownRow {
    fn is_blank(&self) -> bool {
        use CompositeStyle::{Paragraph, Quote};
        matches!(self, Self::Text(Paragraph | Quote, pieces) if pieces.is_empty())
    }

    fn line(&self) -> Line<'_> {
        match self {
            Self::Text(style, pieces) => {
                Line::Normal(Composite { style: *style, compounds: compounds(pieces) })
            }
            Self::Cells(cells) => {
                let cells = cells.iter().map(|pieces| Composite::from(compounds(pieces)));
                Line::TableRow(TableRow { cells: cells.collect() })
            }
            Self::Columns(columns) => Line::TableRule(TableRule { cells: columns.clone() }),
            Self::Rule => Line::HorizontalRule,
        }
    }
}

fn compounds(pieces: &[StyledText]) -> Vec<Compound<'_>> {
    let compounds = pieces.iter().map(|piece| Compound {
        src: &piece.text,
        bold: piece.bold,
        italic: piece.italic,
        code: piece.code,
        strikeout: piece.strikeout,
    });
    compounds.collect()
}

impl MarkdownBuilder {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start_tag(tag),
            Event::End(tag) => self.end_tag(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(text) => {
                self.style.code = true;
                self.text(&text);
                self.style.code = false;
            }
            Event::SoftBreak => self.text(" "),
            Event::HardBreak => self.flush(),
            Event::Rule => {
                self.flush();
                self.rows.push(MarkdownRow::Rule);
                self.blank();
            }
            Event::TaskListMarker(done) => self.text(if done { "[x] " } else { "[ ] " }),
            // The parser's options leave these extensions off.
            Event::FootnoteReference(_) | Event::InlineMath(_) | Event::DisplayMath(_) => {}
        }
    }

    fn start_tag(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::TableHead | Tag::TableRow | Tag::TableCell => {}
            Tag::Heading { level, .. } => {
                self.flush();
                let level = u8::try_from(level as usize).unwrap_or(u8::MAX);
                self.heading = Some(level);
                if self.marks {
                    self.text(&format!("{} ", "#".repeat(usize::from(level))));
                }
            }
            Tag::BlockQuote(_) => {
                self.flush();
                self.quotes += 1;
            }
            Tag::CodeBlock(_) => {
                self.flush();
                self.verbatim = Some((CompositeStyle::Code, String::new()));
            }
            Tag::HtmlBlock => {
                self.flush();
                self.verbatim = Some((self.block_style(), String::new()));
            }
            Tag::List(first) => {
                self.flush();
                let continued = self.first_number.take();
                self.lists.push(first.map(|first| continued.unwrap_or(first)));
            }
            Tag::Item => {
                self.flush();
                self.item = Some(self.next_item());
            }
            Tag::Table(columns) => {
                self.flush();
                self.rows.push(MarkdownRow::Columns(columns.into_iter().map(alignment).collect()));
            }
            Tag::Emphasis => self.italic += 1,
            Tag::Strong => self.bold += 1,
            Tag::Strikethrough => self.style.strikeout = true,
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.links.push((dest_url.into_string(), self.pieces.len()));
            }
            _ => self.flush(),
        }
    }

    fn end_tag(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => {
                self.flush();
                // A list has one blank line after it and none between its items.
                if self.lists.is_empty() {
                    self.blank();
                }
            }
            TagEnd::Heading(_) => {
                self.flush();
                self.heading = None;
                self.blank();
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                while self.rows.last().is_some_and(MarkdownRow::is_blank) {
                    self.rows.pop();
                }
                self.quotes = self.quotes.saturating_sub(1);
                self.blank();
            }
            TagEnd::CodeBlock | TagEnd::HtmlBlock => self.end_verbatim(),
            TagEnd::List(_) => {
                self.flush();
                self.lists.pop();
                if self.lists.is_empty() {
                    self.blank();
                }
            }
            TagEnd::Item => {
                self.flush();
                // An item without text still takes a line.
                if let Some(style) = self.item.take() {
                    self.rows.push(MarkdownRow::Text(style, Vec::new()));
                }
            }
            TagEnd::TableCell => self.cells.push(std::mem::take(&mut self.pieces)),
            TagEnd::TableHead => {
                let columns = self.rows.pop();
                self.rows.push(MarkdownRow::Cells(std::mem::take(&mut self.cells)));
                self.rows.extend(columns);
            }
            TagEnd::TableRow => self.rows.push(MarkdownRow::Cells(std::mem::take(&mut self.cells))),
            TagEnd::Table => self.blank(),
            TagEnd::Emphasis => self.italic = self.italic.saturating_sub(1),
            TagEnd::Strong => self.bold = self.bold.saturating_sub(1),
            TagEnd::Strikethrough => self.style.strikeout = false,
            TagEnd::Link | TagEnd::Image => self.end_link(),
            _ => self.flush(),
        }
    }

    fn text(&mut self, text: &str) {
        if let Some((_, block)) = &mut self.verbatim {
            block.push_str(text);
            return;
        }
        // Untrusted text may neither emit control characters nor break the line.
        let text = display_safe(text).replace(['\n', '\t'], " ");
        let (bold, italic) = (self.bold > 0, self.italic > 0);
        self.pieces.push(StyledText { text, bold, italic, ..self.style.clone() });
    }

    /// Ends a line of wrapped text.
    fn flush(&mut self) {
        if self.pieces.is_empty() {
            return;
        }
        let style = self.item.take().unwrap_or_else(|| self.block_style());
        let pieces = std::mem::take(&mut self.pieces);
        self.rows.push(MarkdownRow::Text(style, pieces));
    }

    fn blank(&mut self) {
        if !self.rows.last().is_none_or(MarkdownRow::is_blank) {
            let style = match self.quotes {
                0 => CompositeStyle::Paragraph,
                _ => CompositeStyle::Quote,
            };
            self.rows.push(MarkdownRow::Text(style, Vec::new()));
        }
    }

    fn block_style(&self) -> CompositeStyle {
        match self.heading {
            Some(level) => CompositeStyle::Header(level),
            None if self.quotes > 0 => CompositeStyle::Quote,
            None if !self.lists.is_empty() => {
                let depth = self.lists.len().min(INDENTED.len()) - 1;
                CompositeStyle::Header(INDENTED[depth].0)
            }
            None => CompositeStyle::Paragraph,
        }
    }

    /// Returns the indentation of the current list.
    fn indent(&self) -> u8 {
        let depth = u8::try_from(self.lists.len().saturating_sub(1)).unwrap_or(u8::MAX);
        depth.saturating_mul(2).min(MAX_INDENT)
    }

    fn next_item(&mut self) -> CompositeStyle {
        let level = self.indent();
        match self.lists.last_mut() {
            Some(Some(number)) => {
                // CommonMark allows nine digits.
                let index = u32::try_from(*number).unwrap_or(u32::MAX);
                *number += 1;
                CompositeStyle::OrderedListItem { level, index }
            }
            _ => CompositeStyle::ListItem(level),
        }
    }

    fn end_verbatim(&mut self) {
        let Some((style, block)) = self.verbatim.take() else { return };
        if let Some(style) = self.item.take() {
            self.rows.push(MarkdownRow::Text(style, Vec::new()));
        }
        let inner = if self.lists.is_empty() { 0 } else { usize::from(self.indent()) + 2 };
        for line in block.lines() {
            let text = format!("{}{}", " ".repeat(inner), display_safe(line).replace('\t', "    "));
            self.rows
                .push(MarkdownRow::Text(style, vec![StyledText { text, ..StyledText::default() }]));
        }
        if self.lists.is_empty() {
            self.blank();
        }
    }

    /// Appends the target of a link, unless the text equals it.
    fn end_link(&mut self) {
        let Some((target, first)) = self.links.pop() else { return };
        let text: String =
            self.pieces.iter().skip(first).map(|piece| piece.text.as_str()).collect();
        if text != target && !target.is_empty() {
            self.text(&format!(" ({target})"));
        }
    }
}

/// Returns the extensions of CommonMark that are rendered.
fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}

fn alignment(of: Alignment) -> minimad::Alignment {
    match of {
        Alignment::None => minimad::Alignment::Unspecified,
        Alignment::Left => minimad::Alignment::Left,
        Alignment::Center => minimad::Alignment::Center,
        Alignment::Right => minimad::Alignment::Right,
    }
}
