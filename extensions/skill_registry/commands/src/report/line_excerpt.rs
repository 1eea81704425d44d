//! The excerpt of a line, and the marked part of it.

use std::ops::Range;

use skillhost_terminal::display_safe;

/// A printable excerpt of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LineExcerpt {
    /// The line, or the part of it around the position.
    pub(super) text: String,
    /// The marked byte range of `text`.
    pub(super) carets: Range<usize>,
}

/// The lines of a text by number. Lookups in ascending order cost one pass over the text.
pub(super) struct LineIndex<'a> {
    text: &'a str,
    line: u32,
    at: usize,
}

impl<'a> LineIndex<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, line: 1, at: 0 }
    }

    /// Returns a line without its line break, or `None` past the end.
    pub(super) fn get(&mut self, line: u32) -> Option<&'a str> {
        if line < self.line {
            (self.line, self.at) = (1, 0);
        }
        while self.line < line {
            self.at += self.text[self.at..].find('\n')? + 1;
            self.line += 1;
        }
        let rest = &self.text[self.at..];
        let end = rest.find('\n').unwrap_or(rest.len());
        Some(rest[..end].strip_suffix('\r').unwrap_or(&rest[..end]))
    }
}

/// Makes a line printable and cuts it to about `width` columns. `column` counts characters from 1;
/// 0 marks the full line.
pub(super) fn excerpt_line(line: &str, column: u32, width: usize) -> LineExcerpt {
    let target = target(line, column);
    let before = line[..target.start].chars().count();
    // The text before the position is kept as long as it leaves room for the position itself.
    let first = if before > width * 2 / 3 { before - width / 3 } else { 0 };
    let start = line.char_indices().nth(first).map_or(line.len(), |(at, _)| at);
    let mut text = String::from(if first > 0 { "…" } else { "" });
    let mut carets = None;
    let mut end = None;
    let mut room = width;
    for (at, character) in line[start..].char_indices().map(|(at, it)| (start + at, it)) {
        if at >= target.start {
            carets.get_or_insert(text.len());
        }
        if at >= target.end {
            end.get_or_insert(text.len());
        }
        let piece = display_safe(character.encode_utf8(&mut [0; 4]));
        let columns = piece.chars().count();
        if columns > room {
            end.get_or_insert(text.len());
            text.push('…');
            break;
        }
        room -= columns;
        text.push_str(&piece);
    }
    let carets = carets.unwrap_or(text.len());
    let end = end.unwrap_or(text.len());
    LineExcerpt { text, carets: carets..end.max(carets) }
}

/// Returns the bytes of a line that a finding is about, derived from its first character: a value
/// in the frontmatter to the end of the line, else a word.
fn target(line: &str, column: u32) -> Range<usize> {
    let end = line.trim_end().len();
    let Some(before) = (column as usize).checked_sub(1) else {
        return end - line.trim().len()..end;
    };
    let start = line.char_indices().nth(before).map_or(line.len(), |(at, _)| at);
    if start >= end {
        return start..start;
    }
    let lead = line[..start].trim_end();
    if lead.ends_with(':') || lead.ends_with('-') {
        return start..end;
    }
    let rest = &line[start..end];
    let word = rest.find(char::is_whitespace).map_or(rest, |at| &rest[..at]);
    let word = word.trim_end_matches([':', ',']);
    start..start + word.len().max(rest.chars().next().map_or(0, char::len_utf8))
}

#[cfg(test)]
mod tests;
