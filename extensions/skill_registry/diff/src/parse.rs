//! The parser of diffs as models write them.
//!
//! The first character of a line decides its meaning; where two readings are possible, the counts of
//! the hunk's header decide: `--- x` is a deleted `-- x` as long as lines are due, and the name of a
//! file afterwards.

use crate::lines::{LineEnding, split_lines};
use crate::names::{self, NameMatch};
use crate::{DiffError, FuzzKind};

/// The part of a diff about one file.
#[derive(Debug, Default)]
pub(crate) struct ParsedDiff<'d> {
    pub(crate) hunks: Vec<Hunk<'d>>,
    /// The deviations around the hunks.
    pub(crate) notes: Vec<FuzzKind>,
    /// `true` if the diff creates the file.
    pub(crate) creates: bool,
    /// `true` if all lines of the diff end with CRLF, probably from its transport.
    pub(crate) crlf: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Hunk<'d> {
    /// The first line in the base according to the header, counted from 1.
    pub(crate) start: Option<usize>,
    pub(crate) lines: Vec<HunkLine<'d>>,
    pub(crate) notes: Vec<FuzzKind>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct HunkLine<'d> {
    pub(crate) tag: LineTag,
    pub(crate) text: &'d str,
    pub(crate) end: LineEnding,
    /// `true` for an empty line that has lost its first character.
    bare: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineTag {
    Context,
    Delete,
    Insert,
}

/// The numbers of a hunk's header: the first line and the counts of both sides.
#[derive(Clone, Copy)]
pub(crate) struct HunkHeader {
    start: usize,
    pub(crate) old: usize,
    pub(crate) new: usize,
}

/// The file names in a part of a diff.
#[derive(Default)]
struct DiffSection {
    names: Vec<String>,
    /// `true` if git's lines about the file may follow.
    git: bool,
}

struct DiffParser<'d, 'p> {
    diff: &'d str,
    lines: Vec<(&'d str, LineEnding)>,
    at: usize,
    path: &'p str,
    parsed: ParsedDiff<'d>,
    /// The fence that is open, without its info string.
    fence: Option<&'d str>,
    section: DiffSection,
    /// All names in the diff except `/dev/null`.
    named: Vec<String>,
    /// `true` if a hunk may start without a header.
    headless: bool,
    /// The line after a hunk that may have more lines.
    loose_end: Option<usize>,
}

/// Parses a diff for a path.
pub(crate) fn parse_diff<'d>(diff: &'d str, path: &str) -> Result<ParsedDiff<'d>, DiffError> {
    let lines = split_lines(diff);
    // Generated headers end with LF for any text, so CRLF everywhere is from the transport.
    let crlf = lines.iter().all(|line| line.1 != LineEnding::Lf);
    let mut parser = DiffParser {
        diff,
        lines,
        at: 0,
        path,
        parsed: ParsedDiff { crlf, ..ParsedDiff::default() },
        fence: None,
        section: DiffSection::default(),
        named: Vec::new(),
        headless: false,
        loose_end: None,
    };
    parser.headless = parser.is_bare_hunk();
    while parser.at < parser.lines.len() {
        parser.step()?;
    }
    parser.check_names()?;
    Ok(parser.parsed)
}

