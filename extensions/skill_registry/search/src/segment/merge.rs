//! The merging of segments, without removed documents.

use super::{FieldCounts, IndexSegment, PackedLists};

/// A segment with a filter for the documents that stay.
pub(crate) struct SegmentPart<'a> {
    pub(crate) segment: &'a IndexSegment,
    /// Returns whether the document of a slot stays.
    pub(crate) stays: &'a dyn Fn(usize) -> bool,
}

/// The marker for a removed document, or for a term without documents.
const GONE: u32 = u32::MAX;

/// Merges segments: the documents that stay, in the order of parts and slots.
pub(crate) fn merge_segments(parts: &[SegmentPart<'_>]) -> IndexSegment {
    let mut merged = IndexSegment::default();
    let mut slots = 0;
    let new_slots: Vec<Vec<u32>> = parts
        .iter()
        .map(|part| {
            let new = |slot| match (part.stays)(slot) {
                true => {
                    slots += 1;
                    slots - 1
                }
                false => GONE,
            };
            (0..part.segment.len()).map(new).collect()
        })
        .collect();
    let new_terms = merge_terms(&mut merged, parts, &new_slots);
    for ((part, new_slots), new_terms) in parts.iter().zip(&new_slots).zip(&new_terms) {
        let segment = part.segment;
        let renumbered = |terms: &[u32], into: &mut PackedLists<u32>| {
            into.push(terms.iter().map(|&term| new_terms[term as usize]));
        };
        for slot in (0..segment.len()).filter(|&slot| new_slots[slot] != GONE) {
            merged.documents.push(segment.documents[slot].clone());
            merged.sections.push(segment.sections(slot).iter().copied());
            renumbered(segment.name(slot), &mut merged.names);
            renumbered(segment.terms(slot), &mut merged.terms);
        }
    }
    merged.shrink();
    merged
}

/// Merges vocabularies and postings; returns the new numbers of the terms of each part.
fn merge_terms(
    merged: &mut IndexSegment,
    parts: &[SegmentPart<'_>],
    new_slots: &[Vec<u32>],
) -> Vec<Vec<u32>> {
    let sum = |of: &dyn Fn(&IndexSegment) -> usize| parts.iter().map(|it| of(it.segment)).sum();
    merged.slots.reserve(sum(&|it| it.slots.len()));
    merged.counts.reserve(sum(&|it| it.slots.len()));
    merged.positions.starts.reserve(sum(&|it| it.slots.len()));
    merged.positions.items.reserve(sum(&|it| it.positions.items.len()));
    let mut new_terms: Vec<Vec<u32>> =
        parts.iter().map(|part| vec![GONE; part.segment.vocabulary.len()]).collect();
    let mut heads = vec![0; parts.len()];
    merged.postings.push(0);
    loop {
        let head = |part: usize| {
            let vocabulary = &parts[part].segment.vocabulary;
            (heads[part] < vocabulary.len()).then(|| vocabulary.get(heads[part]))
        };
        // The vocabularies are sorted, so the smallest head is the next term.
        let Some(term) = (0..parts.len()).filter_map(head).min() else { break };
        let having: Vec<usize> =
            (0..parts.len()).filter(|&part| head(part) == Some(term)).collect();
        let first = merged.slots.len();
        let mut frequency = 0;
        // Slots ascend within a term, because parts are visited in the order of the new slots.
        for &part in &having {
            let segment = parts[part].segment;
            for posting in segment.postings(heads[part] as u32) {
                let slot = new_slots[part][segment.slots[posting] as usize];
                if slot == GONE {
                    continue;
                }
                let counts: FieldCounts = segment.counts[posting];
                frequency += u32::from(!counts.is_empty());
                merged.slots.push(slot);
                merged.counts.push(counts);
                merged.positions.items.extend_from_slice(segment.positions(posting));
                merged.positions.close();
            }
        }
        // A term whose documents are all removed is dropped from the vocabulary.
        let number = match merged.slots.len() > first {
            true => {
                merged.postings.push(merged.slots.len() as u32);
                merged.frequencies.push(frequency);
                merged.vocabulary.push(term)
            }
            false => GONE,
        };
        for part in having {
            new_terms[part][heads[part]] = number;
            heads[part] += 1;
        }
    }
    merged.vocabulary.shrink();
    new_terms
}
