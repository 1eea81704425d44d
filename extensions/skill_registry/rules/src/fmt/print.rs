//! Prints a draft.

use super::draft::{Children, Node, Shape};
use super::source::Line;
use super::text::{Written, inline, push_line, write};

const STEP: usize = 2;

/// Prints the fields of a frontmatter, without fences.
pub(super) fn print(root: Children) -> String {
    let mut out = String::new();
    children(root, 0, &mut out);
    out
}

fn children(block: Children, indent: usize, out: &mut String) {
    let list = block.list;
    for (index, mut node) in block.nodes.into_iter().enumerate() {
        settle(&mut node);
        // What stands first in an item stands on the line of its dash.
        let on_dash = index == 0 && !out.is_empty() && !out.ends_with('\n');
        lines(node.leading, indent, out);
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
            node.leading.append(&mut first.leading);
        }
    }
    while node.trailing.len() > 1 {
        node.leading.push(Line::Comment(node.trailing.remove(0)));
    }
}

fn value(shape: Shape, trailing: Option<String>, indent: usize, list: bool, out: &mut String) {
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
                lines.iter().for_each(|line| push_line(line, indent + STEP, out));
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
fn flow(written: &[String], own_line: bool, column: usize, indent: usize, out: &mut String) {
    let Some((first, rest)) = written.split_first() else { return };
    if own_line {
        out.push('\n');
        blanks(indent + STEP, out);
    } else {
        out.push(' ');
    }
    let line_start = out.rfind('\n').map_or(0, |end| end + 1);
    let now = out[line_start..].chars().count() + 1;
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

fn lines(lines: Vec<Line>, indent: usize, out: &mut String) {
    for line in lines {
        match line {
            // Nothing stands before the first line, and nothing twice.
            Line::Blank if out.is_empty() || out.ends_with("\n\n") => {}
            Line::Blank => out.push('\n'),
            Line::Comment(text) => {
                blanks(indent, out);
                out.push_str(&text);
                out.push('\n');
            }
        }
    }
}

fn blanks(count: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', count));
}