impl<'d> DiffParser<'d, '_> {
    fn line(&self, at: usize) -> &'d str {
        self.lines.get(at).map_or("", |line| line.0)
    }

    fn note(&mut self, kind: FuzzKind) {
        if !self.parsed.notes.contains(&kind) {
            self.parsed.notes.push(kind);
        }
    }

    /// Reads a line outside of hunks.
    fn step(&mut self) -> Result<(), DiffError> {
        let line = self.line(self.at);
        if line.starts_with("@@@") {
            return Err(DiffError::Combined);
        }
        if line.starts_with("@@") {
            self.at += 1;
            return self.read_hunk(Some(line));
        }
        if self.headless && !self.is_header(self.at) && is_body(line) && !line.trim().is_empty() {
            return self.read_hunk(None);
        }
        if self.is_header(self.at) {
            return self.read_header();
        }
        self.at += 1;
        if line.trim().is_empty() {
            return Ok(());
        }
        if let Some(mark) = fence_mark(line) {
            self.note(FuzzKind::Fences);
            self.fence = match self.fence {
                Some(open) if closes_fence(line, open) => None,
                open => open.or(Some(mark)),
            };
            self.headless = self.fence.is_some() && self.is_bare_hunk();
            return self.check_nothing_after_fence();
        }
        if let Some(both) = line.strip_prefix("diff --git ") {
            self.open_section(names::parse_git_names(both).into_iter().flat_map(|(a, b)| [a, b]));
            (self.section.git, self.headless) = (true, false);
            return Ok(());
        }
        if line.starts_with("Binary files ") && line.ends_with(" differ")
            || line == "GIT binary patch"
        {
            return Err(DiffError::Binary);
        }
        if let Some(rest) = line.strip_prefix("*** ") {
            return self.read_mark(rest);
        }
        if self.section.git && self.read_git_line(line)? {
            return Ok(());
        }
        self.headless = false;
        self.note(FuzzKind::Prose);
        Ok(())
    }

    /// Reads a line of git between the names and the hunks; returns whether it was one.
    fn read_git_line(&mut self, line: &str) -> Result<bool, DiffError> {
        let starts = |starts: &[&str]| starts.iter().any(|start| line.starts_with(start));
        if starts(&["rename from ", "rename to ", "copy from ", "copy to "]) {
            return Err(DiffError::Rename { named: self.section.names.clone() });
        }
        if starts(&["deleted file mode "]) {
            return self.prefer_specific_error(DiffError::Deletion).map(|()| true);
        }
        if starts(&["new file mode "]) {
            self.parsed.creates = true;
            return Ok(true);
        }
        Ok(starts(&["index ", "old mode ", "new mode ", "similarity ", "dissimilarity "]))
    }

    /// Reads a line with the mark `*** ` of another patch format with the same hunks.
    fn read_mark(&mut self, rest: &str) -> Result<(), DiffError> {
        let name = |verb: &str| rest.strip_prefix(verb).map(names::parse_name);
        if let Some(name) = name("Update File: ") {
            self.open_section([name]);
        } else if let Some(name) = name("Add File: ") {
            self.open_section([name]);
            self.parsed.creates = true;
        } else if let Some(name) = name("Delete File: ") {
            self.open_section([name]);
            return self.prefer_specific_error(DiffError::Deletion);
        } else if let Some(name) = name("Move to: ") {
            self.section.names.push(name);
            return Err(DiffError::Rename { named: self.section.names.clone() });
        }
        self.note(FuzzKind::Fences);
        Ok(())
    }

    /// Returns the error, or a more specific one if the diff is for other files.
    fn prefer_specific_error(&mut self, error: DiffError) -> Result<(), DiffError> {
        self.check_names()?;
        Err(error)
    }

    fn open_section(&mut self, names: impl IntoIterator<Item = String>) {
        self.section = DiffSection { names: names.into_iter().collect(), git: false };
        self.named.extend(self.section.names.iter().cloned());
        self.headless = true;
    }

    /// Returns whether the names of a file start at a line.
    fn is_header(&self, at: usize) -> bool {
        let (line, next) = (self.line(at), self.line(at + 1));
        let (old, new) = (is_side(line, "---"), is_side(line, "+++"));
        old && (is_side(next, "+++") || next.starts_with("@@")) || new && next.starts_with("@@")
    }

    /// Reads the names of a file.
    fn read_header(&mut self) -> Result<(), DiffError> {
        let mut sides = Vec::new();
        while sides.len() < 2 {
            let line = self.line(self.at);
            let side = if sides.is_empty() && is_side(line, "---") { "---" } else { "+++" };
            if !is_side(line, side) {
                break;
            }
            sides.push(names::parse_name(line[side.len()..].trim_start_matches(' ')));
            self.at += 1;
        }
        let real: Vec<String> =
            sides.iter().filter(|name| *name != names::NOWHERE).cloned().collect();
        // The old side `/dev/null` creates the file, the new side deletes it.
        let [creates, deletes] = [sides.first(), sides.last()]
            .map(|name| name.is_some_and(|name| name == names::NOWHERE));
        self.parsed.creates |= creates && !real.is_empty();
        self.open_section(real);
        if deletes && sides.len() == 2 {
            return self.prefer_specific_error(DiffError::Deletion);
        }
        let fits: Vec<NameMatch> =
            self.section.names.iter().map(|name| names::match_name(name, self.path)).collect();
        if let [old, new] = fits[..]
            && (old == NameMatch::Other) != (new == NameMatch::Other)
        {
            return Err(DiffError::Rename { named: self.section.names.clone() });
        }
        Ok(())
    }

    /// Returns an error unless the diff is only for the path.
    fn check_names(&mut self) -> Result<(), DiffError> {
        let mut files: Vec<&String> = Vec::new();
        let mut worst = NameMatch::Exact;
        for name in &self.named {
            let fit = names::match_name(name, self.path);
            worst = worst.min(fit);
            let same = |known: &&String| {
                strip_side(known) == strip_side(name)
                    || fit != NameMatch::Other
                        && names::match_name(known, self.path) != NameMatch::Other
            };
            // The first few files are enough to reject a diff of thousands of them.
            if files.len() < 16 && !files.iter().any(same) {
                files.push(name);
            }
        }
        let named = || files.iter().map(|name| strip_side(name).to_owned()).collect();
        match files[..] {
            [_, _, ..] => return Err(DiffError::SeveralFiles { named: named() }),
            [name] if worst == NameMatch::Other => {
                return Err(DiffError::OtherFile { named: strip_side(name).to_owned() });
            }
            _ => {}
        }
        if worst == NameMatch::Loose {
            self.note(FuzzKind::FileName);
        }
        Ok(())
    }

    /// Returns whether only lines of a hunk without header follow, up to the end of the fence or of
    /// the diff.
    fn is_bare_hunk(&self) -> bool {
        let until =
            |line: &&(&str, LineEnding)| !self.fence.is_some_and(|open| closes_fence(line.0, open));
        let rest = || self.lines[self.at..].iter().take_while(until).map(|line| line.0);
        let Some(first) = rest().position(|line| !line.trim().is_empty()) else { return false };
        !self.is_header(self.at + first)
            && rest().all(is_body)
            && rest().any(|line| line.starts_with(['-', '+']))
    }

    /// Returns an error if changes follow a fence within a hunk: the fence may be one of its lines.
    fn check_nothing_after_fence(&self) -> Result<(), DiffError> {
        if self.headless || self.loose_end != Some(self.at - 1) {
            return Ok(());
        }
        let is_more = |at: &usize| {
            let line = self.line(*at);
            !line.is_empty() && is_body(line) && !self.is_header(*at)
        };
        let mut rest = (self.at..self.lines.len()).take_while(is_more);
        match rest.any(|at| self.line(at).starts_with(['-', '+'])) {
            true => Err(self.malformed_error(self.at - 1)),
            false => Ok(()),
        }
    }

    fn malformed_error(&self, at: usize) -> DiffError {
        DiffError::Malformed { line: at + 1, text: self.line(at).to_owned() }
    }

    /// Reads the lines of a hunk.
    fn read_hunk(&mut self, header: Option<&str>) -> Result<(), DiffError> {
        let numbers = header.and_then(parse_hunk_header);
        let mut hunk = Hunk { start: numbers.map(|numbers| numbers.start), ..Hunk::default() };
        if numbers.is_none() {
            hunk.notes.push(FuzzKind::NoNumbers);
        }
        let mut due = numbers.map(|numbers| (numbers.old as i64, numbers.new as i64));
        // Signed counts: a header may count fewer lines than follow.
        while let Some(&(line, end)) = self.lines.get(self.at) {
            let (tag, text, bare) = match line.as_bytes().first() {
                None => (LineTag::Context, line, true),
                _ if self.ends_hunk(line, due) => break,
                Some(b' ') => (LineTag::Context, &line[1..], false),
                Some(b'-') => (LineTag::Delete, &line[1..], false),
                Some(b'+') => (LineTag::Insert, &line[1..], false),
                Some(b'\\') => {
                    self.remove_newline(&mut hunk.lines);
                    self.at += 1;
                    continue;
                }
                Some(_) => {
                    // A hunk that is complete without its last blank lines ends before this line.
                    let blanks =
                        numbers.is_some_and(|due| trailing_blank_count(&hunk.lines, due).is_some());
                    if !blanks && self.changes_follow() {
                        return Err(self.malformed_error(self.at));
                    }
                    break;
                }
            };
            if let Some((old, new)) = &mut due {
                *old -= i64::from(tag != LineTag::Insert);
                *new -= i64::from(tag != LineTag::Delete);
            }
            // A missing newline at the end of the diff does not mean one is missing in the text.
            let end = match end {
                LineEnding::None => hunk.lines.last().map_or(LineEnding::Lf, |line| line.end),
                end => end,
            };
            hunk.lines.push(HunkLine { tag, text, end, bare });
            self.at += 1;
        }
        self.headless = false;
        self.loose_end = finish_hunk(&mut hunk, numbers).then_some(self.at);
        if !hunk.lines.is_empty() {
            self.parsed.hunks.push(hunk);
        }
        Ok(())
    }

    /// Returns whether a line that is not empty ends a hunk with these numbers of due lines.
    fn ends_hunk(&self, line: &str, due: Option<(i64, i64)>) -> bool {
        if line.starts_with("@@") || line.starts_with("diff --git ") || line.starts_with("*** ") {
            return true;
        }
        if fence_mark(line).is_some() {
            return self.fence.is_none_or(|open| closes_fence(line, open))
                && !line.starts_with(' ');
        }
        let complete = due.is_some_and(|(old, new)| old <= 0 && new <= 0);
        // `git format-patch` ends a mail with `-- ` and its version.
        if complete && line.trim_end() == "--" && self.lines.len() - self.at <= 4 {
            return true;
        }
        if !self.is_header(self.at) || !line.starts_with("---") {
            return false;
        }
        match due {
            Some(due) if !complete => {
                self.line(self.at + 2).starts_with("@@") && due != (1, 1)
                    || self.line(self.at + 1).starts_with("@@") && due != (1, 0)
            }
            Some(_) => true,
            None => is_side(self.line(self.at + 1), "+++"),
        }
    }

    /// Removes the newline of the last line.
    fn remove_newline(&self, lines: &mut [HunkLine<'d>]) {
        let Some(last) = lines.last_mut() else { return };
        if last.end == LineEnding::CrLf && !self.parsed.crlf {
            // Without a newline after it, the `\r` belongs to the line.
            let start = last.text.as_ptr() as usize - self.diff.as_ptr() as usize;
            last.text = &self.diff[start..=start + last.text.len()];
        }
        last.end = LineEnding::None;
    }

    /// Returns whether changes follow before the next hunk, file or fence.
    fn changes_follow(&self) -> bool {
        let ends = |at: &usize| {
            let line = self.line(*at);
            line.starts_with("@@")
                || line.starts_with("diff --git ")
                || line.starts_with("*** ")
                || fence_mark(line).is_some()
                || self.is_header(*at)
        };
        let rest = (self.at..self.lines.len()).take_while(|at| !ends(at));
        rest.into_iter().any(|at| self.line(at).starts_with(['-', '+']))
    }
}

