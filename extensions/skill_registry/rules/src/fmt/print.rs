//! Prints a draft.

use super::draft::{DraftChildren, DraftNode, ValueShape};
use super::source::StandaloneLine;
use super::text::{ScalarForm, choose_form, format_inline, push_line};

const STEP: usize = 2;

/// Prints the fields of a frontmatter, without fences.
pub(super) fn print_draft(root: DraftChildren) -> String {
    let mut out = YamlWriter::default();
    children(root, 0, &mut out);
    out.text
}

/// What is printed so far.
#[derive(Default)]
struct YamlWriter {
    text: String,
    /// Whether blank lines would become part of the block that was printed last.
    keeps_blanks: bool,
}

impl YamlWriter {
    fn push(&mut self, c: char) {
        self.text.push(c);
    }

    fn push_str(&mut self, text: &str) {
        self.text.push_str(text);
    }
}

fn children(block: DraftChildren, indent: usize, out: &mut YamlWriter) {
    let list = block.list;
    for (index, mut node) in block.nodes.into_iter().enumerate() {
        hoist_comments(&mut node);
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
            match choose_form(key, &[], None) {
                ScalarForm::Inline(text) => out.push_str(&text),
                ScalarForm::Block(..) => out.push_str(&format_inline(key)),
            }
            out.push(':');
        }
        value(node.shape, node.trailing.pop(), indent, list, out);
    }
    lines(block.tail, indent, out);
}

/// Moves comments that have no place of their own in the canonical form above the node.
fn hoist_comments(node: &mut DraftNode) {
    let is_item = node.key.is_none();
    if let ValueShape::Block(children) = &mut node.shape
        && is_item
    {
        node.leading.extend(node.trailing.drain(..).map(StandaloneLine::Comment));
        if let Some(first) = children.nodes.first_mut() {
            hoist_comments(first);
            without_first_blanks(&mut first.leading);
            node.leading.append(&mut first.leading);
        }
    }
    while node.trailing.len() > 1 {
        node.leading.push(StandaloneLine::Comment(node.trailing.remove(0)));
    }
}

/// Nothing stands between a key and what is below it.
fn without_first_blanks(leading: &mut Vec<StandaloneLine>) {
    let blanks = leading.iter().take_while(|line| **line == StandaloneLine::Blank).count();
    leading.drain(..blanks);
}

fn value(
    shape: ValueShape,
    trailing: Option<String>,
    indent: usize,
    list: bool,
    out: &mut YamlWriter,
) {
    let behind = trailing.map(|comment| format!(" {comment}")).unwrap_or_default();
    match shape {
        ValueShape::Text { scalar, lines, block } => {
            match choose_form(&scalar, &lines, block.as_ref()) {
                ScalarForm::Inline(text) => {
                    if !text.is_empty() {
                        out.push(' ');
                        out.push_str(&text);
                    }
                    out.push_str(&behind);
                    out.push('\n');
                }
                ScalarForm::Block(header, lines) => {
                    out.push(' ');
                    out.push_str(&header);
                    out.push_str(&behind);
                    out.push('\n');
                    out.keeps_blanks = header.ends_with('+');
                    lines.iter().for_each(|line| push_line(line, indent + STEP, &mut out.text));
                }
            }
        }
        ValueShape::Flow { lines, own_line, column } => {
            flow(&lines, own_line, column, indent, out);
            out.push_str(&behind);
            out.push('\n');
        }
        ValueShape::Block(block) if list => {
            out.push(' ');
            children(block, indent + STEP, out);
        }
        ValueShape::Block(block) => {
            out.push_str(&behind);
            out.push('\n');
            children(block, indent + STEP, out);
        }
    }
}

/// Prints what stands in brackets or braces; further lines move as much as the first.
fn flow(written: &[String], own_line: bool, column: usize, indent: usize, out: &mut YamlWriter) {
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

fn lines(lines: Vec<StandaloneLine>, indent: usize, out: &mut YamlWriter) {
    for line in lines {
        match line {
            // Nothing stands before the first line, and nothing twice.
            StandaloneLine::Blank if out.text.is_empty() || out.text.ends_with("\n\n") => {}
            StandaloneLine::Blank if out.keeps_blanks => {}
            StandaloneLine::Blank => out.push('\n'),
            StandaloneLine::Comment(text) => {
                out.keeps_blanks = false;
                blanks(indent, out);
                out.push_str(&text);
                out.push('\n');
            }
        }
    }
}

fn blanks(count: usize, out: &mut YamlWriter) {
    out.text.extend(std::iter::repeat_n(' ', count));
}
