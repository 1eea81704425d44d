//! Finds the frontmatter's fences: the two lines of `---`.

use std::ops::Range;

use crate::diagnostic::Diagnostic;
use crate::text::{UTF8_BOM, is_utf16};

/// The largest frontmatter that is read, in bytes, fences included.
pub const FRONTMATTER_LIMIT: usize = 64 << 10;

/// Tells a reader that reads piece by piece whether it has the whole frontmatter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadStatus {
    /// The first this many bytes hold the whole frontmatter with its closing fence line.
    Complete(usize),
    /// Not decided yet: read on, and parse what there is at the end of the file.
    NeedMore,
    /// There is no opening fence, or no closing one within [`FRONTMATTER_LIMIT`].
    Absent,
}

/// Looks for the frontmatter in the first bytes of a file.
///
/// The opening fence is the first line that is not blank, if that line is `---`; the closing fence
/// is the next line that is `---`; blanks after either are allowed. The answer for UTF-16 is
/// always [`HeadStatus::NeedMore`], because only the whole file can be decoded.
#[must_use]
pub fn find_head(bytes: &[u8]) -> HeadStatus {
    if is_utf16(bytes) || matches!(bytes, [0xEF] | [0xEF, 0xBB] | [0xFF | 0xFE]) {
        return HeadStatus::NeedMore;
    }
    let mark = if bytes.starts_with(UTF8_BOM) { UTF8_BOM.len() } else { 0 };
    match scan_fences(&bytes[mark..], InputEnd::Unknown) {
        FenceSearch::Both(fences) => HeadStatus::Complete(mark + fences.body_start),
        FenceSearch::Undecided => HeadStatus::NeedMore,
        FenceSearch::Nothing { .. }
        | FenceSearch::Unclosed { .. }
        | FenceSearch::TooLarge { .. } => HeadStatus::Absent,
    }
}

/// The fences of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontmatterFences {
    /// The bytes between them.
    pub yaml: Range<usize>,
    /// Where the body starts: behind the line of the closing fence.
    pub body_start: usize,
    /// The line of the opening fence, counted from 1.
    pub open_line: u32,
    /// The lines of the fences that have blanks after the dashes.
    pub(crate) padded: [Option<u32>; 2],
}

/// Finds the fences in the decoded text of a whole file; nothing if there are not both of them.
#[must_use]
pub fn find_fences(text: &str) -> Option<FrontmatterFences> {
    match scan_fences(text.as_bytes(), InputEnd::File) {
        FenceSearch::Both(fences) => Some(fences),
        _ => None,
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FenceSearch {
    Both(FrontmatterFences),
    /// The first line that is not blank is not a fence; zero if there is none.
    Nothing {
        line: u32,
    },
    Unclosed {
        open_line: u32,
    },
    TooLarge {
        open_line: u32,
    },
    /// The bytes end too early; only with [`InputEnd::Unknown`].
    Undecided,
}

/// Whether the bytes are known to end where the file ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputEnd {
    File,
    Unknown,
}

/// Finds the fences in a file without byte order mark.
pub(crate) fn scan_fences(bytes: &[u8], end: InputEnd) -> FenceSearch {
    let mut lines = ByteLines { bytes, at: 0, number: 0 };
    let (open_line, open_padded) = loop {
        let Some(line) = lines.next() else {
            return undecided(end, bytes, FenceSearch::Nothing { line: 0 });
        };
        if !line.complete && end == InputEnd::Unknown {
            let nothing = FenceSearch::Nothing { line: lines.number };
            return if may_become_fence(line.content) {
                undecided(end, bytes, nothing)
            } else {
                nothing
            };
        }
        match classify_fence(line.content) {
            Some(padded) => break (lines.number, padded),
            None if line.content.iter().all(|byte| is_blank(*byte)) => {}
            None => return FenceSearch::Nothing { line: lines.number },
        }
    };
    let yaml_start = lines.at;
    loop {
        let line_start = lines.at;
        if line_start > FRONTMATTER_LIMIT {
            return FenceSearch::TooLarge { open_line };
        }
        let Some(line) = lines.next() else {
            return undecided(end, bytes, FenceSearch::Unclosed { open_line });
        };
        let Some(padded) = classify_fence(line.content) else { continue };
        if !line.complete && end == InputEnd::Unknown {
            return undecided(end, bytes, FenceSearch::Unclosed { open_line });
        }
        if lines.at > FRONTMATTER_LIMIT {
            return FenceSearch::TooLarge { open_line };
        }
        return FenceSearch::Both(FrontmatterFences {
            yaml: yaml_start..line_start,
            body_start: lines.at,
            open_line,
            padded: [open_padded.then_some(open_line), padded.then_some(lines.number)],
        });
    }
}

fn undecided(end: InputEnd, bytes: &[u8], at_end: FenceSearch) -> FenceSearch {
    match end {
        InputEnd::Unknown if bytes.len() <= FRONTMATTER_LIMIT => FenceSearch::Undecided,
        _ => at_end,
    }
}

/// Tells whether a line is a fence, and then whether blanks follow the dashes.
fn classify_fence(line: &[u8]) -> Option<bool> {
    let rest = line.strip_prefix(b"---")?;
    let rest = rest.strip_suffix(b"\r").unwrap_or(rest);
    rest.iter().all(|byte| is_blank(*byte)).then_some(!rest.is_empty())
}

/// Tells whether a first line that is not complete could still turn out blank or a fence.
fn may_become_fence(line: &[u8]) -> bool {
    b"---".starts_with(line)
        || classify_fence(line).is_some()
        || line.iter().all(|byte| is_blank(*byte))
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}

struct ByteLines<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The number of the line last returned, counted from 1.
    number: u32,
}

