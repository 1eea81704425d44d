//! The readable text of an HTML page.
//!
//! The tokens of the page are rendered as they come, without a tree, so that neither deep nesting nor
//! missing end tags cost more than a pass over the page.

use html5gum::{DefaultEmitter, StartTag, Token, Tokenizer};
use url::Url;

mod writer;

use writer::TextWriter;

use crate::untrusted::to_line;

/// The maximum length of a page's text in bytes: relative links are longer in the text than in the
/// page.
const TEXT_LIMIT: usize = 1 << 20;
/// The maximum length of a link's address in bytes.
const LINK_LIMIT: usize = 500;
/// The maximum length of a title in characters.
const TITLE_LIMIT: usize = 300;
/// The number of characters from which a part of a page is taken for its content.
const MIN_CONTENT: usize = 200;
/// The number of nested elements that are counted in a skipped element.
const MAX_DEPTH: usize = 64;

/// A page as text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PageText {
    pub(crate) title: Option<String>,
    /// Text with headings, lists, links and code in the notation of Markdown.
    pub(crate) text: String,
    /// The text was cut off at its limit.
    pub(crate) is_cut: bool,
}

/// Returns the readable text of a page. `base` resolves its links.
pub(crate) fn extract_text(html: &str, base: &Url) -> PageText {
    let page = render(html, base, Boilerplate::Skip);
    // Some pages have all of their text in an element for navigation, or never close one.
    let is_short = page.text.chars().take(MIN_CONTENT).count() < MIN_CONTENT;
    if !is_short {
        return page;
    }
    let complete = render(html, base, Boilerplate::Keep);
    if complete.text.len() > 2 * page.text.len() { complete } else { page }
}

/// Returns the text of a fragment, such as a snippet, in one line.
pub(crate) fn extract_line(html: &str) -> String {
    let mut line = String::new();
    for Ok(token) in Tokenizer::new(html) {
        if let Token::String(text) = token {
            line.push_str(&String::from_utf8_lossy(&text.value));
        }
    }
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The treatment of navigation, footers and asides.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Boilerplate {
    Skip,
    Keep,
}

/// The effect of an element on the text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ElementKind {
    /// Its contents are not shown.
    Skipped,
    /// Its contents are rarely a part of what a reader wants.
    Boilerplate,
    /// It begins and ends a paragraph.
    Paragraph,
    /// It begins and ends a line.
    Line,
    Heading(usize),
    Item,
    OrderedList,
    List,
    Cell,
    Preformatted,
    Code,
    Link,
    Title,
    Main,
    Image,
    LineBreak,
    Rule,
    /// It has no effect.
    Inline,
}

fn classify_element(name: &[u8]) -> ElementKind {
    use ElementKind as Kind;
    match name {
        b"script" | b"style" | b"noscript" | b"template" | b"svg" | b"math" | b"iframe"
        | b"object" | b"canvas" | b"video" | b"audio" | b"select" | b"datalist" | b"textarea"
        | b"button" | b"dialog" => Kind::Skipped,
        b"nav" | b"aside" | b"footer" => Kind::Boilerplate,
        b"p" | b"blockquote" | b"table" | b"dl" | b"figure" | b"section" | b"article"
        | b"details" => Kind::Paragraph,
        b"div" | b"header" | b"tr" | b"dt" | b"dd" | b"caption" | b"figcaption" | b"summary"
        | b"address" | b"form" | b"fieldset" | b"legend" | b"option" | b"body" => Kind::Line,
        b"h1" => Kind::Heading(1),
        b"h2" => Kind::Heading(2),
        b"h3" => Kind::Heading(3),
        b"h4" | b"h5" | b"h6" => Kind::Heading(4),
        b"li" => Kind::Item,
        b"ol" => Kind::OrderedList,
        b"ul" | b"menu" => Kind::List,
        b"td" | b"th" => Kind::Cell,
        b"pre" => Kind::Preformatted,
        b"code" | b"kbd" | b"samp" => Kind::Code,
        b"a" => Kind::Link,
        b"title" => Kind::Title,
        b"main" => Kind::Main,
        b"img" => Kind::Image,
        b"br" => Kind::LineBreak,
        b"hr" => Kind::Rule,
        _ => Kind::Inline,
    }
}

/// Returns whether an element never has contents.
fn is_void(name: &[u8]) -> bool {
    matches!(
        name,
        b"area"
            | b"base"
            | b"br"
            | b"col"
            | b"embed"
            | b"hr"
            | b"img"
            | b"input"
            | b"link"
            | b"meta"
            | b"param"
            | b"source"
            | b"track"
            | b"wbr"
    )
}

/// Returns whether the start of an element ends an open one of the same name.
fn closes_itself(name: &[u8]) -> bool {
    matches!(name, b"p" | b"li" | b"dt" | b"dd" | b"tr" | b"td" | b"th" | b"option")
}

