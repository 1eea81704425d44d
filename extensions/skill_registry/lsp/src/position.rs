//! Positions of LSP: lines, and UTF-16 code units within them.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// A position in a document, both numbers counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct TextPosition {
    pub(crate) line: u32,
    /// In UTF-16 code units, of which characters beyond the basic plane have two.
    pub(crate) character: u32,
}

/// A range of positions; its end is exclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TextRange {
    pub(crate) start: TextPosition,
    pub(crate) end: TextPosition,
}

/// The lines of a text, which end with `\n`, `\r\n` or `\r`.
#[derive(Debug)]
pub(crate) struct LineTable<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> LineTable<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        let bytes = text.as_bytes();
        let ends = (0..bytes.len()).filter(|&at| match bytes[at] {
            b'\n' => true,
            b'\r' => bytes.get(at + 1) != Some(&b'\n'),
            _ => false,
        });
        let starts = std::iter::once(0).chain(ends.map(|at| at + 1)).collect();
        Self { text, starts }
    }

    /// Returns the position of an offset; beyond the text, its end.
    pub(crate) fn position(&self, offset: usize) -> TextPosition {
        let offset = self.text.floor_char_boundary(offset);
        let line = self.starts.partition_point(|start| *start <= offset).saturating_sub(1);
        let units: usize = self.text[self.starts[line]..offset].chars().map(char::len_utf16).sum();
        TextPosition { line: to_u32(line), character: to_u32(units) }
    }

    /// Returns the offset of a position; a position beyond the end of its line is that end.
    pub(crate) fn offset(&self, position: TextPosition) -> usize {
        let Some(&start) = self.starts.get(position.line as usize) else { return self.text.len() };
        let rest = &self.text[start..];
        let mut units = 0;
        for (at, character) in rest.char_indices() {
            if units >= position.character as usize || matches!(character, '\n' | '\r') {
                return start + at;
            }
            units += character.len_utf16();
        }
        self.text.len()
    }

    pub(crate) fn range(&self, range: &Range<usize>) -> TextRange {
        TextRange { start: self.position(range.start), end: self.position(range.end) }
    }
}

fn to_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Returns the bytes that a finding is about. Its line and column count characters from 1; 0 is the
/// complete file or line.
pub(crate) fn finding_range(text: &str, line: u32, column: u32) -> Range<usize> {
    let mut lines = text.split_inclusive('\n');
    let skipped = line.saturating_sub(1) as usize;
    let start: usize = lines.by_ref().take(skipped).map(str::len).sum();
    let content = lines.next().unwrap_or_default().trim_end();
    let Some(before) = (column as usize).checked_sub(1) else {
        let indent = content.len() - content.trim_start().len();
        return start + indent..start + content.len();
    };
    let first = content.char_indices().nth(before).map_or(content.len(), |(at, _)| at);
    let lead = content[..first].trim_end();
    let rest = &content[first..];
    // A value in the frontmatter reaches to the end of its line; elsewhere a word is meant.
    let length = if lead.ends_with(':') || lead.ends_with('-') {
        rest.len()
    } else {
        rest.find(char::is_whitespace).unwrap_or(rest.len())
    };
    start + first..start + first + length
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: u32, character: u32) -> TextPosition {
        TextPosition { line, character }
    }

    #[test]
    fn characters_beyond_basic_plane_count_twice() {
        let text = "a😀b\r\né x\rz\n";
        let table = LineTable::new(text);
        for (word, position) in [("b", at(0, 3)), ("x", at(1, 2)), ("z", at(2, 0))] {
            let offset = text.find(word).unwrap();
            assert_eq!(table.position(offset), position, "{word}");
            assert_eq!(table.offset(position), offset, "{word}");
        }
        assert_eq!(table.position(99), at(3, 0));
    }

    #[test]
    fn positions_outside_are_limited() {
        let text = "ab😀\ncd";
        let table = LineTable::new(text);
        // The middle of a surrogate pair is the end of its character.
        for (position, offset) in
            [(at(0, 3), 6), (at(0, 9), 6), (at(1, 9), 9), (at(7, 0), 9), (at(0, 0), 0)]
        {
            assert_eq!(table.offset(position), offset, "{position:?}");
        }
    }

    #[test]
    fn findings_mark_words_and_values() {
        let text = "---\nname: A b\n  x y: z\n\nOne two.\n";
        for (line, column, marked) in [
            (2, 7, "A b"),
            (2, 1, "name:"),
            (3, 0, "x y: z"),
            (5, 5, "two."),
            (5, 99, ""),
            (0, 0, "---"),
            (9, 3, ""),
        ] {
            assert_eq!(&text[finding_range(text, line, column)], marked, "{line}:{column}");
        }
    }
}
