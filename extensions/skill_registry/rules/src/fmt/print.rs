//! Prints a draft.

use super::draft::{Children, Node, Shape};
use super::source::Line;
use super::text::{Written, inline, push_line, write};

const STEP: usize = 2;

/// Prints the fields of a frontmatter, without fences.
pub(super) fn print(root: Children) -> String {
    let mut out = Out::default();
    children(root, 0, &mut out);
    out.text
}

/// What is printed so far.
#[derive(Default)]
struct Out {
    text: String,
    /// Whether blank lines would become part of the block that was printed last.
    keeps_blanks: bool,
}

impl Out {
    fn push(&mut self, c: char) {
        self.text.push(c);
    }

    fn push_str(&mut self, text: &str) {
        self.text.push_str(text);
    }
}

fn children(block: Children, indent: usize, out: &mut Out) {
    let list = block.list;
    for (index, mut node) in block.nodes.into_iter().enumerate() {
        settle(&mut node);
        if index == 0 && indent > 0 {
            without_first_blanks(&mut node.leading);
        }
        // What stands first in an item stands on the line of its dash.
        let on_dash = index == 0 && !out.text.is_empty() && !out.text.ends_with('\n');
        lines(node.leading, indent, out);
        out.keeps_blanks = false;
        if !on_dash {
            blanks(indent, out);
        }
        if list {
            out.push('-');
        } else if let Some(key) = &node.key {
            match write(key, &[], None) {
                Written::Inline(text) => out.push_str(&text),
                Written::Block(..) => out.push_str(&inline(key)),
            }
            out.push(':');
        }
        value(node.shape, node.trailing.pop(), indent, list, out);
    }
    lines(block.tail, indent, out);
}

/// Moves comments that have no place of their own in the canonical form above the node.
fn settle(node: &mut Node) {
    let is_item = node.key.is_none();
    if let Shape::Block(children) = &mut node.shape
        && is_item
    {
        node.leading.extend(node.trailing.drain(..).map(Line::Comment));
        if let Some(first) = children.nodes.first_mut() {
            settle(first);
            without_first_blanks(&mut first.leading);
            node.leading.append(&mut first.leading);
        }
    }
    while node.trailing.len() > 1 {
        node.leading.push(Line::Comment(node.trailing.remove(0)));
    }
}

/// Nothing stands between a key and what is below it.
fn without_first_blanks(leading: &mut Vec<Line>) {
    let blanks = leading.iter().take_while(|line| **line == Line::Blank).count();
    leading.drain(..blanks);
}

fn value(shape: Shape, trailing: Option<String>, indent: usize, list: bool, out: &mut Out) {
    let behind = trailing.map(|comment| format!(" {comment}")).unwrap_or_default();
    match shape {
        Shape::Text { scalar, lines, block } => match write(&scalar, &lines, block.as_ref()) {
            Written::Inline(text) => {
                if !text.is_empty() {
                    out.push(' ');
                    out.push_str(&text);
                }
                out.push_str(&behind);
                out.push('\n');
            }
            Written::Block(header, lines) => {
                out.push(' ');
                out.push_str(&header);
                out.push_str(&behind);
                out.push('\n');
                out.keeps_blanks = header.ends_with('+');
                lines.iter().for_each(|line| push_line(line, indent + STEP, &mut out.text));
            }
        },
        Shape::Flow { lines, own_line, column } => {
            flow(&lines, own_line, column, indent, out);
            out.push_str(&behind);
            out.push('\n');
        }
        Shape::Block(block) if list => {
            out.push(' ');
            children(block, indent + STEP, out);
        }
        Shape::Block(block) => {
            out.push_str(&behind);
            out.push('\n');
            children(block, indent + STEP, out);
        }
    }
}

/// Prints what stands in brackets or braces; further lines move as much as the first.
fn flow(written: &[String], own_line: bool, column: usize, indent: usize, out: &mut Out) {
    let Some((first, rest)) = written.split_first() else { return };
    if own_line {
        out.push('\n');
        blanks(indent + STEP, out);
    } else {
        out.push(' ');
    }
    let line_start = out.text.rfind('\n').map_or(0, |end| end + 1);
    let now = out.text[line_start..].chars().count() + 1;
    out.push_str(first);
    for line in rest {
        let text = line.trim_start_matches(' ');
        let before = line.len() - text.len();
        let moved = (before + now).saturating_sub(column);
        out.push('\n');
        if !text.is_empty() {
            blanks(if own_line { moved } else { before }, out);
            out.push_str(text);
        }
    }
}

fn lines(lines: Vec<Line>, indent: usize, out: &mut Out) {
    for line in lines {
        match line {
            // Nothing stands before the first line, and nothing twice.
            Line::Blank if out.text.is_empty() || out.text.ends_with("\n\n") => {}
            Line::Blank if out.keeps_blanks => {}
            Line::Blank => out.push('\n'),
            Line::Comment(text) => {
                out.keeps_blanks = false;
                blanks(indent, out);
                out.push_str(&text);
                out.push('\n');
            }
        }
    }
}

fn blanks(count: usize, out: &mut Out) {
    out.text.extend(std::iter::repeat_n(' ', count));
}
