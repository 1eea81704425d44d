//! Tables that fit the terminal.
//!
//! Cells are wrapped between words and never within one. Where a table is too wide, columns of lower
//! importance are left out; where even the longest words do not fit next to each other, each row
//! becomes a block of lines with all columns.

use textwrap::core::display_width;
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

/// The number of blanks between two columns on a terminal.
const TERMINAL_GAP: usize = 2;
/// The number of blanks between two columns in a pipe or a file.
const PIPE_GAP: usize = 1;
/// The width that a wrapped column gets before other columns are left out.
const READABLE_WIDTH: usize = 24;
/// The indentation of the second and further lines of a block.
const BLOCK_INDENT: usize = 2;

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub struct TableColumn<'h> {
    header: &'h str,
    wraps: bool,
    /// Columns with the highest rank are left out first, those with rank 0 never.
    rank: u8,
}

impl<'h> TableColumn<'h> {
    /// Creates a column whose cells stay on one line: ids, numbers, times.
    #[must_use]
    pub const fn fixed(header: &'h str) -> Self {
        Self { header, wraps: false, rank: 0 }
    }

    /// Creates a column whose cells may be wrapped between words.
    #[must_use]
    pub const fn text(header: &'h str) -> Self {
        Self { header, wraps: true, rank: 0 }
    }

    /// Allows a narrow terminal to leave the column out. Higher ranks are left out first.
    #[must_use]
    pub const fn with_rank(self, rank: u8) -> Self {
        Self { rank, ..self }
    }
}

/// The lines of a table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RenderedTable {
    /// The line with the headers; `None` where rows are blocks.
    pub(super) header: Option<String>,
    /// The lines of the rows.
    pub(super) lines: Vec<String>,
    /// The headers of the columns that were left out.
    pub(super) omitted: Vec<String>,
}

/// The widths of a column, in terminal columns.
struct ColumnWidths {
    /// The width of the widest cell.
    natural: usize,
    /// The width below which a word would be split.
    least: usize,
}

impl ColumnWidths {
    fn readable(&self) -> usize {
        self.natural.min(self.least.max(READABLE_WIDTH))
    }
}

