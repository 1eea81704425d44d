//! The index: the files that the next commit will have.

use cap_std::fs::{Metadata, MetadataExt as _};

use super::error::GitError;
use super::file::{MAX_PATH, MAX_PATHS};
use super::file_mode::FileMode;
use super::object_id::ObjectId;

/// The smallest size of an entry, in bytes.
const MIN_ENTRY: usize = 62;

/// A file of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    pub(crate) path: String,
    pub(crate) mode: FileMode,
    pub(crate) id: ObjectId,
    /// The size of the file in the worktree when it was added, modulo 2³².
    pub(crate) size: u32,
    /// Its time of change, in seconds since 1970 and nanoseconds.
    pub(crate) modified: (i64, u32),
    /// Zero, or the side of a merge conflict.
    pub(crate) stage: u8,
    /// It is not in the worktree by intent (sparse checkout), or is not to be compared.
    pub(crate) is_skipped: bool,
}

/// Returns when a file was changed, in seconds since 1970 and nanoseconds.
pub(crate) fn modified_time(metadata: &Metadata) -> (i64, u32) {
    (metadata.mtime(), u32::try_from(metadata.mtime_nsec()).unwrap_or(0))
}

/// Parses an index.
pub(super) fn parse_index(bytes: &[u8]) -> Result<Vec<IndexEntry>, GitError> {
    let damaged = || GitError::Damaged("the index is malformed");
    if bytes.get(..4) != Some(b"DIRC") {
        return Err(damaged());
    }
    let version = be32(bytes, 4).ok_or_else(damaged)?;
    if !(2..=4).contains(&version) {
        return Err(GitError::Unsupported("a new format of the index"));
    }
    let count = be32(bytes, 8).ok_or_else(damaged)? as usize;
    if count > bytes.len() / 8 {
        return Err(damaged());
    }
    let (mut at, mut entries, mut previous, mut path_bytes) = (12, Vec::new(), Vec::new(), 0);
    for _ in 0..count {
        let (entry, next) = parse_entry(bytes, at, version, &mut previous).ok_or_else(damaged)?;
        // The fourth format shares the beginnings of paths, so that they can be far longer than the
        // file.
        path_bytes += previous.len();
        if previous.len() > MAX_PATH || path_bytes > MAX_PATHS {
            return Err(GitError::Unsupported("paths of more than 64 MiB"));
        }
        entries.extend(entry);
        at = next;
    }
    // The checksum is at the end; extensions lie before it.
    while let Some(name) =
        bytes.get(at..at + 4).filter(|_| at + 8 + ObjectId::LENGTH <= bytes.len())
    {
        if name == b"link" {
            return Err(GitError::Unsupported("a split index"));
        }
        at += 8 + be32(bytes, at + 4).ok_or_else(damaged)? as usize;
    }
    Ok(entries)
}

/// Parses an entry; returns the position of the next one. A directory of a sparse index has no
/// entry.
fn parse_entry(
    bytes: &[u8],
    start: usize,
    version: u32,
    previous: &mut Vec<u8>,
) -> Option<(Option<IndexEntry>, usize)> {
    bytes.get(start..start + MIN_ENTRY)?;
    let field = |number: usize| be32(bytes, start + 4 * number);
    let modified = (i64::from(field(2)?), field(3)?);
    let (mode, size) = (field(6)?, field(9)?);
    let id = ObjectId::from_slice(&bytes[start + 40..])?;
    let flags = be16(bytes, start + 60)?;
    let mut at = start + MIN_ENTRY;
    let mut more = 0;
    if flags & 0x4000 != 0 {
        more = be16(bytes, at)?;
        at += 2;
    }
    if version == 4 {
        let mut removed = 0_usize;
        loop {
            let byte = *bytes.get(at)?;
            at += 1;
            removed = removed.checked_mul(128)? | usize::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                break;
            }
            removed += 1;
        }
        previous.truncate(previous.len().checked_sub(removed)?);
    } else {
        previous.clear();
    }
    let end = at + bytes.get(at..)?.iter().position(|byte| *byte == 0)?;
    previous.extend_from_slice(&bytes[at..end]);
    let next = match version {
        4 => end + 1,
        // One to eight zeros, so that the length of an entry is a multiple of eight.
        _ => start + ((end - start) / 8 + 1) * 8,
    };
    let entry = FileMode::from_bits(mode).map(|mode| IndexEntry {
        path: String::from_utf8_lossy(previous).into_owned(),
        mode,
        id,
        size,
        modified,
        stage: u8::try_from(flags >> 12 & 3).unwrap_or(0),
        is_skipped: flags & 0x8000 != 0 || more & 0x4000 != 0,
    });
    Some((entry, next))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn shared_beginnings_do_not_add_up() {
        // Each path is the one before and another byte, as the fourth format permits.
        let mut index = b"DIRC\0\0\0\x04".to_vec();
        index.extend(5_000_u32.to_be_bytes());
        for _ in 0..5_000 {
            index.extend([0; 24]);
            index.extend(0o100_644_u32.to_be_bytes());
            index.extend([0; 34]);
            index.extend(b"\0a\0");
        }
        index.extend([0; 20]);
        assert!(matches!(parse_index(&index), Err(GitError::Unsupported(_))));
        index[8..12].copy_from_slice(&4_000_u32.to_be_bytes());
        assert_eq!(parse_index(&index).unwrap()[3_999].path, "a".repeat(4_000));
    }

    proptest! {
        #[test]
        fn any_index_is_safe(version in 2..5_u8, bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut index = b"DIRC\0\0\0".to_vec();
            index.extend([version, 0, 0, 0, 3]);
            index.extend(bytes);
            let _ = parse_index(&index);
        }
    }
}
