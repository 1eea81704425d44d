//! Markdown of models and skills as nodes: raw HTML is text, images are links, and links lead only
//! to pages and mail.

use maud::{Markup, html};
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag};

use crate::visible_text::draw_text;

/// The nesting from which further levels are drawn on the last one.
const MAX_DEPTH: usize = 24;

/// A node of a document.
enum MarkdownNode {
    Text(String),
    Code(String),
    Break,
    Rule,
    Checkbox(bool),
    Element(MarkupKind, Vec<MarkdownNode>),
}

/// The elements that Markdown can produce here.
enum MarkupKind {
    Paragraph,
    Heading(u8),
    Quote,
    CodeBlock,
    Bullets,
    Numbers(u64),
    Item,
    Emphasis,
    Strong,
    Strike,
    Table,
    Head,
    Row,
    Cell,
    Link(String),
    /// A container without a mark of its own.
    Plain,
}

/// Draws a Markdown text. Headings begin at the third level, below those of the page.
pub(crate) fn draw_markdown(text: &str) -> Markup {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let nodes = build_nodes(Parser::new_ext(text, options));
    html! { div.markdown { (draw_nodes(&nodes, false)) } }
}

/// Builds the tree without recursion: a model may nest as deeply as it likes.
fn build_nodes<'a>(events: impl Iterator<Item = Event<'a>>) -> Vec<MarkdownNode> {
    let mut stack: Vec<(MarkupKind, Vec<MarkdownNode>)> = vec![(MarkupKind::Plain, Vec::new())];
    // The number of open elements that got no level of their own.
    let mut flat = 0_usize;
    for event in events {
        let node = match event {
            Event::Start(tag) => {
                if stack.len() >= MAX_DEPTH {
                    flat += 1;
                } else {
                    stack.push((element_of(tag), Vec::new()));
                }
                continue;
            }
            Event::End(_) if flat > 0 => {
                flat -= 1;
                continue;
            }
            Event::End(_) => match stack.len() {
                // Starts and ends are paired, so the root stays.
                0 | 1 => continue,
                _ => match stack.pop() {
                    Some((kind, children)) => MarkdownNode::Element(kind, children),
                    None => continue,
                },
            },
            Event::Code(text) => MarkdownNode::Code(text.into_string()),
            Event::SoftBreak => MarkdownNode::Text("\n".to_owned()),
            Event::HardBreak => MarkdownNode::Break,
            Event::Rule => MarkdownNode::Rule,
            Event::TaskListMarker(done) => MarkdownNode::Checkbox(done),
            // Markup of a model is text like any other.
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
                MarkdownNode::Text(text.into_string())
            }
            Event::FootnoteReference(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                MarkdownNode::Text(text.into_string())
            }
        };
        if let Some((_, children)) = stack.last_mut() {
            children.push(node);
        }
    }
    // An end that is missing closes its elements.
    while stack.len() > 1 {
        if let Some((kind, children)) = stack.pop()
            && let Some((_, parent)) = stack.last_mut()
        {
            parent.push(MarkdownNode::Element(kind, children));
        }
    }
    stack.pop().map(|(_, children)| children).unwrap_or_default()
}

fn element_of(tag: Tag<'_>) -> MarkupKind {
    match tag {
        Tag::Paragraph => MarkupKind::Paragraph,
        Tag::Heading { level, .. } => MarkupKind::Heading(match level {
            HeadingLevel::H1 | HeadingLevel::H2 => 3,
            HeadingLevel::H3 => 4,
            _ => 5,
        }),
        Tag::BlockQuote(_) => MarkupKind::Quote,
        Tag::CodeBlock(CodeBlockKind::Fenced(_) | CodeBlockKind::Indented) => MarkupKind::CodeBlock,
        Tag::List(None) => MarkupKind::Bullets,
        Tag::List(Some(start)) => MarkupKind::Numbers(start),
        Tag::Item => MarkupKind::Item,
        Tag::Emphasis => MarkupKind::Emphasis,
        Tag::Strong => MarkupKind::Strong,
        Tag::Strikethrough => MarkupKind::Strike,
        Tag::Table(_) => MarkupKind::Table,
        Tag::TableHead => MarkupKind::Head,
        Tag::TableRow => MarkupKind::Row,
        Tag::TableCell => MarkupKind::Cell,
        // An image would load a foreign address; its text and address are shown instead.
        Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
            MarkupKind::Link(dest_url.into_string())
        }
        _ => MarkupKind::Plain,
    }
}

/// Returns whether a link may lead to an address.
fn is_safe_address(address: &str) -> bool {
    // Schemes have no case.
    let lower = address.to_ascii_lowercase();
    let is_known = ["https://", "http://", "mailto:"].iter().any(|it| lower.starts_with(it));
    is_known && !address.contains(|c: char| c.is_control() || c.is_whitespace())
}

