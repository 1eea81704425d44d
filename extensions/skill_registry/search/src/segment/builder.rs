//! The builder of segments.

use super::layout::TokenizedDocument;
use super::term_interner::TermInterner;
use super::{DocumentEntry, FieldCounts, IndexSegment, PackedLists};
use crate::field::{FIELDS, NAME};
use crate::{Document, TextAnalyzer};

/// A builder that reads each document at once and does not keep it.
#[derive(Debug)]
pub(crate) struct SegmentBuilder {
    words: TermInterner,
    tokenized: TokenizedDocument,
    /// The documents; their terms have the numbers of `words` until `finish`.
    documents: Vec<DocumentEntry>,
    sections: PackedLists<(u16, u16)>,
    names: PackedLists<u32>,
    /// The postings of each document.
    postings: PackedLists<(u32, FieldCounts)>,
    /// The positions of each of those postings.
    positions: PackedLists<u16>,
    /// The last document with each term, and the index of its posting there.
    last: Vec<(u32, u32)>,
}

impl SegmentBuilder {
    pub(crate) fn new(analysis: TextAnalyzer) -> Self {
        Self {
            words: TermInterner::new(analysis),
            tokenized: TokenizedDocument::default(),
            documents: Vec::new(),
            sections: PackedLists::default(),
            names: PackedLists::default(),
            postings: PackedLists::default(),
            positions: PackedLists::default(),
            last: Vec::new(),
        }
    }

    /// Adds a document; its slot is the number of documents before it.
    pub(crate) fn add(&mut self, document: &Document<'_>) {
        let Self { words, tokenized, .. } = self;
        tokenized.tokenize(words, document);
        self.last.resize(words.len(), (u32::MAX, 0));
        let slot = self.documents.len() as u32;
        let first = self.postings.items.len();
        let mut posting_of = |term: u32, postings: &mut Vec<(u32, FieldCounts)>| {
            let (seen, at) = &mut self.last[term as usize];
            if *seen != slot {
                (*seen, *at) = (slot, (postings.len() - first) as u32);
                postings.push((term, FieldCounts::default()));
            }
            *at as usize
        };
        for (field, terms) in self.tokenized.fields.iter().enumerate() {
            for &term in terms {
                let posting = first + posting_of(term, &mut self.postings.items);
                self.postings.items[posting].1.add(field);
            }
            // The name is the first field, so its postings are exactly its distinct terms.
            if field == NAME {
                self.names.push(self.postings.items[first..].iter().map(|(term, _)| *term));
            }
        }
        // A counting sort of the positions by posting.
        let placed: Vec<(usize, u16)> = self
            .tokenized
            .placed
            .iter()
            .map(|&(term, position)| (posting_of(term, &mut self.postings.items), position))
            .collect();
        let count = self.postings.items.len() - first;
        let mut next = vec![0u32; count];
        placed.iter().for_each(|(posting, _)| next[*posting] += 1);
        let mut end = self.positions.items.len() as u32;
        for next in &mut next {
            let start = end;
            end += *next;
            *next = start;
            self.positions.starts.push(end);
        }
        self.positions.items.resize(end as usize, 0);
        for (posting, position) in placed {
            let at = &mut next[posting];
            self.positions.items[*at as usize] = position;
            *at += 1;
        }
        self.postings.close();
        self.sections.push(self.tokenized.sections.iter().copied());
        self.documents.push(DocumentEntry {
            id: document.id.into(),
            lengths: std::array::from_fn::<_, FIELDS, _>(|at| {
                self.tokenized.fields[at].len() as u32
            }),
            layout: self.tokenized.layout,
        });
    }

    /// Sorts the terms and converts the postings of documents to postings of terms.
    pub(crate) fn finish(self) -> IndexSegment {
        let (vocabulary, numbers) = self.words.into_sorted();
        let mut segment = IndexSegment {
            frequencies: vec![0; vocabulary.len()],
            vocabulary,
            documents: self.documents,
            sections: self.sections,
            names: self.names,
            ..IndexSegment::default()
        };
        // Terms were numbered by their first occurrence; a segment numbers them in sorted order.
        segment.names.items.iter_mut().for_each(|term| *term = numbers[*term as usize]);
        // A counting sort by term; documents are visited in slot order, so slots ascend.
        let mut starts = vec![0u32; segment.vocabulary.len() + 1];
        let mut place_counts = vec![0u32; segment.vocabulary.len()];
        for (posting, &(term, _)) in self.postings.items.iter().enumerate() {
            let term = numbers[term as usize] as usize;
            starts[term + 1] += 1;
            place_counts[term] += self.positions.get(posting).len() as u32;
        }
        for term in 1..starts.len() {
            starts[term] += starts[term - 1];
        }
        let total = self.postings.items.len();
        segment.slots = vec![0; total];
        segment.counts = vec![FieldCounts::default(); total];
        segment.positions.starts = vec![0; total + 1];
        segment.positions.items = vec![0; self.positions.items.len()];
        let mut next = starts.clone();
        let mut place = 0;
        let mut next_place: Vec<u32> = Vec::with_capacity(place_counts.len());
        for count in place_counts {
            next_place.push(place);
            place += count;
        }
        for slot in 0..segment.documents.len() {
            let range =
                self.postings.starts[slot] as usize..self.postings.starts[slot + 1] as usize;
            for posting in range {
                let (term, counts) = self.postings.items[posting];
                let term = numbers[term as usize];
                // Terms only after the end of the body do not count in document frequencies.
                if !counts.is_empty() {
                    segment.frequencies[term as usize] += 1;
                    segment.terms.items.push(term);
                }
                let at = next[term as usize] as usize;
                next[term as usize] += 1;
                segment.slots[at] = slot as u32;
                segment.counts[at] = counts;
                let positions = self.positions.get(posting);
                let start = next_place[term as usize] as usize;
                let end = start + positions.len();
                next_place[term as usize] = end as u32;
                segment.positions.items[start..end].copy_from_slice(positions);
                segment.positions.starts[at + 1] = end as u32;
            }
            segment.terms.close();
        }
        segment.postings = starts;
        segment.shrink();
        segment
    }
}
