//! Scanning of scalars: plain, quoted, literal and folded.

use super::{
    ScanMark, StrictYamlError, TokenKind, YamlScanner, YamlToken, is_blank_or_end, is_break, is_end,
};
use crate::reference::surrogate::surrogate_standin;

impl YamlScanner {
    fn push_scalar(&mut self, start: ScanMark, text: String, plain: bool) -> &mut YamlToken {
        let mut token = YamlToken::new(TokenKind::Scalar, start);
        (token.text, token.plain) = (text, plain);
        self.tokens.push_back(token);
        let last = self.tokens.len() - 1;
        &mut self.tokens[last]
    }

    pub(super) fn scan_plain(&mut self) -> Result<(), StrictYamlError> {
        self.mark_possible_key()?;
        self.allow_key = false;
        let start = self.mark();
        let indent = self.indent + 1;
        let mut text = String::new();
        let mut spaces = String::new();
        // The loop condition is checked after blanks only: `a#b` is text, `a #b` has a comment.
        while self.current_char() != '#' {
            let mut length = 0;
            loop {
                let c = self.peek_char(length);
                // A colon ends the text only before a blank, so that URLs need no quotes.
                if is_blank_or_end(c) || (c == ':' && is_blank_or_end(self.peek_char(length + 1))) {
                    break;
                }
                length += 1;
            }
            if length == 0 {
                break;
            }
            self.allow_key = false;
            text.push_str(&spaces);
            text.push_str(&self.peek_text(length));
            self.advance(length);
            spaces = self.skip_plain_spaces();
            // A continuation must be indented deeper than its parent.
            if spaces.is_empty() || i64::from(self.column) < indent {
                break;
            }
        }
        let token = self.push_scalar(start, text, true);
        // The library treats a line break after a scalar as a comment on it.
        if spaces.starts_with('\n') {
            token.comments.get_or_insert_default().post = true;
        }
        Ok(())
    }

    /// Consumes the space between two words of a plain scalar and returns it folded.
    fn skip_plain_spaces(&mut self) -> String {
        let mut length = 0;
        while self.peek_char(length) == ' ' {
            length += 1;
        }
        let blanks = self.peek_text(length);
        self.advance(length);
        let Some(first) = self.line_break() else { return blanks };
        self.allow_key = true;
        // A separator ends the document even inside a plain scalar.
        if self.is_separator() {
            return String::new();
        }
        let mut breaks = String::new();
        loop {
            self.skip_blanks();
            let Some(next) = self.line_break() else { break };
            breaks.push(next);
            if self.is_separator() {
                return String::new();
            }
        }
        fold_breaks(first, &breaks)
    }

    pub(super) fn scan_quoted(&mut self, quote: char) -> Result<(), StrictYamlError> {
        self.mark_possible_key()?;
        self.allow_key = false;
        let start = self.mark();
        self.advance(1);
        let mut text = String::new();
        self.scan_quoted_words(quote, &mut text)?;
        while self.current_char() != quote {
            self.scan_quoted_spaces(start, &mut text)?;
            self.scan_quoted_words(quote, &mut text)?;
        }
        self.advance(1);
        self.push_scalar(start, text, false);
        Ok(())
    }

    fn scan_quoted_words(&mut self, quote: char, text: &mut String) -> Result<(), StrictYamlError> {
        loop {
            match self.current_char() {
                // In single quotes, a doubled quote is the only escape.
                '\'' if quote == '\'' && self.peek_char(1) == '\'' => {
                    text.push('\'');
                    self.advance(2);
                }
                c if c == quote || matches!(c, ' ' | '\t') || is_end(c) => return Ok(()),
                '\\' if quote == '"' => self.scan_escape(text)?,
                c => {
                    text.push(c);
                    self.advance(1);
                }
            }
        }
    }

