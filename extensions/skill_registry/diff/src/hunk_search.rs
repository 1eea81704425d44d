//! The search for the positions of hunks.

use std::collections::HashMap;

use crate::lines::{LineEnding, split_lines};
use crate::parse::{Hunk, LineTag};
use crate::{DiffError, FuzzKind};

/// The maximum number of compared lines in the search for all hunks with wrong numbers.
const MAX_COMPARISONS: usize = 10_000_000;

/// The maximum number of ignored outer lines of context.
const MAX_IGNORED: usize = 2;

/// The maximum number of lines used to guess the intended position of a hunk that fits nowhere.
const MAX_GUESS_LINES: usize = 2_000;

/// The maximum number of positions considered for one such line.
const MAX_EQUAL: usize = 200;

/// The number of every line that is not in the base.
const ABSENT: u32 = u32::MAX;

/// The base of a diff; equal lines have equal numbers.
pub(crate) struct BaseText<'t> {
    pub(crate) lines: Vec<(&'t str, LineEnding)>,
    ids: Vec<u32>,
    known: HashMap<&'t str, u32>,
}

impl<'t> BaseText<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        let lines = split_lines(text);
        let mut known = HashMap::new();
        let ids = lines.iter().map(|(line, _)| {
            let next = known.len() as u32;
            *known.entry(*line).or_insert(next)
        });
        Self { ids: ids.collect(), lines, known }
    }

    fn id(&self, line: &str) -> u32 {
        self.known.get(line).copied().unwrap_or(ABSENT)
    }
}

/// The position of a hunk.
pub(crate) struct HunkPlacement {
    /// The first compared line of the base.
    pub(crate) at: usize,
    /// The numbers of ignored lines of context at the start and at the end.
    pub(crate) ignored: (usize, usize),
    pub(crate) notes: Vec<FuzzKind>,
}

/// The first compared line of the base, and the numbers of ignored lines of context at the start
/// and at the end.
type TrimmedMatch = (usize, (usize, usize));

/// One side of a hunk as line numbers of the base.
struct HunkSide<'h> {
    ids: Vec<u32>,
    texts: Vec<&'h str>,
}

impl<'h> HunkSide<'h> {
    fn new(base: &BaseText<'_>, hunk: &Hunk<'h>, without: LineTag) -> Self {
        let lines = hunk.lines.iter().filter(|line| line.tag != without);
        let texts: Vec<&str> = lines.map(|line| line.text).collect();
        Self { ids: texts.iter().map(|text| base.id(text)).collect(), texts }
    }

    fn informative_lines(&self, range: std::ops::Range<usize>) -> usize {
        self.texts[range].iter().filter(|text| !text.trim().is_empty()).count()
    }
}

/// The state of the search through the base, from hunk to hunk.
pub(crate) struct HunkSearch<'b, 't> {
    base: &'b BaseText<'t>,
    work: usize,
    /// The end of the last changed line; from here on, the base is unchanged.
    changed: usize,
    /// The end of the last compared line.
    compared: usize,
    /// The distance of the last hunk from the position in its header.
    offset: i64,
    hunk: usize,
}

impl<'b, 't> HunkSearch<'b, 't> {
    pub(crate) fn new(base: &'b BaseText<'t>) -> Self {
        Self { base, work: MAX_COMPARISONS, changed: 0, compared: 0, offset: 0, hunk: 0 }
    }

    /// Finds the position of the next hunk.
    ///
    /// # Errors
    /// Returns an error if no position fits, if several do, or if the only one is not after the
    /// earlier hunks.
    pub(crate) fn find_placement(&mut self, hunk: &Hunk<'_>) -> Result<HunkPlacement, DiffError> {
        self.hunk += 1;
        let old = HunkSide::new(self.base, hunk, LineTag::Insert);
        if old.ids.is_empty() && !self.base.lines.is_empty() {
            return Err(DiffError::NoContext { hunk: self.hunk });
        }
        // Earlier hunks shift the later ones alike, so their distance is carried over.
        let expected = hunk.start.map(|start| start.max(1) as i64 - 1 + self.offset);
        let outer = OuterContext::from_hunk(hunk);
        let (at, ignored) = match self.find_exact(hunk, &old, &outer, expected)? {
            Some(at) => (at, (0, 0)),
            None => match self.find_trimmed(&old, &outer, expected)? {
                Some(found) => found,
                None => return Err(self.mismatch_error(&old, expected)),
            },
        };
        let mut notes = Vec::new();
        let start = at as i64 - ignored.0 as i64;
        if let (Some(expected), Some(header_line)) = (expected, hunk.start) {
            if expected != start {
                notes.push(FuzzKind::Offset(start - expected));
            }
            self.offset = start + 1 - header_line.max(1) as i64;
        }
        let context = (ignored.0 + ignored.1) as u8;
        if context > 0 {
            notes.push(FuzzKind::Context { ignored: context });
        }
        if at < self.compared {
            notes.push(FuzzKind::Overlap);
        }
        let end = at + old.ids.len() - ignored.0 - ignored.1;
        self.compared = self.compared.max(end);
        // Trailing context may be shared with the next hunk.
        if outer.changes {
            self.changed = end - (outer.trail - ignored.1);
        }
        Ok(HunkPlacement { at, ignored, notes })
    }

