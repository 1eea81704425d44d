//! Printer for a draft.

use super::draft::{DraftChildren, DraftNode, ValueShape};
use super::source::StandaloneLine;
use super::text::{ScalarForm, choose_form, format_inline, push_line};

/// The indentation per level, in blanks.
const INDENT: usize = 2;

/// Prints the fields of a frontmatter, without fences.
pub(super) fn print_draft(root: DraftChildren) -> String {
    let mut out = YamlWriter::default();
    print_children(root, 0, &mut out);
    out.text
}

/// The output of the printer.
#[derive(Default)]
struct YamlWriter {
    text: String,
    /// Whether blank lines would become part of the last printed block.
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

fn print_children(block: DraftChildren, indent: usize, out: &mut YamlWriter) {
    let list = block.list;
    for (index, mut node) in block.nodes.into_iter().enumerate() {
        hoist_comments(&mut node);
        if index == 0 && indent > 0 {
            trim_leading_blanks(&mut node.leading);
        }
        // The first field of an item is printed on the line of its dash.
        let on_dash = index == 0 && !out.text.is_empty() && !out.text.ends_with('\n');
        print_lines(node.leading, indent, out);
        out.keeps_blanks = false;
        if !on_dash {
            print_blanks(indent, out);
        }
        if list {
            out.push('-');
        } else if let Some(key) = &node.key {
            match choose_form(key, &[], None) {
                ScalarForm::Inline(text) => out.push_str(&text),
                // A key cannot be a block.
                ScalarForm::Block(..) => out.push_str(&format_inline(key)),
            }
            out.push(':');
        }
        print_value(node.shape, node.trailing.pop(), indent, list, out);
    }
    print_lines(block.tail, indent, out);
}

/// Moves comments without a position in the canonical form above the node.
fn hoist_comments(node: &mut DraftNode) {
    let is_item = node.key.is_none();
    if let ValueShape::Block(children) = &mut node.shape
        // The dash and the first field share a line, so that there is no line between them.
        && is_item
    {
        node.leading.extend(node.trailing.drain(..).map(StandaloneLine::Comment));
        if let Some(first) = children.nodes.first_mut() {
            hoist_comments(first);
            trim_leading_blanks(&mut first.leading);
            node.leading.append(&mut first.leading);
        }
    }
    // Only one comment fits after a value.
    while node.trailing.len() > 1 {
        node.leading.push(StandaloneLine::Comment(node.trailing.remove(0)));
    }
}

/// Removes blank lines at the start, because none is allowed below a key.
fn trim_leading_blanks(leading: &mut Vec<StandaloneLine>) {
    let blanks = leading.iter().take_while(|line| **line == StandaloneLine::Blank).count();
    leading.drain(..blanks);
}

fn print_value(
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
                    // With `|+`, a blank line after the block would change its text.
                    out.keeps_blanks = header.ends_with('+');
                    lines.iter().for_each(|line| push_line(line, indent + INDENT, &mut out.text));
                }
            }
        }
        ValueShape::Flow { lines, own_line, column } => {
            print_flow(&lines, own_line, column, indent, out);
            out.push_str(&behind);
            out.push('\n');
        }
        ValueShape::Block(block) if list => {
            out.push(' ');
            print_children(block, indent + INDENT, out);
        }
        ValueShape::Block(block) => {
            out.push_str(&behind);
            out.push('\n');
            print_children(block, indent + INDENT, out);
        }
    }
}

/// Prints a value in brackets or braces; further lines move as far as the first one.
fn print_flow(
    written: &[String],
    own_line: bool,
    column: usize,
    indent: usize,
    out: &mut YamlWriter,
) {
    let Some((first, rest)) = written.split_first() else { return };
    if own_line {
        out.push('\n');
        print_blanks(indent + INDENT, out);
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
            print_blanks(if own_line { moved } else { before }, out);
            out.push_str(text);
        }
    }
}

fn print_lines(lines: Vec<StandaloneLine>, indent: usize, out: &mut YamlWriter) {
    for line in lines {
        match line {
            // Blank lines are not printed at the start, and not twice.
            StandaloneLine::Blank if out.text.is_empty() || out.text.ends_with("\n\n") => {}
            StandaloneLine::Blank if out.keeps_blanks => {}
            StandaloneLine::Blank => out.push('\n'),
            StandaloneLine::Comment(text) => {
                out.keeps_blanks = false;
                print_blanks(indent, out);
                out.push_str(&text);
                out.push('\n');
            }
        }
    }
}

fn print_blanks(count: usize, out: &mut YamlWriter) {
    out.text.extend(std::iter::repeat_n(' ', count));
}
