//! Index segments: documents and, for each term, its occurrences in them.
//!
//! A segment is independent of other documents (unlike averages and rarities), so segments are
//! shared between versions of an index and merged without reading a text again.

mod builder;
mod layout;
mod merge;
mod term_interner;
mod vocabulary;

use std::ops::Range;
use std::sync::Arc;

pub(crate) use builder::SegmentBuilder;
pub(crate) use layout::SECTIONS;
pub(crate) use merge::{SegmentPart, merge_segments};
pub(crate) use vocabulary::TermDictionary;

use crate::field::{DESCRIPTION, FIELDS, FieldSet, NAME};

/// A segment: documents by slot, terms by number, and postings that list the documents of a term.
///
/// Lists of varying length are stored one after the other in one vector, together with a vector of
/// starts that has one entry more than the number of lists.
#[derive(Debug, Default)]
pub(crate) struct IndexSegment {
    // Parallel arrays instead of structs: a scan of postings reads only slots and counts.
    pub(crate) documents: Vec<DocumentEntry>,
    /// The sections of all documents, as ranges of positions.
    sections: PackedLists<(u16, u16)>,
    /// The distinct terms of each name, in the order of their first occurrence.
    names: PackedLists<u32>,
    /// The distinct terms in the fields of each document: its part of the document frequencies.
    terms: PackedLists<u32>,
    pub(crate) vocabulary: TermDictionary,
    /// The number of documents with each term in a field.
    pub(crate) frequencies: Vec<u32>,
    /// The index of the first posting of each term.
    postings: Vec<u32>,
    /// The slot of each posting, ascending within a term.
    slots: Vec<u32>,
    /// The counts of the term in the fields of the document.
    counts: Vec<FieldCounts>,
    /// The positions of each posting, ascending.
    positions: PackedLists<u16>,
}

/// A document of a segment without its terms.
#[derive(Clone, Debug)]
pub(crate) struct DocumentEntry {
    pub(crate) id: Arc<str>,
    /// The number of terms in each field.
    pub(crate) lengths: [u32; FIELDS],
    pub(crate) layout: FieldLayout,
}

/// The ranges of fields in the positions of a document: name, description and headings with a gap
/// after each; then the part of the body with sections, which starts with the field body; then the
/// terms at the end of the field body if that end cuts a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldLayout {
    /// The first position of the body.
    pub(crate) body: u16,
    /// The first position after the terms of the field body.
    pub(crate) body_end: u16,
    /// The first position of the cut end.
    pub(crate) tail: u16,
}

/// The counts of a term in each field of a document, packed in one word. A count saturates at the
/// maximum of its bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldCounts(u32);

impl FieldCounts {
    // The bits sum to 32; short fields need few, and the body comes last for `is_body_only`.
    const BITS: [u32; FIELDS] = [4, 7, 4, 7, 10];
    const SHIFT: [u32; FIELDS] = [0, 4, 11, 15, 22];

    /// Increments the count of a field.
    pub(crate) fn add(&mut self, field: usize) {
        if self.get(field) + 1 < 1 << Self::BITS[field] {
            self.0 += 1 << Self::SHIFT[field];
        }
    }

    /// Returns the count of a field.
    pub(crate) fn get(self, field: usize) -> u32 {
        (self.0 >> Self::SHIFT[field]) & ((1 << Self::BITS[field]) - 1)
    }

    /// Returns whether no field has the term, so that it occurs only in a section after the field body.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the fields that have the term.
    pub(crate) fn fields(self) -> FieldSet {
        let mut fields = FieldSet::default();
        (0..FIELDS).filter(|field| self.get(*field) > 0).for_each(|field| fields.add(field));
        fields
    }

    /// Returns whether the name or the description has the term.
    pub(crate) fn in_summary_fields(self) -> bool {
        self.get(NAME) + self.get(DESCRIPTION) > 0
    }

    /// Returns whether no field except the body has the term, which is the most frequent case.
    pub(crate) fn is_body_only(self) -> bool {
        self.0 & ((1 << Self::SHIFT[FIELDS - 1]) - 1) == 0
    }
}