    /// Finds the position where all old lines of the hunk match.
    fn find_exact(
        &mut self,
        hunk: &Hunk<'_>,
        old: &HunkSide<'_>,
        outer: &OuterContext,
        expected: Option<i64>,
    ) -> Result<Option<usize>, DiffError> {
        let free = |search: &Self, at: usize| search.is_free(at, outer.lead, outer);
        if let Some(at) = self.fits_at(&old.ids, expected)
            && free(self, at)
        {
            return Ok(Some(at));
        }
        // Only an empty base lets a hunk without old lines get here.
        if old.ids.is_empty() {
            return Ok(Some(0));
        }
        let all = self.find_all(&old.ids)?;
        let possible = all.iter().copied().filter(|at| free(self, *at)).map(|at| at as i64);
        if let Some(at) = self.pick_nearest(&possible.collect::<Vec<_>>(), expected)? {
            return Ok(Some(at as usize));
        }
        if let Some(last) = all.last() {
            return Err(DiffError::OutOfOrder { hunk: self.hunk, line: last + 1 });
        }
        // Less context would let a hunk apply a second time. After a deletion, only the context
        // around the deleted lines is left to recognize it.
        let new = HunkSide::new(self.base, hunk, LineTag::Delete);
        let is_recognizable = outer.inserts || outer.lead > 0 && outer.trail > 0;
        let there = match self.fits_at(&new.ids, expected).filter(|_| outer.inserts) {
            None if is_recognizable && new.informative_lines(0..new.ids.len()) > 1 => {
                self.find_all(&new.ids)?.first().copied()
            }
            there => there,
        };
        match there {
            Some(at) => Err(DiffError::Reversed { hunk: self.hunk, line: at + 1 }),
            None => Ok(None),
        }
    }

    /// Finds the position where all but a few outer lines of context match. It must be the only one,
    /// or exactly the one in the header.
    fn find_trimmed(
        &mut self,
        old: &HunkSide<'_>,
        outer: &OuterContext,
        expected: Option<i64>,
    ) -> Result<Option<TrimmedMatch>, DiffError> {
        for ignored in 1..=MAX_IGNORED {
            let mut found: Vec<(i64, (usize, usize))> = Vec::new();
            for first in (0..=ignored).rev() {
                let (lead, trail) = (first, ignored - first);
                if lead > outer.lead || trail > outer.trail || ignored > old.ids.len() {
                    continue;
                }
                let range = lead..old.ids.len() - trail;
                // Blank lines match in too many positions.
                if old.informative_lines(range.clone()) == 0 {
                    continue;
                }
                for at in self.find_all(&old.ids[range])? {
                    let start = at as i64 - lead as i64;
                    if self.is_free(at, outer.lead - lead, outer)
                        && !found.iter().any(|found| found.0 == start)
                    {
                        found.push((start, (lead, trail)));
                    }
                    // Two positions are ambiguous already; only the one of the header could still decide.
                    if found.len() > 2 * MAX_EQUAL {
                        break;
                    }
                }
            }
            found.sort_by_key(|found| found.0);
            let at_header = found.iter().find(|found| Some(found.0) == expected);
            match (at_header, &found[..]) {
                (Some(&(start, ignored)), _) | (None, &[(start, ignored)]) => {
                    return Ok(Some(((start + ignored.0 as i64) as usize, ignored)));
                }
                (None, []) => {}
                (None, [first, second, ..]) => {
                    return Err(self.ambiguous_error(first.0, second.0));
                }
            }
        }
        Ok(None)
    }

    /// Returns whether the changes of a hunk with its first compared line here follow all others.
    fn is_free(&self, at: usize, lead: usize, outer: &OuterContext) -> bool {
        let first = at + lead;
        // Two insertions at one position are either one hunk or the same one twice.
        first > self.changed
            || first == self.changed && (at >= self.compared || outer.deletes_first)
    }

    fn fits_at(&self, ids: &[u32], at: Option<i64>) -> Option<usize> {
        let at = usize::try_from(at?).ok()?;
        let there = self.base.ids.get(at..at.checked_add(ids.len())?)?;
        (!ids.is_empty() && there == ids).then_some(at)
    }

    /// Returns the only position, or the one nearest to the header's.
    fn pick_nearest(
        &self,
        places: &[i64],
        expected: Option<i64>,
    ) -> Result<Option<i64>, DiffError> {
        let distance = |at: &i64| expected.map_or(0, |expected| expected.abs_diff(*at));
        let Some(best) = places.iter().map(distance).min() else { return Ok(None) };
        let mut equal = places.iter().filter(|at| distance(at) == best);
        match (equal.next(), equal.next()) {
            (Some(first), Some(second)) => Err(self.ambiguous_error(*first, *second)),
            (first, _) => Ok(first.copied()),
        }
    }

