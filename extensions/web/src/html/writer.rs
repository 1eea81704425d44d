//! The text of a page while it is written.

use skillhost_payload::is_hidden;

/// A writer of paragraphs, lines and words with a limit.
///
/// White space is collapsed as in a browser, and hidden characters are dropped.
pub(super) struct TextWriter {
    text: String,
    limit: usize,
    /// The line breaks before the next word: 0, 1 or 2.
    breaks: usize,
    /// A blank before the next word.
    has_blank: bool,
    /// The text is at the start of a line, after marks such as `- `.
    is_line_start: bool,
    is_preformatted: bool,
}

impl TextWriter {
    /// Creates a writer with a limit in bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            text: String::new(),
            limit,
            breaks: 0,
            has_blank: false,
            is_line_start: true,
            is_preformatted: false,
        }
    }

    /// Returns the length of the text in bytes.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Returns whether the limit is reached.
    pub(super) fn is_full(&self) -> bool {
        self.text.len() >= self.limit
    }

    /// Returns the text.
    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Ends the current line.
    pub(super) fn end_line(&mut self) {
        self.breaks = self.breaks.max(1);
    }

    /// Ends the current paragraph.
    pub(super) fn end_paragraph(&mut self) {
        self.breaks = 2;
    }

    /// Writes text of the page.
    pub(super) fn push_text(&mut self, text: &str) {
        for c in text.chars() {
            if self.is_full() {
                return;
            }
            if self.is_preformatted && matches!(c, '\n' | '\t') {
                self.text.push(c);
            } else if c.is_whitespace() {
                match self.is_preformatted {
                    true => self.text.push(' '),
                    false => self.has_blank = true,
                }
            } else if !is_hidden(c) {
                self.write_breaks();
                self.text.push(c);
                self.is_line_start = false;
            }
        }
    }

    /// Writes a mark such as `[` directly before or after a word.
    pub(super) fn push_mark(&mut self, mark: &str) {
        if self.is_full() || self.is_preformatted {
            return;
        }
        let is_end = mark.starts_with(']');
        // Blanks before the end of a link belong behind it.
        let blank = is_end && std::mem::take(&mut self.has_blank);
        if !is_end {
            self.write_breaks();
        }
        self.text.push_str(mark);
        // No blank between `[` and the first word.
        self.is_line_start = mark == "[";
        self.has_blank |= blank;
    }

    /// Writes the start of a line, such as `- `.
    pub(super) fn push_raw(&mut self, mark: &str) {
        if !self.is_full() && !self.is_preformatted {
            self.has_blank = false;
            self.write_breaks();
            self.text.push_str(mark);
            self.is_line_start = true;
        }
    }

    /// Separates a cell of a table from the one before it.
    pub(super) fn separate_cell(&mut self) {
        if self.breaks == 0 && !self.is_line_start {
            self.text.push_str(" |");
            self.has_blank = true;
        }
    }

    /// Begins a block whose white space is kept.
    pub(super) fn open_preformatted(&mut self) {
        if !self.is_preformatted {
            self.end_paragraph();
            self.write_breaks();
            self.text.push_str("```\n");
            self.is_preformatted = true;
            self.is_line_start = true;
        }
    }

    /// Ends such a block.
    pub(super) fn close_preformatted(&mut self) {
        if self.is_preformatted {
            self.is_preformatted = false;
            if !self.text.ends_with('\n') {
                self.text.push('\n');
            }
            self.text.push_str("```");
            self.is_line_start = false;
            self.end_paragraph();
        }
    }

    /// Writes the line breaks or the blank before a word.
    fn write_breaks(&mut self) {
        let breaks = if self.is_preformatted { 0 } else { std::mem::take(&mut self.breaks) };
        let blank = std::mem::take(&mut self.has_blank);
        if self.text.is_empty() {
            return;
        }
        // A mark without a word, such as that of an empty item, is not the end of a line.
        if breaks > 0 {
            let kept = self.text.trim_end_matches(' ').len();
            self.text.truncate(kept);
            (0..breaks).for_each(|_| self.text.push('\n'));
            self.is_line_start = true;
        } else if blank && !self.is_line_start {
            self.text.push(' ');
        }
    }
}
