//! Reading of a SKILL.md: up to the closing fence for a listing, completely for all other uses.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use skill_format::{Diagnostic, Digest, FILE_LIMIT, Frontmatter, HeadStatus, TokenCount};

use crate::cache::ValidText;
use crate::disk::{FileKind, FileStat, stat_file};
use crate::problem::ProblemDraft;
use crate::skill::TextFacts;

/// The size of the first read; nearly every frontmatter ends before it.
const FIRST_READ: usize = 4 << 10;

/// The number of attempts to read a file that changes during the read.
const ATTEMPTS: usize = 3;

/// The outcome of reading a file.
#[derive(Debug)]
pub(crate) enum ReadOutcome {
    /// The file is a skill.
    Valid(Box<ValidSkill>),
    /// The file is not a skill, for the reasons given; one of them is an error.
    Invalid(Vec<Diagnostic>),
}

/// The content of a valid file.
#[derive(Debug)]
pub(crate) struct ValidSkill {
    pub(crate) frontmatter: Frontmatter,
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) estimate: TokenCount,
    /// The text and its measures; set only if the complete file was read.
    pub(crate) whole: Option<CompleteText>,
}

/// A complete text with its measures.
#[derive(Clone, Debug)]
pub(crate) struct CompleteText {
    pub(crate) good: ValidText,
    pub(crate) body_start: usize,
    pub(crate) known: TextFacts,
}

/// Rejects a file that cannot be a SKILL.md because of its type or size.
pub(crate) fn reject_by_stat(stat: &FileStat) -> Option<ProblemDraft> {
    if stat.kind != FileKind::Regular {
        let message = format!("it is {}, not a regular file", stat.kind.describe());
        let rule = if stat.kind == FileKind::Symlink { "file.symlink" } else { "file.notRegular" };
        return Some(ProblemDraft::error(rule, message, "replace it with a regular file"));
    }
    let size = stat.signature.size;
    (size > FILE_LIMIT as u64).then(|| {
        let message = format!("the file has {size} bytes, at most {FILE_LIMIT} are read");
        ProblemDraft::error("file.size", message, "move detail into files under references/")
    })
}

/// Reads a file up to its closing fence; `stat` is the state of the open file before.
pub(crate) fn read_head(
    file: &mut File,
    stat: &FileStat,
    dir_name: &str,
    buffer: &mut Vec<u8>,
) -> io::Result<ReadOutcome> {
    let size = stat.signature.size as usize;
    let mut end = size.min(FIRST_READ);
    let mut filled = 0;
    loop {
        if buffer.len() < end {
            buffer.resize(end, 0);
        }
        let read = read_full(file, &mut buffer[filled..end])?;
        filled += read;
        let bytes = &buffer[..filled];
        let at_end = filled < end || filled >= size;
        let fence = match skill_format::find_head(bytes) {
            HeadStatus::Complete(length) => Some(length),
            HeadStatus::NeedMore if !at_end => {
                end = size.min(end * 4);
                continue;
            }
            HeadStatus::NeedMore | HeadStatus::Absent => None,
        };
        let parsed = skill_format::parse_head(dir_name, &bytes[..fence.unwrap_or(filled)]);
        let body = size.saturating_sub(fence.unwrap_or(parsed.body_start));
        // A single long frontmatter must not keep the shared buffer large.
        if buffer.len() > FIRST_READ {
            buffer.truncate(FIRST_READ);
            buffer.shrink_to_fit();
        }
        return Ok(match parsed.frontmatter {
            Some(frontmatter) => ReadOutcome::Valid(Box::new(ValidSkill {
                frontmatter,
                diagnostics: parsed.diagnostics,
                estimate: TokenCount::from_chars(body),
                whole: None,
            })),
            None => ReadOutcome::Invalid(parsed.diagnostics),
        });
    }
}

