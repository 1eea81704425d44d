//! The search for the fences of the frontmatter: the two lines of `---`.

use std::ops::Range;

use crate::diagnostic::Diagnostic;
use crate::text::{UTF8_BOM, is_utf16};

/// The maximum size of the frontmatter in bytes, fences included.
pub const FRONTMATTER_LIMIT: usize = 64 << 10;

/// The state of an incremental read of the frontmatter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadStatus {
    /// The number of leading bytes that hold the frontmatter with its closing fence line.
    Complete(usize),
    /// More bytes are required; at the end of the file, parse the bytes read so far.
    NeedMore,
    /// The opening fence is missing, or the closing one within [`FRONTMATTER_LIMIT`].
    Absent,
}

/// Searches for the frontmatter in the first bytes of a file.
///
/// The opening fence is the first line that is not blank, if that line is `---`; the closing fence
/// is the next line that is `---`; blanks after either are allowed. The result for UTF-16 is
/// always [`HeadStatus::NeedMore`], because only the complete file can be decoded.
#[must_use]
pub fn find_head(bytes: &[u8]) -> HeadStatus {
    // A cut byte order mark does not reveal the encoding yet.
    if is_utf16(bytes) || matches!(bytes, [0xEF] | [0xEF, 0xBB] | [0xFF | 0xFE]) {
        return HeadStatus::NeedMore;
    }
    let mark = if bytes.starts_with(UTF8_BOM) { UTF8_BOM.len() } else { 0 };
    match scan_fences(&bytes[mark..], InputEnd::Unknown) {
        FenceSearch::Both(fences) => HeadStatus::Complete(mark + fences.body_start),
        FenceSearch::Undecided => HeadStatus::NeedMore,
        FenceSearch::Missing { .. }
        | FenceSearch::Unclosed { .. }
        | FenceSearch::TooLarge { .. } => HeadStatus::Absent,
    }
}

/// The fences of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontmatterFences {
    /// The bytes between them.
    pub yaml: Range<usize>,
    /// The byte offset of the body, after the line of the closing fence.
    pub body_start: usize,
    /// The line of the opening fence, counted from 1.
    pub open_line: u32,
    /// The lines of the fences that have blanks after the dashes.
    pub(crate) padded: [Option<u32>; 2],
}

/// Returns the fences in the decoded text of a complete file; `None` unless both are found.
#[must_use]
pub fn find_fences(text: &str) -> Option<FrontmatterFences> {
    match scan_fences(text.as_bytes(), InputEnd::File) {
        FenceSearch::Both(fences) => Some(fences),
        _ => None,
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
/// The outcome of a search for the fences.
pub(crate) enum FenceSearch {
    Both(FrontmatterFences),
    /// The first line that is not blank is not a fence; zero if every line is blank.
    Missing {
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

/// The meaning of the end of the bytes: end of the file, or unknown.
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
            return undecided_or(end, bytes, FenceSearch::Missing { line: 0 });
        };
        // The rest of this line may still turn it into a fence.
        if !line.complete && end == InputEnd::Unknown {
            let missing = FenceSearch::Missing { line: lines.number };
            return if may_become_fence(line.content) {
                undecided_or(end, bytes, missing)
            } else {
                missing
            };
        }
        match classify_fence(line.content) {
            Some(padded) => break (lines.number, padded),
            // Blank lines before the opening fence are accepted and reported.
            None if line.content.iter().all(|byte| is_blank(*byte)) => {}
            None => return FenceSearch::Missing { line: lines.number },
        }
    };
    let yaml_start = lines.at;
    loop {
        let line_start = lines.at;
        // Checked per line: an endless frontmatter must not be scanned to its end.
        if line_start > FRONTMATTER_LIMIT {
            return FenceSearch::TooLarge { open_line };
        }
        let Some(line) = lines.next() else {
            return undecided_or(end, bytes, FenceSearch::Unclosed { open_line });
        };
        let Some(padded) = classify_fence(line.content) else { continue };
        if !line.complete && end == InputEnd::Unknown {
            return undecided_or(end, bytes, FenceSearch::Unclosed { open_line });
        }
        // The closing fence counts, as a reader of the limit's size must see it.
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

fn undecided_or(end: InputEnd, bytes: &[u8], at_end: FenceSearch) -> FenceSearch {
    match end {
        InputEnd::Unknown if bytes.len() <= FRONTMATTER_LIMIT => FenceSearch::Undecided,
        _ => at_end,
    }
}

/// Returns whether blanks follow the dashes of a fence; `None` if the line is not a fence.
fn classify_fence(line: &[u8]) -> Option<bool> {
    let rest = line.strip_prefix(b"---")?;
    let rest = rest.strip_suffix(b"\r").unwrap_or(rest);
    rest.iter().all(|byte| is_blank(*byte)).then_some(!rest.is_empty())
}

/// Returns whether an incomplete first line can still become blank or a fence.
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
    /// The number of the last returned line, counted from 1.
    number: u32,
}

struct ByteLine<'a> {
    /// The line without its `\n`; a `\r` before it is kept.
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
    /// Reports missing fences as errors and irregular fences as warnings.
    pub(crate) fn report(&self, diagnostics: &mut Vec<Diagnostic>) {
        let start = "start the file with a line `---`, then `name:` and `description:`, then a \
                     line `---`";
        match self {
            Self::Both(fences) => fences.report(diagnostics),
            Self::Missing { line: 0 } | Self::Undecided => diagnostics.push(
                Diagnostic::error("frontmatter.missing", "the file is empty").with_help(start),
            ),
            Self::Missing { line } => diagnostics.push(
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
    /// Creates fences that were found by other rules than those of [`find_fences`].
    ///
    /// `yaml` are the bytes between them, `body_start` is after the closing one, and the opening
    /// one is on line `open_line`.
    #[must_use]
    pub fn new(yaml: Range<usize>, body_start: usize, open_line: u32) -> Self {
        Self { yaml, body_start, open_line, padded: [None, None] }
    }

    /// Reports irregular fences.
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
    fn find_head_reports_when_complete() {
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
    fn incomplete_fence_needs_more() {
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
    fn limit_includes_both_fences() {
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
    fn end_of_file_decides_search() {
        let fences =
            FrontmatterFences { yaml: 4..9, body_start: 12, open_line: 1, padded: [None, None] };
        assert_eq!(scan_fences(b"---\na: b\n---", InputEnd::File), FenceSearch::Both(fences));
        assert_eq!(
            scan_fences(b"---\na: b\n--", InputEnd::File),
            FenceSearch::Unclosed { open_line: 1 }
        );
        assert_eq!(scan_fences(b"\n---", InputEnd::File), FenceSearch::Unclosed { open_line: 2 });
        assert_eq!(scan_fences(b"\n \n", InputEnd::File), FenceSearch::Missing { line: 0 });
        assert_eq!(scan_fences(b"\n\nx", InputEnd::File), FenceSearch::Missing { line: 3 });
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