struct ByteLine<'a> {
    /// The line without its `\n`; a `\r` before that is still there.
    content: &'a [u8],
    complete: bool,
}

impl<'a> Iterator for ByteLines<'a> {
    type Item = ByteLine<'a>;

    fn next(&mut self) -> Option<ByteLine<'a>> {
        let rest = &self.bytes[self.at..];
        if rest.is_empty() {
            return None;
        }
        self.number += 1;
        Some(match rest.iter().position(|&byte| byte == b'\n') {
            Some(length) => {
                self.at += length + 1;
                ByteLine { content: &rest[..length], complete: true }
            }
            None => {
                self.at = self.bytes.len();
                ByteLine { content: rest, complete: false }
            }
        })
    }
}

impl FenceSearch {
    /// Reports what keeps the file from being a skill or is odd about its fences.
    pub(crate) fn report(&self, diagnostics: &mut Vec<Diagnostic>) {
        let start = "start the file with a line `---`, then `name:` and `description:`, then a \
                     line `---`";
        match self {
            Self::Both(fences) => fences.report(diagnostics),
            Self::Nothing { line: 0 } | Self::Undecided => diagnostics.push(
                Diagnostic::error("frontmatter.missing", "the file is empty").with_help(start),
            ),
            Self::Nothing { line } => diagnostics.push(
                Diagnostic::error("frontmatter.missing", "the file does not start with `---`")
                    .with_position(*line, 1)
                    .with_help(start),
            ),
            Self::Unclosed { open_line } => diagnostics.push(
                Diagnostic::error(
                    "frontmatter.unclosed",
                    "the frontmatter has no closing line `---`",
                )
                .with_position(*open_line, 1)
                .with_help("add a line that is exactly `---` after the last field"),
            ),
            Self::TooLarge { open_line } => diagnostics.push(
                Diagnostic::error(
                    "frontmatter.maxSize",
                    format!("no closing line `---` within {FRONTMATTER_LIMIT} bytes"),
                )
                .with_position(*open_line, 1)
                .with_help("close the frontmatter with a line `---`, or shorten it"),
            ),
        }
    }
}

impl FrontmatterFences {
    /// Takes fences that were found by other rules than those of [`find_fences`].
    ///
    /// `yaml` are the bytes between them, `body_start` is behind the closing one, and the opening
    /// one is on line `open_line`.
    #[must_use]
    pub fn new(yaml: Range<usize>, body_start: usize, open_line: u32) -> Self {
        Self { yaml, body_start, open_line, padded: [None, None] }
    }