/// Reads until the buffer is full or the file ends.
fn read_full(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// The bytes of a file and the `stat` result of exactly these bytes.
#[derive(Debug)]
pub(crate) struct FileBytes {
    pub(crate) bytes: Vec<u8>,
    pub(crate) stat: FileStat,
    /// `true` if the file was still being written after several attempts.
    pub(crate) torn: bool,
}

/// Reads a complete file, repeated if it changed during the read; returns `None` if it is rejected
/// unread.
///
/// `before` is the state of the open file before the read; a different state afterwards sets
/// `torn`.
pub(crate) fn read_bytes(
    file: &mut File,
    before: FileStat,
) -> io::Result<Result<FileBytes, ProblemDraft>> {
    let mut before = before;
    let mut bytes = Vec::new();
    for attempt in 1.. {
        if let Some(finding) = reject_by_stat(&before) {
            return Ok(Err(finding));
        }
        bytes.clear();
        // One byte more lets `read_to_end` see the end of the file without a reallocation.
        bytes.reserve(before.signature.size as usize + 1);
        file.seek(SeekFrom::Start(0))?;
        file.by_ref().take(FILE_LIMIT as u64 + 1).read_to_end(&mut bytes)?;
        let after = stat_file(file)?;
        let torn = after != before || bytes.len() as u64 != after.signature.size;
        if !torn || attempt == ATTEMPTS {
            return Ok(Ok(FileBytes { bytes, stat: after, torn }));
        }
        before = after;
    }
    unreachable!("the last attempt returns")
}

/// Parses the bytes of a complete file.
pub(crate) fn parse_complete(dir_name: &str, bytes: &[u8]) -> ReadOutcome {
    let skill = match skill_format::parse_skill(dir_name, bytes) {
        Ok(skill) => skill,
        Err(parsed) => return ReadOutcome::Invalid(parsed.diagnostics),
    };
    let body_start = skill.parsed.body_start;
    let tokens = TokenCount::estimate(skill.body());
    let Some(frontmatter) = skill.parsed.frontmatter else {
        return ReadOutcome::Invalid(skill.parsed.diagnostics);
    };
    let digest = Digest::compute(bytes);
    let good = ValidText { text: Arc::from(&*skill.text), digest };
    ReadOutcome::Valid(Box::new(ValidSkill {
        frontmatter,
        diagnostics: skill.parsed.diagnostics,
        estimate: tokens,
        whole: Some(CompleteText { good, body_start, known: TextFacts { digest, tokens } }),
    }))
}

/// Returns whether the bytes of a complete file are a skill.
#[must_use]
pub fn is_valid_skill(dir_name: &str, bytes: &[u8]) -> bool {
    matches!(parse_complete(dir_name, bytes), ReadOutcome::Valid(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file_of(bytes: &[u8]) -> (File, FileStat) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        let stat = stat_file(&file).unwrap();
        (file, stat)
    }

    fn head_of(bytes: &[u8]) -> (ReadOutcome, u64) {
        let (mut file, stat) = file_of(bytes);
        let reading = read_head(&mut file, &stat, "demo", &mut Vec::new()).unwrap();
        let position = file.stream_position().unwrap();
        (reading, position)
    }

    #[test]
    fn listing_stops_at_closing_fence() {
        let head = "---\nname: demo\ndescription: A demo.\n---\n";
        let text = format!("{head}{}", "body\n".repeat(4_000));
        let (reading, position) = head_of(text.as_bytes());
        let ReadOutcome::Valid(good) = reading else { panic!("{reading:?}") };
        assert_eq!(good.frontmatter.description, "A demo.");
        assert_eq!(good.estimate, TokenCount::from_chars(20_000));
        assert!(good.whole.is_none());
        assert_eq!(position, FIRST_READ as u64);
    }

    #[test]
    fn long_frontmatter_is_read_completely() {
        let long = "word ".repeat(3_000);
        let text = format!("---\nname: demo\ndescription: A demo.\nlicense: {long}\n---\nbody");
        let (reading, _) = head_of(text.as_bytes());
        let ReadOutcome::Valid(good) = reading else { panic!("{reading:?}") };
        assert_eq!(good.frontmatter.license.unwrap(), long.trim());
        assert_eq!(good.estimate, TokenCount::from_chars(4));
    }

    #[test]
    fn file_without_fences_is_rejected() {
        let (reading, position) = head_of(&b"just text\n".repeat(10_000));
        let ReadOutcome::Invalid(diagnostics) = reading else { panic!("{reading:?}") };
        assert_eq!(diagnostics.len(), 1, "{diagnostics:?}");
        assert_eq!(position, FIRST_READ as u64);
    }

    #[test]
    fn complete_texts_are_hashed_and_counted() {
        let bytes = "---\nname: demo\ndescription: A demo.\n---\nééééé".as_bytes();
        let (mut file, stat) = file_of(bytes);
        let read = read_bytes(&mut file, stat).unwrap().unwrap();
        assert_eq!((read.bytes.as_slice(), read.torn, read.stat), (bytes, false, stat));
        let ReadOutcome::Valid(good) = parse_complete("demo", &read.bytes) else { panic!("bad") };
        let whole = good.whole.unwrap();
        assert_eq!(whole.known.digest, Digest::compute(bytes));
        assert_eq!(whole.known.tokens.get(), 2);
        assert_eq!(&whole.good.text[whole.body_start..], "ééééé");
    }

    #[test]
    fn file_changed_during_read_is_reread() {
        let (mut file, stat) = file_of(b"now this");
        let mut earlier = stat;
        earlier.signature.size = 3;
        let read = read_bytes(&mut file, earlier).unwrap().unwrap();
        assert_eq!((read.bytes.as_slice(), read.torn, read.stat), (&b"now this"[..], false, stat));
    }

    #[test]
    fn oversized_files_are_rejected_unread() {
        let (mut file, _) = file_of(b"");
        file.set_len(10 << 30).unwrap();
        let stat = stat_file(&file).unwrap();
        let finding = read_bytes(&mut file, stat).unwrap().unwrap_err();
        assert_eq!(finding.rule, "file.size");
        assert_eq!(finding.message, "the file has 10737418240 bytes, at most 1048576 are read");
    }
}