/// An element whose contents are not shown, with the elements that are open in it.
struct SkippedElement {
    open: Vec<Vec<u8>>,
}

impl SkippedElement {
    /// Notes a start tag; returns `true` if it ends the skipped element.
    fn start(&mut self, name: &[u8]) -> bool {
        if closes_itself(name) && self.open.last().is_some_and(|last| last == name) {
            self.open.pop();
            if self.open.is_empty() {
                return true;
            }
        }
        if self.open.len() < MAX_DEPTH && !is_void(name) {
            self.open.push(name.to_vec());
        }
        false
    }

    /// Notes an end tag; returns `true` if it ends the skipped element.
    fn end(&mut self, name: &[u8]) -> bool {
        match self.open.iter().rposition(|open| open == name) {
            Some(position) => {
                self.open.truncate(position);
                position == 0
            }
            // The end of an element around the skipped one, which itself was never closed.
            None => matches!(name, b"div" | b"main" | b"section" | b"article" | b"body" | b"html"),
        }
    }
}

fn render(html: &str, base: &Url, boilerplate: Boilerplate) -> PageText {
    let mut emitter = DefaultEmitter::default();
    // Without this, the text of scripts would be taken for tags.
    emitter.naively_switch_states(true);
    let mut page = PageRenderer {
        base,
        boilerplate,
        writer: TextWriter::new(TEXT_LIMIT),
        skipped: None,
        title: None,
        in_title: false,
        links: Vec::new(),
        lists: Vec::new(),
        main: None,
    };
    for Ok(token) in Tokenizer::new_with_emitter(html, emitter) {
        page.add(token);
        if page.writer.is_full() {
            break;
        }
    }
    page.finish()
}

struct PageRenderer<'a> {
    base: &'a Url,
    boilerplate: Boilerplate,
    writer: TextWriter,
    skipped: Option<SkippedElement>,
    title: Option<String>,
    in_title: bool,
    /// The open links: their addresses, where they have one that is shown.
    links: Vec<Option<String>>,
    /// The open lists: the number of the next item, where they have numbers.
    lists: Vec<Option<usize>>,
    /// Start and end of the element `main` in the text.
    main: Option<(usize, Option<usize>)>,
}

