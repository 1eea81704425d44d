//! The names of file kinds.

use std::fs;

/// Returns the name of an irregular file's kind, as used in every message.
#[must_use]
pub fn irregular_kind(kind: fs::FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt as _;
    match kind {
        _ if kind.is_symlink() => "a symbolic link",
        _ if kind.is_dir() => "a directory",
        _ if kind.is_fifo() => "a FIFO",
        _ => "a special file",
    }
}
