//! The index: what documents have which terms, where.

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

/// How many documents may be changed or gone before the index is joined into one segment again; or
/// [`SHARE`] of all, if that is more. Every change costs what the changes since cost, and joining
/// what the whole index costs.
const CHANGES: usize = 64;
/// One in so many documents.
const SHARE: usize = 64;

/// So many documents are read by two threads.
const MANY: usize = 256;

/// Documents, ready to be searched. It never changes; a copy costs a reference count.
///
/// Most documents lie in a large segment, those changed since it was made in a small one, and what
/// they replace is left out of the large one. An index that came about by changes answers exactly
/// like one built at once: scores depend on counts alone, which are kept in whole numbers.
#[derive(Clone)]
pub struct Index {
    pub(crate) state: Arc<IndexState>,
}

/// What an index is made of. Slots are numbered through: those of the base, then of the overlay.
pub(crate) struct IndexState {
    pub(crate) analysis: TextAnalyzer,
    pub(crate) segments: [Arc<IndexSegment>; 2],
    /// For each term of each segment, how many living documents of both have it in a field.
    pub(crate) frequencies: [Arc<Vec<u32>>; 2],
    /// For each slot its document's place in the order of ids, or [`GONE`].
    pub(crate) places: Vec<u32>,
    /// The slots of living documents in the order of their ids.
    pub(crate) by_id: Vec<u32>,
    pub(crate) totals: CorpusTotals,
    /// For the constants of the standard ranker.
    pub(crate) tables: ScoringTables,
}

/// The place of a document that was removed or replaced.
pub(crate) const GONE: u32 = u32::MAX;

const BASE: usize = 0;
const OVERLAY: usize = 1;