/// Renders a table within a width; without one, each row is a line. The cells have no line breaks.
pub(super) fn render_table(
    columns: &[TableColumn<'_>],
    rows: &[Vec<String>],
    width: Option<usize>,
) -> RenderedTable {
    let measured: Vec<ColumnWidths> =
        columns.iter().enumerate().map(|(index, column)| measure(column, index, rows)).collect();
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    let Some(width) = width else {
        let widths: Vec<usize> = measured.iter().map(|column| column.natural).collect();
        return render_columns(columns, rows, &shown, &widths, PIPE_GAP);
    };
    let total = |shown: &[usize], of: fn(&ColumnWidths) -> usize| {
        let gaps = TERMINAL_GAP * shown.len().saturating_sub(1);
        shown.iter().map(|index| of(&measured[*index])).sum::<usize>() + gaps
    };
    while total(&shown, ColumnWidths::readable) > width {
        // Of equal ranks, the last column is the least important one.
        let least = shown.iter().rposition(|index| {
            let rank = columns[*index].rank;
            rank > 0 && shown.iter().all(|other| columns[*other].rank <= rank)
        });
        match least {
            Some(position) => shown.remove(position),
            None => break,
        };
    }
    if total(&shown, |column| column.least) > width {
        return render_blocks(columns, rows, width);
    }
    let least: Vec<usize> = measured.iter().map(|column| column.least).collect();
    let spare = width - total(&shown, |column| column.least);
    let wanted: usize = shown.iter().map(|i| measured[*i].natural - measured[*i].least).sum();
    let mut widths = least;
    for index in &shown {
        let wish = measured[*index].natural - measured[*index].least;
        widths[*index] += if wanted <= spare { wish } else { wish * spare / wanted };
    }
    render_columns(columns, rows, &shown, &widths, TERMINAL_GAP)
}

fn measure(column: &TableColumn<'_>, index: usize, rows: &[Vec<String>]) -> ColumnWidths {
    let mut widths =
        ColumnWidths { natural: display_width(column.header), least: display_width(column.header) };
    for cell in rows.iter().filter_map(|row| row.get(index)) {
        let natural = display_width(cell);
        widths.natural = widths.natural.max(natural);
        let least = match column.wraps {
            true => cell.split(' ').map(display_width).max().unwrap_or_default(),
            false => natural,
        };
        widths.least = widths.least.max(least);
    }
    widths
}

fn render_columns(
    columns: &[TableColumn<'_>],
    rows: &[Vec<String>],
    shown: &[usize],
    widths: &[usize],
    gap: usize,
) -> RenderedTable {
    let headers: Vec<String> = columns.iter().map(|column| column.header.to_owned()).collect();
    let header = join_cells(&headers, shown, widths, gap).join("\n");
    let lines = rows.iter().flat_map(|row| join_cells(row, shown, widths, gap)).collect();
    let omitted = (0..columns.len()).filter(|index| !shown.contains(index));
    let omitted = omitted.map(|index| columns[index].header.to_owned()).collect();
    RenderedTable { header: Some(header), lines, omitted }
}

/// Joins the cells of a row to one line or more.
fn join_cells(cells: &[String], shown: &[usize], widths: &[usize], gap: usize) -> Vec<String> {
    let wrapped: Vec<Vec<String>> = shown
        .iter()
        .map(|index| {
            let cell = cells.get(*index).map(String::as_str).unwrap_or_default();
            wrap_words(cell, widths[*index], 0)
        })
        .collect();
    let height = wrapped.iter().map(Vec::len).max().unwrap_or_default();
    let mut lines = Vec::with_capacity(height);
    for number in 0..height {
        let mut line = String::new();
        let mut end = 0;
        for (index, cell) in shown.iter().zip(&wrapped) {
            let text = cell.get(number).map(String::as_str).unwrap_or_default();
            if !text.is_empty() {
                line.extend(std::iter::repeat_n(' ', end - display_width(&line)));
                line.push_str(text);
            }
            end += widths[*index] + gap;
        }
        lines.push(line);
    }
    lines
}

/// Renders each row as its first cell on a line of its own, and the other cells below it: on one line
/// if they fit, else on a line or more each.
fn render_blocks(columns: &[TableColumn<'_>], rows: &[Vec<String>], width: usize) -> RenderedTable {
    let label = columns.iter().skip(1).map(|column| display_width(column.header)).max();
    let indent = BLOCK_INDENT + label.unwrap_or_default() + TERMINAL_GAP;
    let mut lines = Vec::new();
    for row in rows {
        lines.extend(row.first().cloned());
        let cells = columns.iter().zip(row).skip(1).filter(|(_, cell)| !cell.is_empty());
        let cells: Vec<_> =
            cells.map(|(column, cell)| format!("{} {cell}", column.header)).collect();
        let short = format!("{:BLOCK_INDENT$}{}", "", cells.join("  "));
        if display_width(&short) <= width {
            lines.push(short);
            continue;
        }
        for (column, cell) in columns.iter().zip(row).skip(1).filter(|(_, cell)| !cell.is_empty()) {
            let line = format!("{:BLOCK_INDENT$}{}", "", column.header);
            let gap = " ".repeat(indent.saturating_sub(display_width(&line)));
            lines.extend(wrap_words(&format!("{line}{gap}{cell}"), width, indent));
        }
    }
    RenderedTable { header: None, lines, omitted: Vec::new() }
}

/// Wraps a text between words; lines after the first are indented. A word wider than `width` is
/// kept whole.
pub(super) fn wrap_words(text: &str, width: usize, indent: usize) -> Vec<String> {
    let indent = " ".repeat(indent);
    let options = Options::new(width.max(1))
        .break_words(false)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit)
        .subsequent_indent(&indent);
    textwrap::wrap(text, options).into_iter().map(std::borrow::Cow::into_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [TableColumn<'static>; 4] = [
        TableColumn::fixed("ID"),
        TableColumn::fixed("STATE"),
        TableColumn::text("ABOUT"),
        TableColumn::text("NOTE").with_rank(1),
    ];

    fn rows() -> Vec<Vec<String>> {
        [
            ["beads", "on", "Counts beads of every color on request", "rarely used"],
            ["tea", "off", "", ""],
        ]
        .map(|row| row.map(str::to_owned).to_vec())
        .to_vec()
    }

    fn render(width: Option<usize>) -> String {
        let table = render_table(&COLUMNS, &rows(), width);
        let mut lines: Vec<String> = table.header.into_iter().collect();
        lines.extend(table.lines);
        lines.push(format!("omitted: {}", table.omitted.join(", ")));
        lines.join("\n")
    }

    #[test]
    fn wide_table_has_line_per_row() {
        assert_eq!(
            render(None),
            "ID    STATE ABOUT                                  NOTE\n\
             beads on    Counts beads of every color on request rarely used\n\
             tea   off\n\
             omitted: "
        );
        assert_eq!(
            render(Some(200)),
            "ID     STATE  ABOUT                                   NOTE\n\
             beads  on     Counts beads of every color on request  rarely used\n\
             tea    off\n\
             omitted: "
        );
    }

    #[test]
    fn cells_wrap_between_words() {
        assert_eq!(
            render(Some(52)),
            "ID     STATE  ABOUT                       NOTE\n\
             beads  on     Counts beads of every       rarely\n              \
             color on request            used\n\
             tea    off\n\
             omitted: "
        );
    }

    #[test]
    fn low_ranked_column_is_omitted_first() {
        assert_eq!(
            render(Some(36)),
            "ID     STATE  ABOUT\n\
             beads  on     Counts beads of every\n              \
             color on request\n\
             tea    off\n\
             omitted: NOTE"
        );
    }

    #[test]
    fn too_narrow_table_becomes_blocks() {
        let long = "sandbox/skills/a-very-long-name/SKILL.md";
        let rows = [vec!["beads".to_owned(), "on".to_owned(), format!("see {long} there")]];
        let table = render_table(&COLUMNS[..3], &rows, Some(40));
        let expected =
            ["beads", "  STATE  on", "  ABOUT  see", &format!("         {long}"), "         there"];
        assert_eq!((table.header, table.lines), (None, expected.map(str::to_owned).to_vec()));
    }

    #[test]
    fn no_width_splits_words() {
        let words: Vec<String> = rows()
            .concat()
            .iter()
            .flat_map(|cell| cell.split(' ').map(str::to_owned).collect::<Vec<_>>())
            .filter(|word| !word.is_empty())
            .collect();
        for width in 1..80 {
            let table = render_table(&COLUMNS, &rows(), Some(width));
            let blocks = table.header.is_none();
            let shown: Vec<&str> = table.lines.iter().flat_map(|l| l.split_whitespace()).collect();
            let kept = words.iter().filter(|word| {
                !table.omitted.iter().any(|name| name == "NOTE")
                    || !["rarely", "used"].contains(&word.as_str())
            });
            for word in kept {
                assert!(shown.contains(&word.as_str()), "{width}: {word} of {shown:?}");
            }
            let longest = table.lines.iter().map(|line| display_width(line)).max().unwrap();
            assert!(blocks || longest <= width, "{width}: {longest}");
        }
    }
}