impl PageRenderer<'_> {
    fn add(&mut self, token: Token) {
        match token {
            Token::StartTag(tag) => self.start(&tag),
            Token::EndTag(tag) => self.end(&tag.name),
            Token::String(text) => self.text(&String::from_utf8_lossy(&text.value)),
            Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
    }

    fn text(&mut self, text: &str) {
        if self.in_title {
            let title = self.title.get_or_insert_default();
            title.extend(text.chars().take(TITLE_LIMIT.saturating_sub(title.len())));
        } else if self.skipped.is_none() {
            self.writer.push_text(text);
        }
    }

    fn start(&mut self, tag: &StartTag<()>) {
        let name = &*tag.name.0;
        if let Some(skipped) = &mut self.skipped {
            if !skipped.start(name) {
                return;
            }
            self.skipped = None;
        }
        let kind = classify_element(name);
        let is_skipped = kind == ElementKind::Skipped
            || (kind == ElementKind::Boilerplate && self.boilerplate == Boilerplate::Skip)
            || is_hidden_element(tag);
        // Only foreign elements can close themselves.
        let is_empty = is_void(name) || (tag.self_closing && matches!(name, b"svg" | b"math"));
        if is_skipped && !is_empty {
            self.end_line_of(kind);
            self.skipped = Some(SkippedElement { open: vec![name.to_vec()] });
        } else if !is_skipped {
            self.start_shown(kind, tag);
        }
    }

    fn start_shown(&mut self, kind: ElementKind, tag: &StartTag<()>) {
        let attribute = |name: &[u8]| {
            let value = tag.attributes.get(name)?;
            Some(String::from_utf8_lossy(value).into_owned())
        };
        match kind {
            ElementKind::Paragraph | ElementKind::Boilerplate => self.writer.end_paragraph(),
            ElementKind::Line => self.writer.end_line(),
            ElementKind::Heading(level) => {
                self.writer.end_paragraph();
                self.writer.push_raw(&format!("{} ", "#".repeat(level)));
            }
            ElementKind::List => self.open_list(None),
            ElementKind::OrderedList => self.open_list(Some(1)),
            ElementKind::Item => self.start_item(),
            ElementKind::Cell => self.writer.separate_cell(),
            ElementKind::Preformatted => self.writer.open_preformatted(),
            ElementKind::Code => self.writer.push_mark("`"),
            ElementKind::Link => {
                let link = attribute(b"href").and_then(|href| self.resolve_link(&href));
                // Links of links do not exist; one without an end tag ends here.
                self.links.truncate(MAX_DEPTH);
                self.links.push(link.clone());
                if link.is_some() {
                    self.writer.push_mark("[");
                }
            }
            ElementKind::Title => self.in_title = self.title.is_none(),
            ElementKind::Main => {
                self.writer.end_paragraph();
                self.main.get_or_insert((self.writer.len(), None));
            }
            ElementKind::Image => {
                let alt = attribute(b"alt").unwrap_or_default();
                if !alt.trim().is_empty() {
                    self.writer.push_text(&format!("[image: {}]", alt.trim()));
                }
            }
            ElementKind::LineBreak => self.writer.end_line(),
            ElementKind::Rule => {
                self.writer.end_paragraph();
                self.writer.push_raw("---");
                self.writer.end_paragraph();
            }
            ElementKind::Inline | ElementKind::Skipped => {}
        }
    }

    fn end(&mut self, name: &[u8]) {
        if let Some(skipped) = &mut self.skipped {
            let is_ended = skipped.end(name);
            let is_own = is_ended && skipped.open.is_empty();
            if is_ended {
                self.skipped = None;
            }
            if is_own {
                self.end_line_of(classify_element(name));
            }
            if !is_ended || is_own {
                return;
            }
        }
        match classify_element(name) {
            ElementKind::Paragraph | ElementKind::Heading(_) | ElementKind::Boilerplate => {
                self.writer.end_paragraph();
            }
            ElementKind::Line | ElementKind::Item => self.writer.end_line(),
            ElementKind::List | ElementKind::OrderedList => {
                self.lists.pop();
                match self.lists.is_empty() {
                    true => self.writer.end_paragraph(),
                    false => self.writer.end_line(),
                }
            }
            ElementKind::Preformatted => self.writer.close_preformatted(),
            ElementKind::Code => self.writer.push_mark("`"),
            ElementKind::Link => {
                if let Some(Some(link)) = self.links.pop() {
                    self.writer.push_mark(&format!("]({link})"));
                }
            }
            ElementKind::Title => self.in_title = false,
            ElementKind::Main => {
                self.writer.end_paragraph();
                if let Some((_, end @ None)) = &mut self.main {
                    *end = Some(self.writer.len());
                }
            }
            _ => {}
        }
    }

    /// Ends the line where a skipped element is a block of its own.
    fn end_line_of(&mut self, kind: ElementKind) {
        use ElementKind as Kind;
        if !matches!(kind, Kind::Skipped | Kind::Inline | Kind::Link | Kind::Code | Kind::Image) {
            self.writer.end_line();
        }
    }

    fn open_list(&mut self, first: Option<usize>) {
        match self.lists.is_empty() {
            true => self.writer.end_paragraph(),
            false => self.writer.end_line(),
        }
        self.lists.truncate(MAX_DEPTH);
        self.lists.push(first);
    }

    fn start_item(&mut self) {
        self.writer.end_line();
        let indent = "  ".repeat(self.lists.len().saturating_sub(1).min(8));
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{indent}{}. ", *number - 1)
            }
            _ => format!("{indent}- "),
        };
        self.writer.push_raw(&mark);
    }

    /// Returns the address of a link to another page.
    fn resolve_link(&self, href: &str) -> Option<String> {
        let href = href.trim();
        if href.starts_with('#') || href.len() > LINK_LIMIT {
            return None;
        }
        let url = self.base.join(href).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        url.map(String::from).filter(|url| url.len() <= LINK_LIMIT)
    }

    fn finish(self) -> PageText {
        let is_cut = self.writer.is_full();
        let text = self.writer.into_text();
        let main = self.main.and_then(|(start, end)| text.get(start..end.unwrap_or(text.len())));
        let main = main.filter(|main| main.chars().count() >= MIN_CONTENT);
        let shown = main.unwrap_or(&text).trim().to_owned();
        let title = self.title.map(|title| to_line(&title, TITLE_LIMIT));
        PageText { title: title.filter(|title| !title.is_empty()), text: shown, is_cut }
    }
}

/// Returns whether a browser would not show an element: text that only a model sees is a means of
/// attacks.
fn is_hidden_element(tag: &StartTag<()>) -> bool {
    let attribute = |name: &[u8]| tag.attributes.get(name).map(|value| value.to_ascii_lowercase());
    let style: Vec<u8> = attribute(b"style").unwrap_or_default();
    let style: Vec<u8> = style.into_iter().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let has_style = |part: &[u8]| style.windows(part.len()).any(|window| window == part);
    attribute(b"hidden").is_some()
        || attribute(b"aria-hidden").is_some_and(|value| value == b"true")
        || has_style(b"display:none")
        || has_style(b"visibility:hidden")
}

#[cfg(test)]
mod tests;