impl Index {
    /// Builds the index of a catalog. A later document with the same id replaces the earlier.
    ///
    /// Many documents are read by two threads.
    #[must_use]
    pub fn build<'a>(
        analysis: TextAnalyzer,
        documents: impl IntoIterator<Item = Document<'a>>,
    ) -> Self {
        let documents = last_of_each(documents);
        let segment = if documents.len() < MANY {
            segment_of(analysis, &documents)
        } else {
            let (first, second) = documents.split_at(documents.len() / 2);
            let halves = std::thread::scope(|scope| {
                let first = scope.spawn(|| segment_of(analysis, first));
                let second = segment_of(analysis, second);
                first.join().map(|first| [first, second])
            });
            let halves = halves.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            merge_segments(
                &halves.each_ref().map(|segment| SegmentPart { segment, stays: &|_| true }),
            )
        };
        Self::from_segment(analysis, segment)
    }

    /// Returns the index of a changed catalog: with these documents put in or replaced, and without
    /// those removed. An id that is in both is put in.
    #[must_use]
    pub fn with_updates<'a>(
        &self,
        put: impl IntoIterator<Item = Document<'a>>,
        removed: &[&str],
    ) -> Self {
        let state = &*self.state;
        let put = last_of_each(put);
        let mut places = state.places.clone();
        let ids = put.iter().map(|document| document.id).chain(removed.iter().copied());
        let mut gone: Vec<u32> = ids.filter_map(|id| state.slot(id)).collect();
        gone.sort_unstable();
        gone.dedup();
        if gone.is_empty() && put.is_empty() {
            return self.clone();
        }
        gone.iter().for_each(|&slot| places[slot as usize] = GONE);
        let base = &state.segments[BASE];
        let base_stays = |slot: usize| places[slot] != GONE;
        let overlay_stays = |slot: usize| places[base.len() + slot] != GONE;
        let fresh = segment_of(state.analysis, &put);
        let changed = SegmentPart { segment: &state.segments[OVERLAY], stays: &overlay_stays };
        let overlay = merge_segments(&[changed, SegmentPart { segment: &fresh, stays: &|_| true }]);
        let dead = places[..base.len()].iter().filter(|place| **place == GONE).count();
        if overlay.len() + dead > CHANGES.max(base.len() / SHARE) {
            let base = SegmentPart { segment: base, stays: &base_stays };
            let joined =
                merge_segments(&[base, SegmentPart { segment: &overlay, stays: &|_| true }]);
            return Self::from_segment(state.analysis, joined);
        }
        self.with_overlay(overlay, &gone, places)
    }

    /// The index of one segment.
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

    /// The index with the same base and another overlay; `gone` are the slots that are not in it any
    /// more, which have no place in `places` any more.
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
        let stayed = places[base.len()..].iter().filter(|place| **place != GONE).count();
        (stayed..overlay.len()).for_each(|slot| totals.add(&overlay, slot));
        // What both segments have is counted in both.
        for (number, in_base) in in_both(before, base) {
            frequencies[in_base as usize] -= before.frequencies[number];
        }
        let mut in_overlay = overlay.frequencies.clone();
        for (number, in_base) in in_both(&overlay, base) {
            frequencies[in_base as usize] += overlay.frequencies[number];
            in_overlay[number] = frequencies[in_base as usize];
        }
        places.truncate(base.len());
        places.resize(base.len() + overlay.len(), GONE);
        let segments = [base.clone(), Arc::new(overlay)];
        let id = |slot: &u32| &id_of(&segments, *slot as usize)[..];
        // The order of what stays in the base is known.
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

    /// Returns how many documents it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.by_id.len()
    }

    /// Says whether it has no document.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Says whether it has a document with this id.
    #[must_use]
    pub fn contains(&self, id: &str) -> bool {
        self.state.slot(id).is_some()
    }

    /// Returns the bytes it holds on the heap; copies and older versions may share them.
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
    /// The slot of a living document.
    pub(crate) fn slot(&self, id: &str) -> Option<u32> {
        let at = self.by_id.binary_search_by(|&slot| (**self.id(slot)).cmp(id)).ok()?;
        Some(self.by_id[at])
    }

    /// The id of a document.
    pub(crate) fn id(&self, slot: u32) -> &Arc<str> {
        id_of(&self.segments, slot as usize)
    }

    /// The segment of a slot, which of both it is, and the slot in it.
    pub(crate) fn segment(&self, slot: u32) -> (usize, &IndexSegment, usize) {
        let [base, overlay] = &self.segments;
        match (slot as usize).checked_sub(base.len()) {
            Some(slot) => (OVERLAY, overlay, slot),
            None => (BASE, base, slot as usize),
        }
    }
}

fn id_of(segments: &[Arc<IndexSegment>; 2], slot: usize) -> &Arc<str> {
    let [base, overlay] = segments;
    match slot.checked_sub(base.len()) {
        Some(slot) => &overlay.documents[slot].id,
        None => &base.documents[slot].id,
    }
}

/// The terms that a small segment has in common with a large one: their numbers in both.
fn in_both(small: &IndexSegment, large: &IndexSegment) -> impl Iterator<Item = (usize, u32)> {
    let number = |term| Some((term, large.vocabulary.find(small.vocabulary.get(term))?));
    (0..small.vocabulary.len()).filter_map(number)
}

/// Documents without those that a later one with the same id replaces.
fn last_of_each<'a>(documents: impl IntoIterator<Item = Document<'a>>) -> Vec<Document<'a>> {
    let mut kept: Vec<Document<'a>> = Vec::new();
    let mut places = HashMap::new();
    for document in documents {
        match places.get(document.id) {
            Some(&place) => kept[place] = document,
            None => {
                places.insert(document.id, kept.len());
                kept.push(document);
            }
        }
    }
    kept
}

fn segment_of(analysis: TextAnalyzer, documents: &[Document<'_>]) -> IndexSegment {
    let mut builder = SegmentBuilder::new(analysis);
    documents.iter().for_each(|document| builder.add(document));
    builder.finish()
}
