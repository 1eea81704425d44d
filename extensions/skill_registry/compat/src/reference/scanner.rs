//! Tokenizer of a frontmatter that matches the reference's YAML library (strictyaml 1.7).
//!
//! It is a YAML 1.2 scanner of the PyYAML family with peculiarities: quoted text may continue in
//! column 0, a tab ends a plain scalar, comments are tokens attached to their neighbors. Syntax
//! that strictyaml rejects everywhere (flow style, anchors, aliases, tags, directives) is rejected
//! here, at the first character.

mod scalars;

use std::collections::VecDeque;

/// A position in the frontmatter, counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ScanMark {
    pub(super) line: u32,
    pub(super) column: u32,
}

/// An error of the reference's YAML library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StrictYamlError {
    pub(super) at: ScanMark,
    pub(super) problem: String,
    /// Whether the reference ends with an uncaught exception instead of an error message.
    pub(super) crashes: bool,
}

impl StrictYamlError {
    pub(super) fn new<T>(at: ScanMark, problem: impl Into<String>) -> Result<T, Self> {
        Err(Self { at, problem: problem.into(), crashes: false })
    }

    pub(super) fn crash<T>(at: ScanMark, problem: impl Into<String>) -> Result<T, Self> {
        Err(Self { at, problem: problem.into(), crashes: true })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    StreamStart,
    StreamEnd,
    DocumentEnd,
    SequenceStart,
    MappingStart,
    BlockEnd,
    Entry,
    Key,
    Value,
    Scalar,
    Comment,
}

/// The comments attached to a token: after it and before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TokenComments {
    pub(super) post: bool,
    pub(super) pre: bool,
}

#[derive(Clone, Debug)]
pub(super) struct YamlToken {
    pub(super) kind: TokenKind,
    pub(super) at: ScanMark,
    pub(super) comments: Option<TokenComments>,
    /// The text of a scalar; empty for other tokens.
    pub(super) text: String,
    /// Whether it is a scalar without quotes, which may have another type.
    pub(super) plain: bool,
}

impl YamlToken {
    fn new(kind: TokenKind, at: ScanMark) -> Self {
        Self { kind, at, comments: None, text: String::new(), plain: false }
    }
}

/// The start of a possible key, which only a later `:` confirms.
#[derive(Clone, Copy, Debug)]
struct SimpleKey {
    token: usize,
    required: bool,
    index: usize,
    at: ScanMark,
}

/// The maximum length of a key without `?`, in characters.
const MAX_KEY_CHARS: usize = 1024;

#[derive(Debug)]
pub(super) struct YamlScanner {
    chars: Vec<char>,
    index: usize,
    line: u32,
    column: u32,
    done: bool,
    tokens: VecDeque<YamlToken>,
    taken: usize,
    indent: i64,
    indents: Vec<i64>,
    allow_key: bool,
    key: Option<SimpleKey>,
}

fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Returns `true` at the end of a line or of the text, which is marked by NUL.
fn is_end(c: char) -> bool {
    c == '\0' || is_break(c)
}

fn is_blank_or_end(c: char) -> bool {
    matches!(c, ' ' | '\t') || is_end(c)
}

/// Returns `true` for characters that the library accepts.
fn is_printable(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}'
        | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

impl YamlScanner {
    pub(super) fn new(text: &str) -> Result<Self, StrictYamlError> {
        let mut scanner = Self {
            chars: text.chars().collect(),
            index: 0,
            line: 0,
            column: 0,
            done: false,
            tokens: VecDeque::from([YamlToken::new(TokenKind::StreamStart, ScanMark::default())]),
            taken: 0,
            indent: -1,
            indents: Vec::new(),
            allow_key: true,
            key: None,
        };
        if let Some(bad) = scanner.chars.iter().position(|&c| !is_printable(c)) {
            let code = u32::from(scanner.chars[bad]);
            scanner.advance(bad);
            return StrictYamlError::crash(
                scanner.mark(),
                format!("unacceptable character #x{code:04x}: special characters are not allowed"),
            );
        }
        Ok(scanner)
    }

    // Interface of the parser.