    fn ambiguous_error(&self, first: i64, second: i64) -> DiffError {
        let line = |start: i64| (start + 1).max(1) as usize;
        DiffError::Ambiguous { hunk: self.hunk, first: line(first), second: line(second) }
    }

    /// Finds all positions of some lines in linear time (Knuth, Morris and Pratt), because a text
    /// may repeat one line a hundred thousand times.
    fn find_all(&mut self, ids: &[u32]) -> Result<Vec<usize>, DiffError> {
        if ids.is_empty() || ids.contains(&ABSENT) || ids.len() > self.base.ids.len() {
            return Ok(Vec::new());
        }
        let cost = self.base.ids.len() + ids.len();
        let what = "the search for the positions of the hunks";
        // One budget for all hunks: forty thousand small ones would otherwise take hours.
        self.work = self.work.checked_sub(cost).ok_or(DiffError::TooLarge { what })?;
        let mut borders = vec![0; ids.len()];
        let mut matched = 0;
        for at in 1..ids.len() {
            while matched > 0 && ids[at] != ids[matched] {
                matched = borders[matched - 1];
            }
            matched += usize::from(ids[at] == ids[matched]);
            borders[at] = matched;
        }
        let mut places = Vec::new();
        matched = 0;
        for (at, id) in self.base.ids.iter().enumerate() {
            while matched > 0 && *id != ids[matched] {
                matched = borders[matched - 1];
            }
            matched += usize::from(*id == ids[matched]);
            if matched == ids.len() {
                places.push(at + 1 - matched);
                matched = borders[matched - 1];
            }
        }
        Ok(places)
    }

    /// Returns an error with the most likely position of a hunk and the first line that differs there.
    fn mismatch_error(&self, old: &HunkSide<'_>, expected: Option<i64>) -> DiffError {
        let mut positions_by_id: HashMap<u32, Vec<usize>> = HashMap::new();
        let guess_ids = &old.ids[..old.ids.len().min(MAX_GUESS_LINES)];
        positions_by_id
            .extend(guess_ids.iter().filter(|id| **id != ABSENT).map(|id| (*id, Vec::new())));
        for (at, id) in self.base.ids.iter().enumerate() {
            if let Some(places) = positions_by_id.get_mut(id)
                && places.len() < MAX_EQUAL
            {
                places.push(at);
            }
        }
        let mut votes: HashMap<usize, u32> = HashMap::new();
        for (line, id) in guess_ids.iter().enumerate() {
            // Empty lines are frequent and say little about the position.
            let weight = if old.texts[line].trim().is_empty() { 1 } else { 4 };
            let places = positions_by_id.get(id).into_iter().flatten();
            for start in places.filter_map(|at| at.checked_sub(line)) {
                *votes.entry(start).or_default() += weight;
            }
        }
        let header_start = expected.and_then(|at| usize::try_from(at).ok());
        // Votes come first, then the distance to the header's line, so that the result is stable.
        let rank = |(start, votes): &(&usize, &u32)| {
            (
                **votes,
                std::cmp::Reverse((header_start.unwrap_or(**start).abs_diff(**start), **start)),
            )
        };
        let best = votes.iter().max_by_key(rank).filter(|best| *best.1 >= 4).map(|best| *best.0);
        let differs = |start: usize| {
            let there = |line: usize| self.base.ids.get(start + line);
            (0..old.ids.len()).find(|line| there(*line) != Some(&old.ids[*line]))
        };
        let hunk = self.hunk;
        match best.and_then(|start| differs(start).map(|line| (start, line))) {
            Some((start, line)) => DiffError::Mismatch {
                hunk,
                line: start + line + 1,
                expected: old.texts[line].to_owned(),
                found: self.base.lines.get(start + line).map(|line| line.0.to_owned()),
            },
            None => {
                let informative = old.texts.iter().find(|text| !text.trim().is_empty());
                let text = informative.or(old.texts.first()).copied().unwrap_or_default();
                DiffError::Nowhere { hunk, expected: text.to_owned() }
            }
        }
    }
}

/// The context before and after the changes of a hunk.
struct OuterContext {
    lead: usize,
    trail: usize,
    changes: bool,
    inserts: bool,
    deletes_first: bool,
}

impl OuterContext {
    fn from_hunk(hunk: &Hunk<'_>) -> Self {
        let is_change = |tag: LineTag| tag != LineTag::Context;
        let mut tags = hunk.lines.iter().map(|line| line.tag);
        Self {
            lead: tags.clone().take_while(|tag| !is_change(*tag)).count(),
            trail: tags.clone().rev().take_while(|tag| !is_change(*tag)).count(),
            changes: tags.clone().any(is_change),
            inserts: tags.clone().any(|tag| tag == LineTag::Insert),
            deletes_first: tags.find(|tag| is_change(*tag)) != Some(LineTag::Insert),
        }
    }
}