    fn scan_escape(&mut self, text: &mut String) -> Result<(), StrictYamlError> {
        self.advance(1);
        let c = self.current_char();
        let single = match c {
            '0' => '\0',
            'a' => '\u{7}',
            'b' => '\u{8}',
            't' | '\t' => '\t',
            'n' => '\n',
            'v' => '\u{b}',
            'f' => '\u{c}',
            'r' => '\r',
            'e' => '\u{1b}',
            ' ' | '"' | '/' | '\\' => c,
            'N' => '\u{85}',
            '_' => '\u{a0}',
            'L' => '\u{2028}',
            'P' => '\u{2029}',
            'x' => return self.scan_escaped_code(2, text),
            'u' => return self.scan_escaped_code(4, text),
            'U' => return self.scan_escaped_code(8, text),
            // An escaped line break joins two lines without a blank.
            c if is_break(c) => {
                self.line_break();
                text.push_str(&self.skip_quoted_breaks()?);
                return Ok(());
            }
            _ => {
                return StrictYamlError::new(
                    self.mark(),
                    format!("found unknown escape character '{c}'"),
                );
            }
        };
        text.push(single);
        self.advance(1);
        Ok(())
    }

    fn scan_escaped_code(
        &mut self,
        digits: usize,
        text: &mut String,
    ) -> Result<(), StrictYamlError> {
        self.advance(1);
        let mut code = 0_u32;
        for ahead in 0..digits {
            let Some(digit) = self.peek_char(ahead).to_digit(16) else {
                let problem = format!("expected escape sequence of {digits} hexadecimal numbers");
                return StrictYamlError::new(self.mark(), problem);
            };
            code = code * 16 + digit;
        }
        // Python accepts lone surrogates; they get a stand-in.
        let Some(c) = char::from_u32(code).or_else(|| surrogate_standin(code)) else {
            return StrictYamlError::crash(
                self.mark(),
                format!("there is no character with the code {code:x}"),
            );
        };
        text.push(c);
        self.advance(digits);
        Ok(())
    }

    fn scan_quoted_spaces(
        &mut self,
        start: ScanMark,
        text: &mut String,
    ) -> Result<(), StrictYamlError> {
        let mut length = 0;
        while matches!(self.peek_char(length), ' ' | '\t') {
            length += 1;
        }
        let blanks = self.peek_text(length);
        self.advance(length);
        if self.current_char() == '\0' {
            return StrictYamlError::new(start, "the quoted text that starts here has no end");
        }
        match self.line_break() {
            Some(first) => text.push_str(&fold_breaks(first, &self.skip_quoted_breaks()?)),
            None => text.push_str(&blanks),
        }
        Ok(())
    }

    /// Consumes empty lines inside quotes. Indentation is ignored, but a document separator is an
    /// error.
    fn skip_quoted_breaks(&mut self) -> Result<String, StrictYamlError> {
        let mut breaks = String::new();
        loop {
            if self.is_separator() {
                return StrictYamlError::new(self.mark(), "found unexpected document separator");
            }
            while matches!(self.current_char(), ' ' | '\t') {
                self.advance(1);
            }
            match self.line_break() {
                Some(next) => breaks.push(next),
                None => return Ok(breaks),
            }
        }
    }