    /// Returns `true` if the next token is one of these kinds. Each call attaches comments to
    /// tokens, so that the number of calls matters; see [`YamlScanner::attach_comments`].
    pub(super) fn check_token(&mut self, kinds: &[TokenKind]) -> Result<bool, StrictYamlError> {
        self.fetch_tokens()?;
        self.attach_comments()?;
        Ok(self.tokens.front().is_some_and(|token| kinds.contains(&token.kind)))
    }

    pub(super) fn peek(&mut self) -> Result<&mut YamlToken, StrictYamlError> {
        self.fetch_tokens()?;
        self.attach_comments()?;
        let at = self.mark();
        match self.tokens.front_mut() {
            Some(token) => Ok(token),
            None => StrictYamlError::crash(at, "the text ends too early"),
        }
    }

    pub(super) fn take_token(&mut self) -> Result<YamlToken, StrictYamlError> {
        self.fetch_tokens()?;
        self.attach_comments()?;
        // The library attaches a comment after a scalar, or after `:` on the same line, to that
        // token.
        if let [Some(first), Some(second)] = [self.tokens.front(), self.tokens.get(1)]
            && second.kind == TokenKind::Comment
            && (first.kind == TokenKind::Scalar
                || (first.kind == TokenKind::Value && first.at.line == second.at.line))
        {
            self.drop_comment(1);
            self.fetch_token()?;
            while self.tokens.get(1).is_some_and(|token| token.kind == TokenKind::Comment) {
                self.drop_comment(1);
                self.fetch_token()?;
            }
            if let Some(first) = self.tokens.front_mut() {
                first.comments.get_or_insert_default().post = true;
            }
        }
        self.taken += 1;
        let at = self.mark();
        match self.tokens.pop_front() {
            Some(token) => Ok(token),
            None => StrictYamlError::crash(at, "the text ends too early"),
        }
    }

    /// Moves the comments of a token to the next token.
    pub(super) fn move_comments(&mut self, token: &mut YamlToken) -> Result<(), StrictYamlError> {
        let next = self.peek()?;
        let Some(given) = token.comments else { return Ok(()) };
        // The library keeps comments at the end on the token before it.
        if next.kind == TokenKind::StreamEnd {
            return Ok(());
        }
        token.comments = None;
        let has = next.comments.get_or_insert_default();
        if given.post && has.post || given.pre && has.pre {
            return StrictYamlError::crash(next.at, "two comments claim the same place");
        }
        has.post |= given.post;
        has.pre |= given.pre;
        Ok(())
    }

    /// Attaches comments before the next token to that token.
    fn attach_comments(&mut self) -> Result<(), StrictYamlError> {
        let is_comment =
            |token: Option<&YamlToken>| token.is_some_and(|it| it.kind == TokenKind::Comment);
        if self.tokens.is_empty() {
            return Ok(());
        }
        let mut found = false;
        if is_comment(self.tokens.front()) {
            self.drop_comment(0);
            found = true;
        }
        while self.needs_token()? {
            self.fetch_token()?;
            if is_comment(self.tokens.front()) {
                self.drop_comment(0);
                found = true;
            }
        }
        if let Some(first) = self.tokens.front_mut().filter(|_| found) {
            let comments = first.comments.get_or_insert_default();
            if comments.pre {
                return StrictYamlError::crash(first.at, "two comments claim the same place");
            }
            comments.pre = true;
        }
        // The comment after a `:` must be available together with the token.
        if !self.done && self.tokens.len() < 2 {
            self.fetch_token()?;
        }
        Ok(())
    }

    fn drop_comment(&mut self, index: usize) {
        self.taken += 1;
        self.tokens.remove(index);
    }

    fn fetch_tokens(&mut self) -> Result<(), StrictYamlError> {
        while self.needs_token()? {
            self.fetch_token()?;
        }
        Ok(())
    }

    fn needs_token(&mut self) -> Result<bool, StrictYamlError> {
        if self.done {
            return Ok(false);
        }
        if self.tokens.is_empty() {
            return Ok(true);
        }
        // The first token is incomplete as long as a `:` after it could make it a key.
        self.discard_stale_key()?;
        Ok(self.key.is_some_and(|key| key.token == self.taken))
    }

    // Reading of characters.

    pub(super) fn mark(&self) -> ScanMark {
        ScanMark { line: self.line, column: self.column }
    }

    fn peek_char(&self, ahead: usize) -> char {
        self.chars.get(self.index + ahead).copied().unwrap_or('\0')
    }

