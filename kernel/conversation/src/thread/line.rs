//! The lines of a thread's journal.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use skillhost_files::to_hex;

use super::entry::ThreadEntry;

/// The version of the journal's line format.
pub(super) const VERSION: u64 = 1;

/// The first line of a journal.
#[derive(Serialize, Deserialize)]
pub(super) struct ThreadHeader {
    pub(super) thread: String,
    pub(super) version: u64,
    pub(super) agent: String,
    pub(super) at: u64,
}

#[derive(Serialize)]
struct ThreadLineRef<'a> {
    at: u64,
    #[serde(flatten)]
    change: &'a ThreadEntry,
}

#[derive(Deserialize)]
pub(super) struct ThreadLine {
    pub(super) at: u64,
    #[serde(flatten)]
    pub(super) change: ThreadEntry,
}

/// Appends a line with its checksum to a buffer.
pub(super) fn write_line(lines: &mut Vec<u8>, at: u64, change: &ThreadEntry) {
    let line = serde_json::to_vec(&ThreadLineRef { at, change })
        .expect("a change has text keys only, and a vector takes every byte");
    lines.extend(with_checksum(line));
}

/// The key of a line's last field, up to its value.
const CHECKSUM: &[u8] = b",\"sum\":\"";

/// The number of hexadecimal digits of a checksum.
const CHECKSUM_LENGTH: usize = 16;

/// Returns the checksum of a line: the first digits of the SHA-256 of every byte before it.
fn line_checksum(bytes: &[u8]) -> String {
    to_hex(&Sha256::digest(bytes)[..CHECKSUM_LENGTH / 2])
}

/// Appends checksum and line break to a JSON object.
pub(super) fn with_checksum(mut line: Vec<u8>) -> Vec<u8> {
    // Removes the closing brace; the last field is added after the others.
    line.pop();
    let sum = line_checksum(&line);
    line.extend_from_slice(CHECKSUM);
    line.extend_from_slice(sum.as_bytes());
    line.extend_from_slice(b"\"}\n");
    line
}

/// Returns whether a line's checksum is correct; `None` for a line of an older version without one.
pub(super) fn is_intact(line: &[u8]) -> Option<bool> {
    let (bytes, sum) = line.strip_suffix(b"\"}")?.split_last_chunk::<CHECKSUM_LENGTH>()?;
    let bytes = bytes.strip_suffix(CHECKSUM)?;
    Some(line_checksum(bytes).as_bytes() == sum)
}