/// A sequence of lists of varying length, stored one after the other.
#[derive(Debug)]
struct PackedLists<T> {
    /// The start of each list, then the end of the last.
    starts: Vec<u32>,
    items: Vec<T>,
}

impl<T> Default for PackedLists<T> {
    fn default() -> Self {
        Self { starts: vec![0], items: Vec::new() }
    }
}

impl<T> PackedLists<T> {
    fn get(&self, list: usize) -> &[T] {
        &self.items[self.starts[list] as usize..self.starts[list + 1] as usize]
    }

    /// Closes the list of the items added since the last one.
    fn close(&mut self) {
        self.starts.push(self.items.len() as u32);
    }

    fn push(&mut self, items: impl IntoIterator<Item = T>) {
        self.items.extend(items);
        self.close();
    }

    fn shrink(&mut self) {
        self.starts.shrink_to_fit();
        self.items.shrink_to_fit();
    }

    fn heap_bytes(&self) -> usize {
        vec_bytes(&self.starts) + vec_bytes(&self.items)
    }
}

fn vec_bytes<T>(items: &Vec<T>) -> usize {
    items.capacity() * size_of::<T>()
}

impl IndexSegment {
    /// Returns the number of documents.
    pub(crate) fn len(&self) -> usize {
        self.documents.len()
    }

    /// Returns the sections of a document's body as ranges of positions, by start.
    pub(crate) fn sections(&self, slot: usize) -> &[(u16, u16)] {
        self.sections.get(slot)
    }

    /// Returns the distinct terms of a document's name, in the order of their first occurrence.
    pub(crate) fn name(&self, slot: usize) -> &[u32] {
        self.names.get(slot)
    }

    /// Returns the distinct terms in the fields of a document.
    pub(crate) fn terms(&self, slot: usize) -> &[u32] {
        self.terms.get(slot)
    }

    /// Returns the numbers of a term's postings.
    pub(crate) fn postings(&self, term: u32) -> Range<usize> {
        let term = term as usize;
        self.postings[term] as usize..self.postings[term + 1] as usize
    }

    /// Returns the slots and counts of postings.
    pub(crate) fn occurrences(
        &self,
        postings: Range<usize>,
    ) -> impl Iterator<Item = (u32, FieldCounts)> + '_ {
        let counts = &self.counts[postings.clone()];
        self.slots[postings].iter().copied().zip(counts.iter().copied())
    }

    /// Returns the positions of a posting, ascending. Positions in tags are not stored.
    pub(crate) fn positions(&self, posting: usize) -> &[u16] {
        self.positions.get(posting)
    }

    /// Returns the bytes it holds on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        // In addition to its text, an `Arc<str>` has two counters.
        let ids: usize = self.documents.iter().map(|entry| entry.id.len() + 16).sum();
        ids + vec_bytes(&self.documents)
            + self.sections.heap_bytes()
            + self.names.heap_bytes()
            + self.terms.heap_bytes()
            + self.vocabulary.heap_bytes()
            + vec_bytes(&self.frequencies)
            + vec_bytes(&self.postings)
            + vec_bytes(&self.slots)
            + vec_bytes(&self.counts)
            + self.positions.heap_bytes()
    }

    /// Releases unused capacity.
    fn shrink(&mut self) {
        self.documents.shrink_to_fit();
        self.sections.shrink();
        self.names.shrink();
        self.terms.shrink();
        self.frequencies.shrink_to_fit();
        self.postings.shrink_to_fit();
        self.slots.shrink_to_fit();
        self.counts.shrink_to_fit();
        self.positions.shrink();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_counts_saturate_separately() {
        let mut counts = FieldCounts::default();
        assert!(counts.is_empty() && counts.is_body_only());
        for _ in 0..2_000 {
            counts.add(4);
        }
        assert!(!counts.is_empty() && counts.is_body_only());
        for _ in 0..2_000 {
            (0..4).for_each(|field| counts.add(field));
        }
        assert_eq!([0, 1, 2, 3, 4].map(|field| counts.get(field)), [15, 127, 15, 127, 1_023]);
        assert!(!counts.is_body_only());
    }
}