    fn current_char(&self) -> char {
        self.peek_char(0)
    }

    /// Advances by a number of characters; only LF starts a new line, because CR was converted
    /// before.
    fn advance(&mut self, count: usize) {
        for _ in 0..count {
            match self.current_char() {
                '\n' => {
                    self.line += 1;
                    self.column = 0;
                }
                // A byte order mark has no width in the library's columns.
                '\u{feff}' => {}
                _ => self.column += 1,
            }
            self.index += 1;
        }
    }

    fn peek_text(&self, count: usize) -> String {
        (0..count).map(|ahead| self.peek_char(ahead)).collect()
    }

    fn column_is(&self, column: i64) -> bool {
        i64::from(self.column) == column
    }

    fn skip_blanks(&mut self) {
        while self.current_char() == ' ' {
            self.advance(1);
        }
    }

    /// Returns `true` if the current word is `---` or `...`.
    fn is_separator(&self) -> bool {
        let three = [self.peek_char(0), self.peek_char(1), self.peek_char(2)];
        (three == ['.'; 3] || three == ['-'; 3]) && is_blank_or_end(self.peek_char(3))
    }

    /// Consumes a line break, or returns `None` if there is none here.
    fn line_break(&mut self) -> Option<char> {
        match self.current_char() {
            '\r' if self.peek_char(1) == '\n' => {
                self.advance(2);
                Some('\n')
            }
            '\r' | '\n' | '\u{85}' => {
                self.advance(1);
                Some('\n')
            }
            kept @ ('\u{2028}' | '\u{2029}') => {
                self.advance(1);
                Some(kept)
            }
            _ => None,
        }
    }

    // Scanning of tokens.

    fn push_token(&mut self, kind: TokenKind) {
        let token = YamlToken::new(kind, self.mark());
        self.tokens.push_back(token);
    }

    fn fetch_token(&mut self) -> Result<(), StrictYamlError> {
        if let Some(comment) = self.skip_to_token() {
            self.tokens.push_back(YamlToken::new(TokenKind::Comment, comment));
            return Ok(());
        }
        self.discard_stale_key()?;
        // A token left of the current indentation ends the blocks inside.
        self.close_blocks(i64::from(self.column));
        let ends_word = is_blank_or_end(self.peek_char(1));
        match self.current_char() {
            '\0' => self.end_stream(),
            '%' if self.column == 0 => {
                StrictYamlError::new(self.mark(), "directives are not allowed")
            }
            // Must precede the plain scalars below, which `---` could start.
            '-' | '.' if self.column == 0 && self.is_separator() => self.end_document(),
            '[' | '{' => StrictYamlError::new(
                self.mark(),
                "found disallowed flow style (surround the text with quotes, or write one item per line)",
            ),
            c @ (']' | '}' | ',' | '@' | '`' | '%') => StrictYamlError::new(
                self.mark(),
                format!("found character '{c}' that cannot start any token"),
            ),
            '-' if ends_word => self.scan_entry(),
            '?' if ends_word => self.scan_explicit_key(),
            ':' if ends_word => self.scan_value(),
            '*' => StrictYamlError::new(
                self.mark(),
                "found a disallowed alias (surround the text with quotes)",
            ),
            '&' => StrictYamlError::new(
                self.mark(),
                "found a disallowed anchor (surround the text with quotes)",
            ),
            '!' => {
                StrictYamlError::new(self.mark(), "found a disallowed tag (do not specify types)")
            }
            folded @ ('|' | '>') => self.scan_block_scalar(folded == '>'),
            quote @ ('\'' | '"') => self.scan_quoted(quote),
            '\t' => StrictYamlError::new(self.mark(), "found a tab that cannot start any token"),
            _ => self.scan_plain(),
        }
    }

    /// Advances to the start of the next token, or over one comment or run of empty lines, which is
    /// a token, too.
    fn skip_to_token(&mut self) -> Option<ScanMark> {
        if self.index == 0 && self.current_char() == '\u{feff}' {
            self.advance(1);
        }
        loop {
            self.skip_blanks();
            if self.current_char() == '#' {
                let start = self.mark();
                loop {
                    let c = self.current_char();
                    if c == '\0' {
                        break;
                    }
                    self.advance(1);
                    if is_end(c) {
                        break;
                    }
                }
                // The library counts the empty lines after a comment as part of it.
                while self.line_break().is_some() {}
                self.allow_key = true;
                return Some(start);
            }
            self.line_break()?;
            self.allow_key = true;
            if self.current_char() == '\n' {
                let start = self.mark();
                // Blanks at the start of the following line are consumed as well.
                loop {
                    if matches!(self.current_char(), ' ' | '\t') {
                        self.advance(1);
                    } else if self.line_break().is_none() {
                        break;
                    }
                }
                return Some(start);
            }
        }
    }

