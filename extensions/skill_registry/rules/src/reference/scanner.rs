//! Cuts a frontmatter into tokens where the reference's YAML library (strictyaml 1.7) does.
//!
//! It is a YAML 1.2 scanner of the PyYAML family with habits of its own: quoted text may go on in
//! column 0, a tab ends a plain scalar, comments are tokens that stick to their neighbours. What
//! strictyaml refuses wherever it stands (flow style, anchors, aliases, tags, directives) is refused
//! here, at the first character.

mod scalars;

use std::collections::VecDeque;

/// A place in the frontmatter, counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ScanMark {
    pub(super) line: u32,
    pub(super) column: u32,
}

/// Why the reference does not read a frontmatter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StrictYamlError {
    pub(super) at: ScanMark,
    pub(super) problem: String,
    /// The reference does not say so but ends with an uncaught exception.
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

/// The comments that stick to a token: behind it, and before it.
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
    /// Of a scalar, its text.
    pub(super) text: String,
    /// Whether it is a scalar without quotes, which may be more than text.
    pub(super) plain: bool,
}

impl YamlToken {
    fn new(kind: TokenKind, at: ScanMark) -> Self {
        Self { kind, at, comments: None, text: String::new(), plain: false }
    }
}

/// Where a key may have begun that is only known for one when its `:` comes.
#[derive(Clone, Copy, Debug)]
struct SimpleKey {
    token: usize,
    required: bool,
    index: usize,
    at: ScanMark,
}

/// The longest key without `?`, in characters.
const LONGEST_KEY: usize = 1024;

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

/// The end of a line or of the text, which is marked by NUL.
fn is_end(c: char) -> bool {
    c == '\0' || is_break(c)
}

fn is_blank_or_end(c: char) -> bool {
    matches!(c, ' ' | '\t') || is_end(c)
}

