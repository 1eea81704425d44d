//! `read_file`.

use std::io::Read as _;

use cap_fs_ext::MetadataExt as _;
use cap_std::fs::Metadata;
use skillhost_files::sha256_hex;
use skillhost_sdk::serde::{self, Deserialize};
use skillhost_sdk::{ExtensionError, json};

use crate::jail::EntryPath;
use crate::path::FilePath;
use crate::result::ToolResult;
use crate::roots::FileRoots;
use crate::text::{self, FILE_LIMIT};

/// The default of the number of lines.
const LINES: u64 = 2_000;

/// The maximum bytes of text in one result.
const PAGE: usize = 48 << 10;

/// The arguments of `read_file`.
#[derive(Debug, Deserialize)]
#[serde(crate = "serde", deny_unknown_fields)]
pub struct ReadArgs {
    path: String,
    /// The first line, counted from 1.
    #[serde(default)]
    offset: Option<u64>,
    /// The maximum number of lines.
    #[serde(default)]
    limit: Option<u64>,
}

/// A text file as it is now.
pub(crate) struct CurrentText {
    pub(crate) text: String,
    pub(crate) digest: String,
    pub(crate) metadata: Metadata,
}

/// Reads a page of a text file.
///
/// # Errors
/// Those of the jail; [`InvalidArgument`](skillhost_sdk::ErrorKind) for a file that is not a text,
/// [`TooLarge`](skillhost_sdk::ErrorKind) above the size limit.
pub fn read_file(roots: &FileRoots, args: &ReadArgs) -> Result<ToolResult, ExtensionError> {
    let path = FilePath::new(&args.path)?;
    let CurrentText { text, digest, metadata } = read_text(&roots.open_entry(&path)?, &path)?;
    let page =
        read_page(&text, args.offset.unwrap_or(1).max(1), args.limit.unwrap_or(LINES).max(1));
    let mut notes = Vec::new();
    match (page.lines, page.total) {
        (_, 0) => notes.push("the file is empty".to_owned()),
        (0, total) => notes.push(format!("the file has {total} lines")),
        (lines, total) => {
            notes.push(format!("lines {} to {} of {total}", page.first, page.first + lines - 1));
        }
    }
    if let Some(bytes) = page.cut {
        notes.push(format!("line {} has {bytes} bytes and is cut", page.first));
    }
    if let Some(next) = page.next {
        notes.push(format!("continue with offset {next}"));
    }
    if metadata.nlink() > 1 {
        notes.push("the file has another name (hard link) elsewhere".to_owned());
    }
    notes.push(format!("sha256 {digest}"));
    let structured = json!({
        "path": path.as_str(),
        "content": page.text,
        "digest": digest,
        "size": text.len(),
        "first_line": page.first,
        "lines": page.lines,
        "total_lines": page.total,
        "next_offset": page.next,
        "cut": page.cut.is_some(),
    });
    let end = if page.text.is_empty() || page.text.ends_with('\n') { "" } else { "\n" };
    Ok(ToolResult { text: format!("{}{end}[{}]", page.text, notes.join("; ")), structured })
}

/// Reads the complete text of a file.
pub(crate) fn read_text(
    location: &EntryPath,
    path: &FilePath,
) -> Result<CurrentText, ExtensionError> {
    let (file, metadata) = location.open_file().map_err(|fault| fault.with_path(path))?;
    if metadata.len() > FILE_LIMIT as u64 {
        return Err(text::too_large(path, metadata.len()));
    }
    let mut bytes = Vec::new();
    // The file may have grown since `stat`; one byte more shows it.
    file.take(FILE_LIMIT as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > FILE_LIMIT {
        return Err(text::too_large(path, bytes.len() as u64));
    }
    let digest = sha256_hex(&bytes);
    Ok(CurrentText { text: text::decode_text(path, bytes)?, digest, metadata })
}

struct TextFilePage<'t> {
    text: &'t str,
    first: u64,
    lines: u64,
    total: u64,
    next: Option<u64>,
    /// The length of a line that is too long for an answer.
    cut: Option<usize>,
}

fn read_page(text: &str, first: u64, limit: u64) -> TextFilePage<'_> {
    let (mut start, mut end, mut lines, mut total, mut at) = (text.len(), text.len(), 0, 0, 0);
    let (mut is_full, mut cut) = (false, None);
    for line in text.split_inclusive('\n') {
        total += 1;
        if total == first {
            (start, end) = (at, at);
        }
        at += line.len();
        if total < first || is_full {
            continue;
        }
        // A page has at least one line, even if that line is too long.
        if lines == limit || at - start > PAGE && lines > 0 {
            is_full = true;
            continue;
        }
        lines += 1;
        end = at;
        if at - start > PAGE {
            end = (0..=start + PAGE).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(start);
            (is_full, cut) = (true, Some(line.len()));
        }
    }
    let next = (lines > 0 && first + lines <= total).then(|| first + lines);
    TextFilePage { text: &text[start..end], first, lines, total, next, cut }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_join_to_the_text() {
        let text: String = (0..5_000).map(|n| format!("line {n} é\n")).collect();
        for limit in [1, 7, 999, u64::MAX] {
            let (mut joined, mut at) = (String::new(), Some(1));
            while let Some(first) = at {
                let page = read_page(&text, first, limit);
                assert!(page.text.len() <= PAGE && page.lines <= limit);
                joined.push_str(page.text);
                at = page.next.filter(|_| limit > 1 || first < 50);
            }
            assert!(text.starts_with(&joined));
            assert!(limit == 1 || joined == text);
        }
    }

    #[test]
    fn long_line_is_cut_between_characters() {
        let text = format!("a\n{}\nb", "é".repeat(PAGE));
        let (first, second) = (read_page(&text, 1, 10), read_page(&text, 2, 10));
        assert_eq!((first.text, first.next), ("a\n", Some(2)));
        assert_eq!((second.text.len(), second.cut), (PAGE, Some(2 * PAGE + 1)));
        assert_eq!((second.next, read_page(&text, 3, 10).text), (Some(3), "b"));
        assert_eq!((read_page(&text, 4, 1).lines, read_page("", 1, 1).total), (0, 0));
    }
}
