//! The index: documents with the positions of their terms.

mod tables;
mod totals;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

pub(crate) use tables::ScoringTables;
pub(crate) use totals::CorpusTotals;

use crate::segment::{IndexSegment, SegmentBuilder, SegmentPart, merge_segments};
use crate::weights::STANDARD_CONSTANTS;
use crate::{Document, TextAnalyzer};

/// The number of changed or removed documents before the segments are merged, unless
/// [`OVERLAY_SHARE`] allows more. An update costs as much as all changes since the last merge, a
/// merge as much as the complete index.
const MIN_OVERLAY: usize = 64;
/// The divisor of the index size that gives the allowed number of changes of a large index.
const OVERLAY_SHARE: usize = 64;

/// The minimum number of documents for indexing with two threads.
const MIN_PARALLEL: usize = 256;

/// A searchable set of documents. It is immutable, and a clone only increments a reference count.
///
/// Most documents are in a large base segment, later changes in a small overlay, and the documents
/// they replace are skipped in the base. An updated index returns exactly the same results as one
/// built at once: scores depend only on counts, which are integers.
#[derive(Clone)]
pub struct Index {
    pub(crate) state: Arc<IndexState>,
}

/// The state of an index. Slots are numbered consecutively: those of the base, then of the overlay.
pub(crate) struct IndexState {
    pub(crate) analysis: TextAnalyzer,
    pub(crate) segments: [Arc<IndexSegment>; 2],
    /// The number of live documents of both segments with each term of each segment in a field.
    pub(crate) frequencies: [Arc<Vec<u32>>; 2],
    /// The index of each slot's document in the order of ids, or [`GONE`].
    pub(crate) places: Vec<u32>,
    /// The slots of live documents in the order of their ids.
    pub(crate) by_id: Vec<u32>,
    pub(crate) totals: CorpusTotals,
    /// The tables for the constants of the standard ranker.
    pub(crate) tables: ScoringTables,
}

/// The marker in `places` of a document that was removed or replaced.
pub(crate) const GONE: u32 = u32::MAX;

const BASE: usize = 0;
const OVERLAY: usize = 1;

