//! The tokenization of documents into terms with positions.

use super::FieldLayout;
use super::term_interner::TermInterner;
use crate::Document;
use crate::field::{BODY, DESCRIPTION, FIELDS, HEADINGS, NAME, TAGS};

/// The length of the field body in characters.
const BODY_CHARS: usize = 8_000;
/// The length of the body with sections in characters.
const SECTION_CHARS: usize = 12_000;
/// The maximum number of characters and of terms of any other field: far more than a skill should
/// have, and few enough for positions of 16 bits.
const FIELD_LIMIT: usize = 16_000;

/// The minimum number of terms of a section that ends at a heading.
const MIN_SECTION: usize = 25;
/// The maximum number of terms of a section.
const MAX_SECTION: usize = 150;
/// The distance between the starts of a full section and the next, so that 30 terms are in both.
const SECTION_STEP: usize = 120;
/// The maximum number of sections of a body.
pub(crate) const SECTIONS: usize = 40;

/// A document as terms with positions. It is reused for every document to keep its allocations.
#[derive(Debug, Default)]
pub(super) struct TokenizedDocument {
    /// The terms of each field.
    pub(super) fields: [Vec<u32>; FIELDS],
    /// The terms with positions, in order within each field.
    pub(super) placed: Vec<(u32, u16)>,
    pub(super) sections: Vec<(u16, u16)>,
    pub(super) layout: FieldLayout,
    /// The terms of the part of the body with sections.
    body: Vec<u32>,
}

impl TokenizedDocument {
    /// Tokenizes a document and assigns positions.
    pub(super) fn tokenize(&mut self, words: &mut TermInterner, document: &Document<'_>) {
        self.fields.iter_mut().for_each(Vec::clear);
        self.placed.clear();
        let description = [document.description, document.when_to_use];
        for (field, texts) in [
            (NAME, &[document.name][..]),
            (DESCRIPTION, &description),
            (TAGS, &document.tags),
            (HEADINGS, &document.headings),
        ] {
            let terms = &mut self.fields[field];
            for text in texts {
                words.read(truncate_chars(text, FIELD_LIMIT), terms);
                terms.truncate(FIELD_LIMIT);
            }
        }
        let mut next = 0;
        for field in [NAME, DESCRIPTION, HEADINGS] {
            assign_positions(&mut self.placed, &mut next, &self.fields[field]);
        }
        self.tokenize_body(words, document.body, next);
    }

    /// Tokenizes the body and assigns positions from `start` on.
    fn tokenize_body(&mut self, words: &mut TermInterner, body: &str, start: usize) {
        let body = truncate_chars(body, SECTION_CHARS);
        let field_end = truncate_chars(body, BODY_CHARS).len();
        self.body.clear();
        self.sections.clear();
        let mut section = 0;
        // The number of terms in the field body, and the terms of the word that its end cuts.
        let mut in_field = 0;
        let mut cut = Vec::new();
        let mut at = 0;
        for line in body.split('\n') {
            if line.starts_with('#') && self.body.len() - section >= MIN_SECTION {
                self.close_section(start, section, self.body.len());
                section = self.body.len();
            }
            let before = self.body.len();
            words.read(line, &mut self.body);
            self.body.truncate(SECTION_CHARS);
            if at + line.len() <= field_end {
                in_field = self.body.len();
            } else if at < field_end {
                words.read(&line[..field_end - at], &mut cut);
                // Only the terms from the cut word on differ from those of the complete line.
                let same = cut.iter().zip(&self.body[before..]).take_while(|(a, b)| a == b).count();
                in_field = before + same;
                cut.drain(..same);
            }
            at += line.len() + 1;
            while self.body.len() - section >= MAX_SECTION {
                self.close_section(start, section, section + MAX_SECTION);
                section += SECTION_STEP;
            }
        }
        if self.body.len() > section {
            self.close_section(start, section, self.body.len());
        }
        self.fields[BODY].extend_from_slice(&self.body[..in_field]);
        self.fields[BODY].extend_from_slice(&cut);
        let mut next = start;
        assign_positions(&mut self.placed, &mut next, &self.body);
        self.layout = FieldLayout {
            body: start as u16,
            body_end: (start + in_field) as u16,
            tail: next.min(usize::from(u16::MAX)) as u16,
        };
        if !cut.is_empty() {
            // The term before the cut one is repeated, so that both form a pair.
            let before = in_field.checked_sub(1).map(|before| self.body[before]);
            let terms: Vec<u32> = before.into_iter().chain(cut).collect();
            assign_positions(&mut self.placed, &mut next, &terms);
        }
    }

    fn close_section(&mut self, body: usize, start: usize, end: usize) {
        if self.sections.len() < SECTIONS {
            self.sections.push(((body + start) as u16, (body + end) as u16));
        }
    }
}

/// Assigns the next positions to terms and leaves a gap behind them.
fn assign_positions(placed: &mut Vec<(u32, u16)>, next: &mut usize, terms: &[u32]) {
    // Terms beyond the last 16-bit position are dropped.
    let positions = (*next..usize::from(u16::MAX)).map(|position| position as u16);
    placed.extend(terms.iter().copied().zip(positions));
    *next += terms.len() + 1;
}

/// Returns the start of a text with at most this many characters.
fn truncate_chars(text: &str, characters: usize) -> &str {
    // Bytes are never fewer than characters and need no count.
    if text.len() <= characters {
        return text;
    }
    text.char_indices().nth(characters).map_or(text, |(end, _)| &text[..end])
}