    /// Reports what is odd about the fences.
    pub(crate) fn report(&self, diagnostics: &mut Vec<Diagnostic>) {
        if self.open_line > 1 {
            diagnostics.push(
                Diagnostic::warning(
                    "frontmatter.leadingBlank",
                    "there are blank lines before the opening `---`",
                )
                .with_position(1, 1)
                .with_help("start the file with `---`; other readers find no frontmatter"),
            );
        }
        for line in self.padded.into_iter().flatten() {
            diagnostics.push(
                Diagnostic::warning(
                    "frontmatter.fenceWhitespace",
                    "there are blanks after the dashes of this line",
                )
                .with_position(line, 4)
                .with_help("remove them; other readers find no frontmatter"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_knows_when_to_stop() {
        let cases: [(&str, HeadStatus); 17] = [
            ("", HeadStatus::NeedMore),
            ("-", HeadStatus::NeedMore),
            ("---", HeadStatus::NeedMore),
            ("--- ", HeadStatus::NeedMore),
            ("\n \t\n", HeadStatus::NeedMore),
            ("----", HeadStatus::Absent),
            ("x", HeadStatus::Absent),
            ("# Title\n---\n---\n", HeadStatus::Absent),
            ("---x\n", HeadStatus::Absent),
            ("---\n", HeadStatus::NeedMore),
            ("---\na: b\n---", HeadStatus::NeedMore),
            ("---\na: b\n--- x\n", HeadStatus::NeedMore),
            ("---\na: b\n ---\n", HeadStatus::NeedMore),
            ("---\na: b---\n---\nbody", HeadStatus::Complete(16)),
            ("---\r\na: b\r\n--- \r\nbody", HeadStatus::Complete(17)),
            ("\n\n---\n---\n---\n", HeadStatus::Complete(10)),
            ("\u{FEFF}---\n---\n", HeadStatus::Complete(11)),
        ];
        for (text, expected) in cases {
            assert_eq!(find_head(text.as_bytes()), expected, "{text:?}");
        }
        assert_eq!(find_head(b"\xEF\xBB"), HeadStatus::NeedMore);
        assert_eq!(find_head(b"\xFF\xFE-\0-\0-\0\n\0"), HeadStatus::NeedMore);
    }

    #[test]
    fn every_prefix_needs_more_until_the_fence_is_whole() {
        let text = "\n---  \nname: x\ndescription: a --- b\n---\r\n";
        for length in 0..text.len() {
            assert_eq!(find_head(&text.as_bytes()[..length]), HeadStatus::NeedMore, "{length}");
        }
        for tail in ["", "b", "---\n", "\n---\nmore"] {
            assert_eq!(
                find_head(format!("{text}{tail}").as_bytes()),
                HeadStatus::Complete(text.len())
            );
        }
    }

    #[test]
    fn the_limit_counts_both_fences() {
        let of_size = |size: usize| format!("---\n{}\n---\n", "x".repeat(size - 9));
        let largest = of_size(FRONTMATTER_LIMIT);
        assert_eq!(find_head(largest.as_bytes()), HeadStatus::Complete(FRONTMATTER_LIMIT));
        assert_eq!(find_head(of_size(FRONTMATTER_LIMIT + 1).as_bytes()), HeadStatus::Absent);
        let endless = format!("---\n{}", "x: y\n".repeat(FRONTMATTER_LIMIT));
        assert_eq!(find_head(endless.as_bytes()), HeadStatus::Absent);
        assert_eq!(
            scan_fences(endless.as_bytes(), InputEnd::File),
            FenceSearch::TooLarge { open_line: 1 }
        );
        let one_line = format!("---\n{}", "x".repeat(FRONTMATTER_LIMIT));
        assert_eq!(find_head(one_line.as_bytes()), HeadStatus::Absent);
        assert_eq!(find_head("\n".repeat(FRONTMATTER_LIMIT + 1).as_bytes()), HeadStatus::Absent);
    }

    #[test]
    fn at_the_end_of_the_file_everything_is_decided() {
        let fences =
            FrontmatterFences { yaml: 4..9, body_start: 12, open_line: 1, padded: [None, None] };
        assert_eq!(scan_fences(b"---\na: b\n---", InputEnd::File), FenceSearch::Both(fences));
        assert_eq!(
            scan_fences(b"---\na: b\n--", InputEnd::File),
            FenceSearch::Unclosed { open_line: 1 }
        );
        assert_eq!(scan_fences(b"\n---", InputEnd::File), FenceSearch::Unclosed { open_line: 2 });
        assert_eq!(scan_fences(b"\n \n", InputEnd::File), FenceSearch::Nothing { line: 0 });
        assert_eq!(scan_fences(b"\n\nx", InputEnd::File), FenceSearch::Nothing { line: 3 });
        let padded = FenceSearch::Both(FrontmatterFences {
            yaml: 6..6,
            body_start: 11,
            open_line: 2,
            padded: [Some(2), Some(3)],
        });
        assert_eq!(scan_fences(b"\n--- \n---\t\nbody", InputEnd::File), padded);
        let mut diagnostics = Vec::new();
        padded.report(&mut diagnostics);
        let rules: Vec<_> = diagnostics.iter().map(|d| (d.line, d.rule)).collect();
        let blanks = "frontmatter.fenceWhitespace";
        assert_eq!(rules, [(1, "frontmatter.leadingBlank"), (2, blanks), (3, blanks)]);
    }
}
