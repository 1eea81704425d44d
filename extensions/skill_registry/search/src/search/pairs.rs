//! Adjacent terms in a document.

use crate::segment::FieldLayout;

/// The occurrences of two adjacent terms in a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PairMatches {
    /// The number of occurrences in the field body.
    pub(super) in_body: u32,
    /// `true` if they occur in name, description or headings.
    pub(super) in_meta: bool,
}

/// Finds the occurrences of a term followed by another, by the ascending positions of both.
pub(super) fn find_pairs(first: &[u16], second: &[u16], layout: FieldLayout) -> PairMatches {
    let mut found = PairMatches::default();
    let mut rest = second.iter().copied().peekable();
    for &position in first {
        let next = position + 1;
        // Both lists ascend, so one pass over each is sufficient.
        while rest.next_if(|other| *other < next).is_some() {}
        match rest.peek() {
            None => break,
            Some(other) if *other != next => {}
            // Fields have gaps between them, so both terms are in the same one.
            Some(_) if position < layout.body => found.in_meta = true,
            Some(_) if next < layout.body_end || position >= layout.tail => found.in_body += 1,
            Some(_) => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_counted_by_field() {
        let layout = FieldLayout { body: 10, body_end: 16, tail: 30 };
        let rows: [(&[u16], &[u16], u32, bool); 8] = [
            (&[], &[1], 0, false),
            (&[1], &[], 0, false),
            (&[1, 8], &[3, 9], 0, true),
            (&[10, 12, 14], &[11, 13, 15], 3, false),
            // The second term is after the field's end.
            (&[15], &[16], 0, false),
            (&[30], &[31], 1, false),
            // A term that follows itself.
            (&[10, 11, 12], &[10, 11, 12], 2, false),
            (&[2, 11], &[1, 3, 12], 1, true),
        ];
        for (first, second, in_body, in_meta) in rows {
            let found = find_pairs(first, second, layout);
            assert_eq!(found, PairMatches { in_body, in_meta }, "{first:?} {second:?}");
        }
    }
}