/// What the library reads at all.
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
            scanner.forward(bad);
            return StrictYamlError::crash(
                scanner.mark(),
                format!("unacceptable character #x{code:04x}: special characters are not allowed"),
            );
        }
        Ok(scanner)
    }

    // What the parser asks.

    /// Tells whether the next token is one of these. Asking ties comments to tokens, so that how
    /// often it is asked matters; see [`YamlScanner::gather`].
    pub(super) fn check(&mut self, kinds: &[TokenKind]) -> Result<bool, StrictYamlError> {
        self.fill()?;
        self.gather()?;
        Ok(self.tokens.front().is_some_and(|token| kinds.contains(&token.kind)))
    }

    pub(super) fn peek(&mut self) -> Result<&mut YamlToken, StrictYamlError> {
        self.fill()?;
        self.gather()?;
        let at = self.mark();
        match self.tokens.front_mut() {
            Some(token) => Ok(token),
            None => StrictYamlError::crash(at, "the text ends too early"),
        }
    }

    pub(super) fn take(&mut self) -> Result<YamlToken, StrictYamlError> {
        self.fill()?;
        self.gather()?;
        if let [Some(first), Some(second)] = [self.tokens.front(), self.tokens.get(1)]
            && second.kind == TokenKind::Comment
            && (first.kind == TokenKind::Scalar
                || (first.kind == TokenKind::Value && first.at.line == second.at.line))
        {
            self.drop_comment(1);
            self.fetch()?;
            while self.tokens.get(1).is_some_and(|token| token.kind == TokenKind::Comment) {
                self.drop_comment(1);
                self.fetch()?;
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

    /// Hands a token's comments on to the next token.
    pub(super) fn move_comments(&mut self, token: &mut YamlToken) -> Result<(), StrictYamlError> {
        let next = self.peek()?;
        let Some(given) = token.comments else { return Ok(()) };
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

    /// Ties comments that stand before the next token to it.
    fn gather(&mut self) -> Result<(), StrictYamlError> {
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
        while self.needs_more()? {
            self.fetch()?;
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
        // The comment behind a `:` is wanted together with it.
        if !self.done && self.tokens.len() < 2 {
            self.fetch()?;
        }
        Ok(())
    }

    fn drop_comment(&mut self, index: usize) {
        self.taken += 1;
        self.tokens.remove(index);
    }

    fn fill(&mut self) -> Result<(), StrictYamlError> {
        while self.needs_more()? {
            self.fetch()?;
        }
        Ok(())
    }

    fn needs_more(&mut self) -> Result<bool, StrictYamlError> {
        if self.done {
            return Ok(false);
        }
        if self.tokens.is_empty() {
            return Ok(true);
        }
        self.forget_stale_key()?;
        Ok(self.key.is_some_and(|key| key.token == self.taken))
    }

    // The reader.

    pub(super) fn mark(&self) -> ScanMark {
        ScanMark { line: self.line, column: self.column }
    }

    fn peek_char(&self, ahead: usize) -> char {
        self.chars.get(self.index + ahead).copied().unwrap_or('\0')
    }

    fn here(&self) -> char {
        self.peek_char(0)
    }

    /// Goes on; of all line breaks only LF begins a new line (CR was turned into LF before).
    fn forward(&mut self, count: usize) {
        for _ in 0..count {
            match self.here() {
                '\n' => {
                    self.line += 1;
                    self.column = 0;
                }
                '\u{feff}' => {}
                _ => self.column += 1,
            }
            self.index += 1;
        }
    }

    fn prefix(&self, count: usize) -> String {
        (0..count).map(|ahead| self.peek_char(ahead)).collect()
    }

    fn column_is(&self, column: i64) -> bool {
        i64::from(self.column) == column
    }

    fn skip_blanks(&mut self) {
        while self.here() == ' ' {
            self.forward(1);
        }
    }

    /// Tells whether `---` or `...` stands here alone.
    fn is_separator(&self) -> bool {
        let three = [self.peek_char(0), self.peek_char(1), self.peek_char(2)];
        (three == ['.'; 3] || three == ['-'; 3]) && is_blank_or_end(self.peek_char(3))
    }

    /// Takes a line break; nothing if there is none here.
    fn line_break(&mut self) -> Option<char> {
        match self.here() {
            '\r' if self.peek_char(1) == '\n' => {
                self.forward(2);
                Some('\n')
            }
            '\r' | '\n' | '\u{85}' => {
                self.forward(1);
                Some('\n')
            }
            kept @ ('\u{2028}' | '\u{2029}') => {
                self.forward(1);
                Some(kept)
            }
            _ => None,
        }
    }

    // Tokens.

    fn push(&mut self, kind: TokenKind) {
        let token = YamlToken::new(kind, self.mark());
        self.tokens.push_back(token);
    }

    fn fetch(&mut self) -> Result<(), StrictYamlError> {
        if let Some(comment) = self.skip_to_token() {
            self.tokens.push_back(YamlToken::new(TokenKind::Comment, comment));
            return Ok(());
        }
        self.forget_stale_key()?;
        self.unwind(i64::from(self.column));
        let ends_word = is_blank_or_end(self.peek_char(1));
        match self.here() {
            '\0' => self.stream_end(),
            '%' if self.column == 0 => {
                StrictYamlError::new(self.mark(), "directives are not allowed")
            }
            '-' | '.' if self.column == 0 && self.is_separator() => self.document_end(),
            '[' | '{' => StrictYamlError::new(
                self.mark(),
                "found disallowed flow style (surround the text with quotes, or write one item per line)",
            ),
            c @ (']' | '}' | ',' | '@' | '`' | '%') => StrictYamlError::new(
                self.mark(),
                format!("found character '{c}' that cannot start any token"),
            ),
            '-' if ends_word => self.entry(),
            '?' if ends_word => self.explicit_key(),
            ':' if ends_word => self.value(),
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
            folded @ ('|' | '>') => self.block_scalar(folded == '>'),
            quote @ ('\'' | '"') => self.quoted(quote),
            '\t' => StrictYamlError::new(self.mark(), "found a tab that cannot start any token"),
            _ => self.plain(),
        }
    }

    /// Goes to where the next token starts, or over one comment or run of empty lines, which is a
    /// token too.
    fn skip_to_token(&mut self) -> Option<ScanMark> {
        if self.index == 0 && self.here() == '\u{feff}' {
            self.forward(1);
        }
        loop {
            self.skip_blanks();
            if self.here() == '#' {
                let start = self.mark();
                loop {
                    let c = self.here();
                    if c == '\0' {
                        break;
                    }
                    self.forward(1);
                    if is_end(c) {
                        break;
                    }
                }
                while self.line_break().is_some() {}
                self.allow_key = true;
                return Some(start);
            }
            self.line_break()?;
            self.allow_key = true;
            if self.here() == '\n' {
                let start = self.mark();
                // Blanks at the start of the line after them are taken too.
                loop {
                    if matches!(self.here(), ' ' | '\t') {
                        self.forward(1);
                    } else if self.line_break().is_none() {
                        break;
                    }
                }
                return Some(start);
            }
        }
    }

    fn forget_stale_key(&mut self) -> Result<(), StrictYamlError> {
        let Some(key) = self.key else { return Ok(()) };
        if key.at.line != self.line || self.index - key.index > LONGEST_KEY {
            self.forget_key()?;
        }
        Ok(())
    }

    fn forget_key(&mut self) -> Result<(), StrictYamlError> {
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

    /// Notes that the next token may be a key.
    fn note_key(&mut self) -> Result<(), StrictYamlError> {
        if self.allow_key {
            self.forget_key()?;
            self.key = Some(SimpleKey {
                token: self.taken + self.tokens.len(),
                required: self.column_is(self.indent),
                index: self.index,
                at: self.mark(),
            });
        }
        Ok(())
    }

    fn unwind(&mut self, column: i64) {
        while self.indent > column {
            self.indent = self.indents.pop().unwrap_or(-1);
            self.push(TokenKind::BlockEnd);
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

    fn stream_end(&mut self) -> Result<(), StrictYamlError> {
        self.unwind(-1);
        self.forget_key()?;
        self.allow_key = false;
        self.push(TokenKind::StreamEnd);
        self.done = true;
        Ok(())
    }

    fn document_end(&mut self) -> Result<(), StrictYamlError> {
        self.unwind(-1);
        self.forget_key()?;
        self.allow_key = false;
        if self.here() == '-' {
            return StrictYamlError::new(self.mark(), "a second document starts here");
        }
        self.push(TokenKind::DocumentEnd);
        self.forward(3);
        Ok(())
    }

    /// Takes `-`, `?` or `:` as a token, which starts a collection where it is deeper than the one
    /// around it.
    fn indicator(
        &mut self,
        kind: TokenKind,
        collection: TokenKind,
        refusal: &str,
    ) -> Result<(), StrictYamlError> {
        if !self.allow_key {
            return StrictYamlError::new(self.mark(), refusal);
        }
        if self.add_indent(self.column) {
            self.push(collection);
        }
        self.allow_key = true;
        self.forget_key()?;
        self.push(kind);
        self.forward(1);
        Ok(())
    }

    fn entry(&mut self) -> Result<(), StrictYamlError> {
        let refusal = "sequence entries are not allowed here";
        self.indicator(TokenKind::Entry, TokenKind::SequenceStart, refusal)
    }

    fn explicit_key(&mut self) -> Result<(), StrictYamlError> {
        self.indicator(TokenKind::Key, TokenKind::MappingStart, "mapping keys are not allowed here")
    }

    fn value(&mut self) -> Result<(), StrictYamlError> {
        let Some(key) = self.key.take() else {
            let refusal = "mapping values are not allowed here";
            return self.indicator(TokenKind::Value, TokenKind::MappingStart, refusal);
        };
        let place = key.token - self.taken;
        self.tokens.insert(place, YamlToken::new(TokenKind::Key, key.at));
        if self.add_indent(key.at.column) {
            self.tokens.insert(place, YamlToken::new(TokenKind::MappingStart, key.at));
        }
        self.allow_key = false;
        self.push(TokenKind::Value);
        self.forward(1);
        Ok(())
    }
}