    pub(super) fn scan_block_scalar(&mut self, folds: bool) -> Result<(), StrictYamlError> {
        self.allow_key = true;
        self.discard_key()?;
        let start = self.mark();
        self.advance(1);
        let (keep, increment) = self.scan_block_header()?;
        let comment = self.skip_block_comment()?;
        let outer = self.indent + 1;
        let (mut breaks, indent) = match increment {
            None => {
                let (breaks, deepest) = self.detect_block_indentation();
                (breaks, outer.max(deepest))
            }
            Some(increment) => {
                let indent = outer.max(1) + increment - 1;
                (self.skip_block_breaks(indent), indent)
            }
        };
        // Only at the top level without an explicit indentation can text start in column 0.
        let at_margin = increment.is_none() && outer == 0;
        let mut text = String::new();
        let mut last_break = None;
        while self.column_is(indent) && self.current_char() != '\0' {
            text.push_str(&breaks);
            let mut flush = !matches!(self.current_char(), ' ' | '\t');
            while !is_end(self.current_char()) {
                text.push(self.current_char());
                self.advance(1);
            }
            last_break = self.line_break();
            breaks = self.skip_block_breaks(indent);
            if at_margin && self.column == 0 && self.is_separator() {
                break;
            }
            if !self.column_is(indent) || self.current_char() == '\0' {
                break;
            }
            // Lines that start with a blank are never folded, nor are their neighbors.
            flush &=
                folds && last_break == Some('\n') && !matches!(self.current_char(), ' ' | '\t');
            if !flush {
                text.extend(last_break);
            } else if breaks.is_empty() {
                text.push(' ');
            }
        }
        // Without an indicator, the last line break is kept, but not the empty lines after it.
        if keep != Some(false) {
            text.extend(last_break);
        }
        // Dropped empty lines count as a comment after the scalar.
        let trails = keep != Some(true) && !breaks.is_empty();
        if keep == Some(true) {
            text.push_str(&breaks);
        }
        if trails {
            while self.skip_to_token().is_some() {}
        }
        let token = self.push_scalar(start, text, false);
        if comment {
            token.comments.get_or_insert_default().pre = true;
        }
        if trails {
            token.comments.get_or_insert_default().post = true;
        }
        Ok(())
    }

    /// Scans `+` or `-` (whether the last line breaks are kept) and the indentation, in any order.
    fn scan_block_header(&mut self) -> Result<(Option<bool>, Option<i64>), StrictYamlError> {
        let mut keep = None;
        let mut increment = None;
        for _ in 0..2 {
            match self.current_char() {
                '+' | '-' if keep.is_none() => keep = Some(self.current_char() == '+'),
                '0' if increment.is_none() => {
                    return StrictYamlError::new(
                        self.mark(),
                        "expected an indentation of 1 to 9, found 0",
                    );
                }
                digit @ '1'..='9' if increment.is_none() => {
                    increment = digit.to_digit(10).map(i64::from);
                }
                _ => break,
            }
            self.advance(1);
        }
        let c = self.current_char();
        if c != ' ' && !is_end(c) {
            let problem = format!("expected chomping or indentation indicators, but found '{c}'");
            return StrictYamlError::new(self.mark(), problem);
        }
        Ok((keep, increment))
    }

    fn skip_block_comment(&mut self) -> Result<bool, StrictYamlError> {
        self.skip_blanks();
        let comment = self.current_char() == '#';
        while comment && !is_end(self.current_char()) {
            self.advance(1);
        }
        if !is_end(self.current_char()) {
            return StrictYamlError::new(self.mark(), "expected a comment or a line break");
        }
        self.line_break();
        Ok(comment)
    }

    /// Consumes the empty lines before the first one with text and returns the deepest indentation.
    fn detect_block_indentation(&mut self) -> (String, i64) {
        let (mut breaks, mut deepest) = (String::new(), 0);
        loop {
            if self.current_char() == ' ' {
                self.advance(1);
                deepest = deepest.max(i64::from(self.column));
            } else if let Some(next) = self.line_break() {
                breaks.push(next);
            } else {
                return (breaks, deepest);
            }
        }
    }

    fn skip_block_breaks(&mut self, indent: i64) -> String {
        let mut breaks = String::new();
        loop {
            while i64::from(self.column) < indent && self.current_char() == ' ' {
                self.advance(1);
            }
            match self.line_break() {
                Some(next) => breaks.push(next),
                None => return breaks,
            }
        }
    }
}

/// Returns the text for a line break followed by empty lines inside a plain or quoted scalar.
fn fold_breaks(first: char, breaks: &str) -> String {
    match first {
        '\n' if breaks.is_empty() => " ".to_owned(),
        '\n' => breaks.to_owned(),
        kept => format!("{kept}{breaks}"),
    }
}