/// Returns a name without the prefix of its side.
fn strip_side(name: &str) -> &str {
    ["a/", "b/"].into_iter().find_map(|side| name.strip_prefix(side)).unwrap_or(name)
}

/// Returns whether a line can belong to a hunk.
fn is_body(line: &str) -> bool {
    line.is_empty() || line.starts_with([' ', '-', '+', '\\'])
}

/// Returns whether a line names a side: `--- name`.
pub(crate) fn is_side(line: &str, side: &str) -> bool {
    line.strip_prefix(side).is_some_and(|rest| rest.starts_with([' ', '\t']))
        && !line[side.len()..].trim().is_empty()
}

/// Returns the characters of a Markdown fence.
fn fence_mark(line: &str) -> Option<&str> {
    let text = line.trim_start_matches(' ');
    let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let rest = text.trim_start_matches(mark);
    let len = text.len() - rest.len();
    (len >= 3 && line.len() - text.len() <= 3).then(|| &text[..len])
}

fn closes_fence(line: &str, open: &str) -> bool {
    // A closing fence has no info string.
    let is_bare = line.trim().trim_matches(|c| open.starts_with(c)).is_empty();
    is_bare && fence_mark(line).is_some_and(|mark| mark.starts_with(open))
}

/// Parses `@@ -1,3 +1,4 @@`; `None` if a number is missing.
pub(crate) fn parse_hunk_header(header: &str) -> Option<HunkHeader> {
    let mut words = header.trim_start_matches('@').split('@').next()?.split_whitespace();
    let mut side = |sign| -> Option<(usize, usize)> {
        let word = words.next()?.strip_prefix(sign)?;
        let (start, count) = word.split_once(',').unwrap_or((word, "1"));
        Some((start.parse().ok()?, count.parse().ok()?))
    };
    let ((start, old), (_, new)) = (side('-')?, side('+')?);
    Some(HunkHeader { start, old, new })
}

