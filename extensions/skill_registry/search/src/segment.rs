//! A part of the index: documents and, for each term, where it occurs in them.
//!
//! Nothing in a segment depends on other documents (averages and rarities do), so segments are
//! shared between versions of an index and joined without looking at a text again.

mod builder;
mod layout;
mod merge;
mod vocabulary;

use std::ops::Range;
use std::sync::Arc;

pub(crate) use builder::SegmentBuilder;
pub(crate) use layout::SECTIONS;
pub(crate) use merge::{SegmentPart, merge_segments};
pub(crate) use vocabulary::TermDictionary;

use crate::field::{DESCRIPTION, FIELDS, FieldSet, NAME};

/// Documents by slot, terms by number, and postings: for each term the documents that have it.
///
/// Lists of varying length are kept one after the other in one vector, beside a vector of starts
/// that has one entry more than there are lists.
#[derive(Debug, Default)]
pub(crate) struct IndexSegment {
    pub(crate) documents: Vec<DocumentEntry>,
    /// The sections of all documents, as ranges of positions.
    sections: PackedLists<(u16, u16)>,
    /// The distinct terms of each name, in the order of their first occurrence.
    names: PackedLists<u32>,
    /// The distinct terms in the fields of each document: what it adds to document frequencies.
    terms: PackedLists<u32>,
    pub(crate) vocabulary: TermDictionary,
    /// For each term, in how many documents a field has it.
    pub(crate) frequencies: Vec<u32>,
    /// Where the postings of each term start.
    postings: Vec<u32>,
    /// The slot of each posting, ascending within a term.
    slots: Vec<u32>,
    /// How often the fields have the term.
    counts: Vec<FieldCounts>,
    /// The positions of each posting, ascending.
    positions: PackedLists<u16>,
}

/// What is kept of a document beside its terms.
#[derive(Clone, Debug)]
pub(crate) struct DocumentEntry {
    pub(crate) id: Arc<str>,
    /// The number of terms in each field.
    pub(crate) lengths: [u32; FIELDS],
    pub(crate) layout: FieldLayout,
}

/// Where fields lie in the positions of a document: name, description and headings with a gap after
/// each; then the part of the body that has sections, of which the field body is the beginning; then
/// what the field body ends with where its end cuts a term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldLayout {
    /// The first position of the body.
    pub(crate) body: u16,
    /// The first position behind those terms of the body that are of the field.
    pub(crate) body_end: u16,
    /// The first position of the cut end.
    pub(crate) tail: u16,
}

/// How often each field of a document has a term, in one word. A count that is too high for its
/// bits is the highest that they hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldCounts(u32);

impl FieldCounts {
    const BITS: [u32; FIELDS] = [4, 7, 4, 7, 10];
    const SHIFT: [u32; FIELDS] = [0, 4, 11, 15, 22];

    /// Counts one more in a field.
    pub(crate) fn add(&mut self, field: usize) {
        if self.get(field) + 1 < 1 << Self::BITS[field] {
            self.0 += 1 << Self::SHIFT[field];
        }
    }

    /// Returns the count of a field.
    pub(crate) fn get(self, field: usize) -> u32 {
        (self.0 >> Self::SHIFT[field]) & ((1 << Self::BITS[field]) - 1)
    }

    /// Says whether no field has the term: only a section behind the field's end does.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the fields that have the term.
    pub(crate) fn fields(self) -> FieldSet {
        let mut fields = FieldSet::default();
        (0..FIELDS).filter(|field| self.get(*field) > 0).for_each(|field| fields.add(field));
        fields
    }

    /// Says whether the name or the description has the term.
    pub(crate) fn in_summary_fields(self) -> bool {
        self.get(NAME) + self.get(DESCRIPTION) > 0
    }

    /// Says whether no field but the body has the term, as most have it.
    pub(crate) fn is_body_only(self) -> bool {
        self.0 & ((1 << Self::SHIFT[FIELDS - 1]) - 1) == 0
    }
}

/// Lists of varying length, one after the other.
#[derive(Debug)]
struct PackedLists<T> {
    /// Where each list starts; then the end of the last.
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

    /// Ends the list that the items since the last one make up.
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
        bytes(&self.starts) + bytes(&self.items)
    }
}

fn bytes<T>(items: &Vec<T>) -> usize {
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

    /// Returns slot and counts of postings.
    pub(crate) fn occurrences(
        &self,
        postings: Range<usize>,
    ) -> impl Iterator<Item = (u32, FieldCounts)> + '_ {
        let counts = &self.counts[postings.clone()];
        self.slots[postings].iter().copied().zip(counts.iter().copied())
    }

    /// Returns the positions of a posting, ascending. Those of tags are not kept.
    pub(crate) fn positions(&self, posting: usize) -> &[u16] {
        self.positions.get(posting)
    }

    /// Returns the bytes it holds on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        // Beside its text an `Arc<str>` has two counters.
        let ids: usize = self.documents.iter().map(|entry| entry.id.len() + 16).sum();
        ids + bytes(&self.documents)
            + self.sections.heap_bytes()
            + self.names.heap_bytes()
            + self.terms.heap_bytes()
            + self.vocabulary.heap_bytes()
            + bytes(&self.frequencies)
            + bytes(&self.postings)
            + bytes(&self.slots)
            + bytes(&self.counts)
            + self.positions.heap_bytes()
    }

    /// Gives back what was reserved and not needed.
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
    fn counts_saturate_each_on_its_own() {
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
