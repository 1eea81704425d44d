//! Objects.

use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;

use super::error::GitError;

/// The largest object that is read, in bytes.
pub(crate) const MAX_OBJECT: usize = 16 << 20;

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    Commit,
    Tree,
    Blob,
    Tag,
}

/// An object.
#[derive(Debug)]
pub(crate) struct GitObject {
    pub(crate) kind: ObjectKind,
    pub(crate) data: Vec<u8>,
}

/// Inflates a zlib stream; bytes behind its end are ignored.
pub(crate) fn inflate(bytes: &[u8], limit: usize) -> Result<Vec<u8>, GitError> {
    decompress_to_vec_zlib_with_limit(bytes, limit).map_err(|error| {
        match error.status == miniz_oxide::inflate::TINFLStatus::HasMoreOutput {
            true => GitError::TooLarge(limit as u64),
            false => GitError::Damaged("an object is not compressed as zlib"),
        }
    })
}