    fn discard_stale_key(&mut self) -> Result<(), StrictYamlError> {
        let Some(key) = self.key else { return Ok(()) };
        // A key without `?` must be on one line and short.
        if key.at.line != self.line || self.index - key.index > MAX_KEY_CHARS {
            self.discard_key()?;
        }
        Ok(())
    }

    fn discard_key(&mut self) -> Result<(), StrictYamlError> {
        match self.key {
            Some(key) if key.required => {
                StrictYamlError::new(key.at, "could not find expected ':'")
            }
            _ => {
                self.key = None;
                Ok(())
            }
        }
    }

    /// Marks the next token as a possible key.
    fn mark_possible_key(&mut self) -> Result<(), StrictYamlError> {
        if self.allow_key {
            self.discard_key()?;
            self.key = Some(SimpleKey {
                token: self.taken + self.tokens.len(),
                // In the column of its map, a text must be a key.
                required: self.column_is(self.indent),
                index: self.index,
                at: self.mark(),
            });
        }
        Ok(())
    }

    fn close_blocks(&mut self, column: i64) {
        while self.indent > column {
            self.indent = self.indents.pop().unwrap_or(-1);
            self.push_token(TokenKind::BlockEnd);
        }
    }

    fn add_indent(&mut self, column: u32) -> bool {
        let column = i64::from(column);
        let deeper = self.indent < column;
        if deeper {
            self.indents.push(self.indent);
            self.indent = column;
        }
        deeper
    }

    fn end_stream(&mut self) -> Result<(), StrictYamlError> {
        self.close_blocks(-1);
        self.discard_key()?;
        self.allow_key = false;
        self.push_token(TokenKind::StreamEnd);
        self.done = true;
        Ok(())
    }

    fn end_document(&mut self) -> Result<(), StrictYamlError> {
        self.close_blocks(-1);
        self.discard_key()?;
        self.allow_key = false;
        if self.current_char() == '-' {
            return StrictYamlError::new(self.mark(), "a second document starts here");
        }
        self.push_token(TokenKind::DocumentEnd);
        self.advance(3);
        Ok(())
    }

    /// Scans `-`, `?` or `:`, which starts a collection if it is deeper than the enclosing one.
    fn scan_indicator(
        &mut self,
        kind: TokenKind,
        collection: TokenKind,
        refusal: &str,
    ) -> Result<(), StrictYamlError> {
        if !self.allow_key {
            return StrictYamlError::new(self.mark(), refusal);
        }
        if self.add_indent(self.column) {
            self.push_token(collection);
        }
        self.allow_key = true;
        self.discard_key()?;
        self.push_token(kind);
        self.advance(1);
        Ok(())
    }

    fn scan_entry(&mut self) -> Result<(), StrictYamlError> {
        let refusal = "sequence entries are not allowed here";
        self.scan_indicator(TokenKind::Entry, TokenKind::SequenceStart, refusal)
    }

    fn scan_explicit_key(&mut self) -> Result<(), StrictYamlError> {
        self.scan_indicator(
            TokenKind::Key,
            TokenKind::MappingStart,
            "mapping keys are not allowed here",
        )
    }

    fn scan_value(&mut self) -> Result<(), StrictYamlError> {
        let Some(key) = self.key.take() else {
            let refusal = "mapping values are not allowed here";
            return self.scan_indicator(TokenKind::Value, TokenKind::MappingStart, refusal);
        };
        // Tokens already handed out are no longer in the queue.
        let place = key.token - self.taken;
        self.tokens.insert(place, YamlToken::new(TokenKind::Key, key.at));
        if self.add_indent(key.at.column) {
            self.tokens.insert(place, YamlToken::new(TokenKind::MappingStart, key.at));
        }
        self.allow_key = false;
        self.push_token(TokenKind::Value);
        self.advance(1);
        Ok(())
    }
}