fn draw_nodes(nodes: &[MarkdownNode], in_head: bool) -> Markup {
    html! { @for node in nodes { (draw_node(node, in_head)) } }
}

fn draw_node(node: &MarkdownNode, in_head: bool) -> Markup {
    let (kind, children) = match node {
        MarkdownNode::Text(text) => return draw_text(text),
        MarkdownNode::Code(text) => return html! { code { (draw_text(text)) } },
        MarkdownNode::Break => return html! { br; },
        MarkdownNode::Rule => return html! { hr; },
        MarkdownNode::Checkbox(done) => return html! { (if *done { "☑ " } else { "☐ " }) },
        MarkdownNode::Element(kind, children) => (kind, children),
    };
    let inner = draw_nodes(children, in_head);
    match kind {
        MarkupKind::Paragraph => html! { p { (inner) } },
        MarkupKind::Heading(3) => html! { h3 { (inner) } },
        MarkupKind::Heading(4) => html! { h4 { (inner) } },
        MarkupKind::Heading(_) => html! { h5 { (inner) } },
        MarkupKind::Quote => html! { blockquote { (inner) } },
        MarkupKind::CodeBlock => html! { pre.code tabindex="0" { (inner) } },
        MarkupKind::Bullets => html! { ul { (inner) } },
        MarkupKind::Numbers(start) => html! { ol start=(start) { (inner) } },
        MarkupKind::Item => html! { li { (inner) } },
        MarkupKind::Emphasis => html! { em { (inner) } },
        MarkupKind::Strong => html! { strong { (inner) } },
        MarkupKind::Strike => html! { s { (inner) } },
        MarkupKind::Table => html! { div.scroll tabindex="0" { table { (inner) } } },
        MarkupKind::Head => html! { tr { (draw_nodes(children, true)) } },
        MarkupKind::Row => html! { tr { (inner) } },
        MarkupKind::Cell if in_head => html! { th { (inner) } },
        MarkupKind::Cell => html! { td { (inner) } },
        MarkupKind::Link(address) if is_safe_address(address) => html! {
            a href=(address) rel="noopener noreferrer nofollow" { (inner) }
            // A link must not hide where it leads.
            @if !is_shown(address, children) { span.address { " (" (draw_text(address)) ")" } }
        },
        MarkupKind::Link(address) => html! { (inner) " (" (draw_text(address)) ")" },
        MarkupKind::Plain => inner,
    }
}

/// Returns whether the text of a link is its address.
fn is_shown(address: &str, children: &[MarkdownNode]) -> bool {
    matches!(children, [MarkdownNode::Text(text)] if text == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(text: &str) -> String {
        let html = draw_markdown(text).into_string();
        html.trim_start_matches("<div class=\"markdown\">").trim_end_matches("</div>").to_owned()
    }

    #[test]
    fn raw_html_is_text() {
        assert_eq!(
            draw("a <img src=x onerror=alert(1)> b\n\n<script>x</script>\n"),
            "<p>a &lt;img src=x onerror=alert(1)&gt; b</p>&lt;script&gt;x&lt;/script&gt;\n"
        );
    }

    #[test]
    fn links_lead_to_known_schemes() {
        assert_eq!(draw("[x](javascript:alert(1))"), "<p>x (javascript:alert(1))</p>");
        assert_eq!(
            draw("![x](http://a.b/c.png)"),
            "<p><a href=\"http://a.b/c.png\" rel=\"noopener \
            noreferrer nofollow\">x</a><span class=\"address\"> (http://a.b/c.png)</span></p>"
        );
        assert!(draw("[x](data:text/html,y)").starts_with("<p>x ("));
        assert!(draw("[x](//evil.example)").starts_with("<p>x ("));
    }

    #[test]
    fn structure_is_drawn() {
        assert_eq!(
            draw("# T\n\n- **a**\n- `b`\n\n```sh\n<x>\n```\n"),
            "<h3>T</h3><ul><li><strong>a</strong></li><li><code>b</code></li></ul>\
             <pre class=\"code\" tabindex=\"0\">&lt;x&gt;\n</pre>"
        );
        assert!(draw("|a|\n|-|\n|b|\n").contains("<tr><th>a</th></tr><tr><td>b</td></tr>"));
    }

    #[test]
    fn deep_nesting_is_flattened() {
        let html = draw(&format!("{} deep", ">".repeat(20_000)));
        assert!(html.contains("deep"));
        assert!(html.matches("<blockquote>").count() < MAX_DEPTH);
    }
}