/// Returns the number of trailing empty lines that make the hunk as long as its header says; the
/// others are the space after the hunk. `None` if no number fits.
fn trailing_blank_count(lines: &[HunkLine<'_>], numbers: HunkHeader) -> Option<usize> {
    let bare = lines.iter().rev().take_while(|line| line.bare).count();
    let count = |not| lines.iter().filter(|line| line.tag != not).count();
    let (old, new) = (count(LineTag::Insert) - bare, count(LineTag::Delete) - bare);
    (0..=bare).find(|count| (old + count, new + count) == (numbers.old, numbers.new))
}

/// Removes trailing blank lines after a hunk and adds its notes; returns whether the hunk may have
/// more lines, because its header does not confirm the count.
fn finish_hunk(hunk: &mut Hunk<'_>, numbers: Option<HunkHeader>) -> bool {
    let blanks = numbers.and_then(|numbers| trailing_blank_count(&hunk.lines, numbers));
    let bare = hunk.lines.iter().rev().take_while(|line| line.bare).count();
    hunk.lines.truncate(hunk.lines.len() - bare + blanks.unwrap_or_default());
    if numbers.is_some() && blanks.is_none() {
        hunk.notes.push(FuzzKind::Counts);
    }
    match hunk.lines.iter().filter(|line| line.bare).count() {
        0 => {}
        lines => hunk.notes.push(FuzzKind::Blanks { lines }),
    }
    blanks.is_none()
}