impl Index {
    /// Builds the index of a catalog. A later document with the same id replaces the earlier.
    ///
    /// Large catalogs are indexed by two threads.
    #[must_use]
    pub fn build<'a>(
        analysis: TextAnalyzer,
        documents: impl IntoIterator<Item = Document<'a>>,
    ) -> Self {
        let documents = deduplicate_documents(documents);
        let segment = if documents.len() < MIN_PARALLEL {
            build_segment(analysis, &documents)
        } else {
            let (first, second) = documents.split_at(documents.len() / 2);
            let halves = std::thread::scope(|scope| {
                let first = scope.spawn(|| build_segment(analysis, first));
                let second = build_segment(analysis, second);
                first.join().map(|first| [first, second])
            });
            // A panic of the other thread is passed on as if it had happened here.
            let halves = halves.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            merge_segments(
                &halves.each_ref().map(|segment| SegmentPart { segment, stays: &|_| true }),
            )
        };
        Self::from_segment(analysis, segment)
    }

    /// Returns the index of a changed catalog, with these documents inserted or replaced and the
    /// removed ones deleted. An id in both lists is inserted.
    #[must_use]
    pub fn with_updates<'a>(
        &self,
        put: impl IntoIterator<Item = Document<'a>>,
        removed: &[&str],
    ) -> Self {
        let state = &*self.state;
        let put = deduplicate_documents(put);
        let mut places = state.places.clone();
        let ids = put.iter().map(|document| document.id).chain(removed.iter().copied());
        let mut gone: Vec<u32> = ids.filter_map(|id| state.slot(id)).collect();
        // An id can be both put and removed, and its counts must be subtracted only once.
        gone.sort_unstable();
        gone.dedup();
        if gone.is_empty() && put.is_empty() {
            return self.clone();
        }
        gone.iter().for_each(|&slot| places[slot as usize] = GONE);
        let base = &state.segments[BASE];
        let base_stays = |slot: usize| places[slot] != GONE;
        let overlay_stays = |slot: usize| places[base.len() + slot] != GONE;
        let fresh = build_segment(state.analysis, &put);
        let changed = SegmentPart { segment: &state.segments[OVERLAY], stays: &overlay_stays };
        let overlay = merge_segments(&[changed, SegmentPart { segment: &fresh, stays: &|_| true }]);
        let dead = places[..base.len()].iter().filter(|place| **place == GONE).count();
        if overlay.len() + dead > MIN_OVERLAY.max(base.len() / OVERLAY_SHARE) {
            let base = SegmentPart { segment: base, stays: &base_stays };
            let joined =
                merge_segments(&[base, SegmentPart { segment: &overlay, stays: &|_| true }]);
            return Self::from_segment(state.analysis, joined);
        }
        self.with_overlay(overlay, &gone, places)
    }

    /// Creates the index of one segment.
    fn from_segment(analysis: TextAnalyzer, base: IndexSegment) -> Self {
        let mut by_id: Vec<u32> = (0..base.len() as u32).collect();
        by_id.sort_unstable_by(|&a, &b| {
            base.documents[a as usize].id.cmp(&base.documents[b as usize].id)
        });
        let mut places = vec![GONE; base.len()];
        for (place, slot) in by_id.iter().enumerate() {
            places[*slot as usize] = place as u32;
        }
        let totals = CorpusTotals::from_segment(&base);
        let frequencies = [Arc::new(base.frequencies.clone()), Arc::default()];
        let segments = [Arc::new(base), Arc::default()];
        let tables = ScoringTables::new(&STANDARD_CONSTANTS, &segments, &totals);
        let state = IndexState { analysis, segments, frequencies, places, by_id, totals, tables };
        Self { state: Arc::new(state) }
    }

    /// Creates an index with the same base and another overlay; `gone` are the slots that left it,
    /// already marked in `places`.
    fn with_overlay(&self, overlay: IndexSegment, gone: &[u32], mut places: Vec<u32>) -> Self {
        let state = &*self.state;
        let [base, before] = &state.segments;
        let mut totals = state.totals.clone();
        let mut frequencies = Vec::clone(&state.frequencies[BASE]);
        for slot in gone.iter().map(|&slot| slot as usize) {
            match slot.checked_sub(base.len()) {
                Some(slot) => totals.remove(before, slot),
                None => {
                    totals.remove(base, slot);
                    for &term in base.terms(slot) {
                        frequencies[term as usize] -= 1;
                    }
                }
            }
        }
        // The merged overlay starts with the documents that stayed and are counted already.
        let stayed = places[base.len()..].iter().filter(|place| **place != GONE).count();
        (stayed..overlay.len()).for_each(|slot| totals.add(&overlay, slot));
        // A term of both segments has the total frequency in both lists.
        for (number, in_base) in common_terms(before, base) {
            frequencies[in_base as usize] -= before.frequencies[number];
        }
        let mut in_overlay = overlay.frequencies.clone();
        for (number, in_base) in common_terms(&overlay, base) {
            frequencies[in_base as usize] += overlay.frequencies[number];
            in_overlay[number] = frequencies[in_base as usize];
        }
        places.truncate(base.len());
        places.resize(base.len() + overlay.len(), GONE);
        let segments = [base.clone(), Arc::new(overlay)];
        let id = |slot: &u32| &document_id(&segments, *slot as usize)[..];
        // The documents of the base are sorted already, so only the overlay is sorted and merged in.
        let base_len = base.len() as u32;
        let stays = |slot: &u32| *slot < base_len && places[*slot as usize] != GONE;
        let mut rest = state.by_id.iter().copied().filter(stays).peekable();
        let mut changed: Vec<u32> = (base_len..places.len() as u32).collect();
        changed.sort_unstable_by(|a, b| id(a).cmp(id(b)));
        let mut by_id = Vec::with_capacity(state.by_id.len() + changed.len());
        for slot in changed {
            while let Some(before) = rest.next_if(|other| id(other) < id(&slot)) {
                by_id.push(before);
            }
            by_id.push(slot);
        }
        by_id.extend(rest);
        for (place, slot) in by_id.iter().enumerate() {
            places[*slot as usize] = place as u32;
        }
        let tables = ScoringTables::new(&STANDARD_CONSTANTS, &segments, &totals);
        let frequencies = [Arc::new(frequencies), Arc::new(in_overlay)];
        let analysis = state.analysis;
        let state = IndexState { analysis, segments, frequencies, places, by_id, totals, tables };
        Self { state: Arc::new(state) }
    }

    /// Returns the number of documents.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.by_id.len()
    }

    /// Returns whether the index has no documents.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the index has a document with this id.
    #[must_use]
    pub fn contains(&self, id: &str) -> bool {
        self.state.slot(id).is_some()
    }

    /// Returns the bytes on the heap; clones and older versions may share them.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let state = &*self.state;
        let segments = state.segments.iter().map(|segment| segment.heap_bytes());
        let frequencies = state.frequencies.iter().map(|it| it.capacity() * size_of::<u32>());
        let slots = (state.places.capacity() + state.by_id.capacity()) * size_of::<u32>();
        segments.chain(frequencies).sum::<usize>() + slots + state.tables.heap_bytes()
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl IndexState {
    /// Returns the slot of a live document.
    pub(crate) fn slot(&self, id: &str) -> Option<u32> {
        let at = self.by_id.binary_search_by(|&slot| (**self.id(slot)).cmp(id)).ok()?;
        Some(self.by_id[at])
    }

    /// Returns the id of a document.
    pub(crate) fn id(&self, slot: u32) -> &Arc<str> {
        document_id(&self.segments, slot as usize)
    }

    /// Returns the number of a slot's segment, the segment, and the slot in it.
    pub(crate) fn segment(&self, slot: u32) -> (usize, &IndexSegment, usize) {
        let [base, overlay] = &self.segments;
        match (slot as usize).checked_sub(base.len()) {
            Some(slot) => (OVERLAY, overlay, slot),
            None => (BASE, base, slot as usize),
        }
    }
}

fn document_id(segments: &[Arc<IndexSegment>; 2], slot: usize) -> &Arc<str> {
    let [base, overlay] = segments;
    match slot.checked_sub(base.len()) {
        Some(slot) => &overlay.documents[slot].id,
        None => &base.documents[slot].id,
    }
}

/// Returns the terms of a small segment that a large one has, too, with their numbers in both.
fn common_terms(small: &IndexSegment, large: &IndexSegment) -> impl Iterator<Item = (usize, u32)> {
    let number = |term| Some((term, large.vocabulary.find(small.vocabulary.get(term))?));
    (0..small.vocabulary.len()).filter_map(number)
}

/// Removes documents that a later one with the same id replaces.
fn deduplicate_documents<'a>(
    documents: impl IntoIterator<Item = Document<'a>>,
) -> Vec<Document<'a>> {
    let mut distinct: Vec<Document<'a>> = Vec::new();
    let mut places = HashMap::new();
    for document in documents {
        match places.get(document.id) {
            Some(&place) => distinct[place] = document,
            None => {
                places.insert(document.id, distinct.len());
                distinct.push(document);
            }
        }
    }
    distinct
}

fn build_segment(analysis: TextAnalyzer, documents: &[Document<'_>]) -> IndexSegment {
    let mut builder = SegmentBuilder::new(analysis);
    documents.iter().for_each(|document| builder.add(document));
    builder.finish()
}
