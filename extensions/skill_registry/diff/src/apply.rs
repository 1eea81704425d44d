//! The application of diffs.

use crate::hunk_search::{BaseText, HunkPlacement, HunkSearch};
use crate::lines::{LineEnding, usual_ending};
use crate::parse::{HunkLine, LineTag, parse_diff};
use crate::{DiffError, FuzzKind, FuzzNote, LIMIT, PatchResult};

/// Applies a diff to a text; `path` is the name of the file expected in the diff.
///
/// An empty text is a file that does not exist. Unchanged lines keep their endings; new lines have
/// those of the diff if its old lines end as in the text, otherwise those of their neighbors.
///
/// # Errors
/// Returns an error for a text that is not a diff, is for another file, or does not fit; no hunk is
/// applied then.
pub fn apply_diff(base: &str, diff: &str, path: &str) -> Result<PatchResult, DiffError> {
    if diff.len() > LIMIT {
        return Err(DiffError::TooLarge { what: "the diff" });
    }
    if base.len() > LIMIT {
        return Err(DiffError::TooLarge { what: "the text" });
    }
    if diff.trim().is_empty() {
        return Err(DiffError::Empty);
    }
    let parsed = parse_diff(diff, path)?;
    if parsed.creates && !base.is_empty() {
        return Err(DiffError::Exists);
    }
    if parsed.hunks.is_empty() {
        return Err(DiffError::NoHunks);
    }
    let is_change = |line: &HunkLine<'_>| line.tag != LineTag::Context;
    if !parsed.hunks.iter().any(|hunk| hunk.lines.iter().any(is_change)) {
        return Err(DiffError::OnlyContext);
    }
    let base_lines = BaseText::new(base);
    let mut search = HunkSearch::new(&base_lines);
    let mut new = PatchedText::from_base(&base_lines.lines, parsed.crlf);
    let mut fuzz: Vec<FuzzNote> = Vec::new();
    for (number, hunk) in parsed.hunks.iter().enumerate() {
        let place = search.find_placement(hunk)?;
        new.add(&hunk.lines, &place);
        let notes = hunk.notes.iter().chain(&place.notes);
        let line = place.at + 1;
        fuzz.extend(notes.map(|kind| FuzzNote { hunk: number + 1, kind: *kind, line }));
    }
    let (text, notes) = new.finish();
    if text == base {
        return Err(DiffError::NothingChanges);
    }
    let general = parsed.notes.into_iter().chain(notes);
    let general = general.map(|kind| FuzzNote { hunk: 0, kind, line: 0 });
    Ok(PatchResult { text, fuzz: general.chain(fuzz).collect() })
}

/// The new text under construction.
struct PatchedText<'t> {
    base: &'t [(&'t str, LineEnding)],
    usual: LineEnding,
    lines: Vec<(&'t str, LineEnding)>,
    /// `true` if the last line is a new one.
    ends_new: bool,
    /// The number of processed lines of the base.
    done: usize,
    /// `true` if the line endings of the diff come from its transport.
    crlf: bool,
    line_ends: bool,
    final_newline: bool,
}

impl<'t> PatchedText<'t> {
    fn from_base(base: &'t [(&'t str, LineEnding)], crlf: bool) -> Self {
        let (usual, lines) = (usual_ending(base), Vec::with_capacity(base.len()));
        Self {
            base,
            usual,
            lines,
            ends_new: false,
            done: 0,
            crlf,
            line_ends: false,
            final_newline: false,
        }
    }

    fn add(&mut self, lines: &[HunkLine<'t>], place: &HunkPlacement) {
        let old = lines.iter().filter(|line| line.tag != LineTag::Insert).count();
        let compared = place.ignored.0..old - place.ignored.1;
        let literal = self.compare(lines, place, &compared);
        let (mut at, mut seen) = (place.at, 0);
        for line in lines {
            match line.tag {
                LineTag::Insert => {
                    self.copy_until(at);
                    let end = if literal { line.end } else { self.end_at(at, line.end) };
                    self.lines.push((line.text, end));
                    self.ends_new = true;
                }
                tag => {
                    // Ignored context is not a line of the base at this position.
                    if compared.contains(&seen) {
                        if tag == LineTag::Delete {
                            self.copy_until(at);
                            self.done = at + 1;
                        }
                        at += 1;
                    }
                    seen += 1;
                }
            }
        }
    }

    /// Returns whether the old lines end as in the base, and records the differences.
    fn compare(
        &mut self,
        lines: &[HunkLine<'t>],
        place: &HunkPlacement,
        compared: &std::ops::Range<usize>,
    ) -> bool {
        if self.base.is_empty() {
            self.line_ends |= self.crlf;
            return !self.crlf;
        }
        let old = lines.iter().filter(|line| line.tag != LineTag::Insert);
        let old = old.skip(compared.start).take(compared.len());
        let mut literal = true;
        for (line, there) in old.zip(&self.base[place.at..]) {
            if line.end == there.1 {
                continue;
            }
            literal = false;
            match line.end == LineEnding::None || there.1 == LineEnding::None {
                true => self.final_newline = true,
                false => self.line_ends = true,
            }
        }
        literal
    }

    /// Returns the ending of a new line before a line of the base.
    fn end_at(&self, at: usize, diff_ending: LineEnding) -> LineEnding {
        let before = at.checked_sub(1).and_then(|before| self.base.get(before));
        // Mixed endings are kept: a new line takes that of the line before it.
        let near = [before, self.base.get(at)].into_iter().flatten().map(|line| line.1);
        match diff_ending {
            LineEnding::None => LineEnding::None,
            _ => near.into_iter().find(|end| *end != LineEnding::None).unwrap_or(self.usual),
        }
    }

    fn copy_until(&mut self, at: usize) {
        if at > self.done {
            self.lines.extend_from_slice(&self.base[self.done..at]);
            (self.done, self.ends_new) = (at, false);
        }
    }

    fn finish(mut self) -> (String, Vec<FuzzKind>) {
        self.copy_until(self.base.len());
        let last = self.lines.len().saturating_sub(1);
        for (at, line) in self.lines.iter_mut().enumerate() {
            // A line without newline in the middle would merge with the next one.
            if at < last && line.1 == LineEnding::None {
                (line.1, self.final_newline) = (self.usual, true);
            }
        }
        if let (Some(line), Some(was)) = (self.lines.last_mut(), self.base.last())
            && self.final_newline
            && self.ends_new
        {
            line.1 = match was.1 {
                // Without its newline, an empty line would vanish.
                LineEnding::None if line.0.is_empty() => self.usual,
                LineEnding::None => LineEnding::None,
                _ if line.1 == LineEnding::None => self.usual,
                _ => line.1,
            };
        }
        let mut text = String::new();
        for (line, end) in &self.lines {
            text.push_str(line);
            text.push_str(end.as_str());
        }
        let notes =
            [(self.line_ends, FuzzKind::LineEnds), (self.final_newline, FuzzKind::FinalNewline)];
        (text, notes.into_iter().filter(|note| note.0).map(|note| note.1).collect())
    }
}
