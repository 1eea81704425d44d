//! The archive of a backup: a tar file, compressed with gzip.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};
use skillhost_files::to_hex;
use tar::{Builder, EntryType, Header};

use crate::index::{FILES_PREFIX, FileDigest, INDEX_NAME};

/// A reader that computes the digest of the bytes that it passes on.
pub(crate) struct DigestReader<R> {
    inner: R,
    hasher: Sha256,
    size: u64,
}

impl<R: Read> DigestReader<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, hasher: Sha256::new(), size: 0 }
    }

    /// Returns the digest and the length of all bytes that were read.
    pub(crate) fn finish(self) -> FileDigest {
        FileDigest { size: self.size, sha256: to_hex(&self.hasher.finalize()) }
    }
}

impl<R: Read> Read for DigestReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        self.size += read as u64;
        Ok(read)
    }
}

/// A writer of an archive.
pub(crate) struct ArchiveWriter<W: Write> {
    tar: Builder<GzEncoder<W>>,
}

impl<W: Write> ArchiveWriter<W> {
    pub(crate) fn new(stream: W) -> Self {
        Self { tar: Builder::new(GzEncoder::new(stream, Compression::default())) }
    }

    /// Adds a directory of the home.
    pub(crate) fn add_directory(&mut self, path: &str, mode: u32) -> io::Result<()> {
        let mut header = new_header(EntryType::Directory, 0, mode);
        self.tar.append_data(&mut header, format!("{FILES_PREFIX}{path}/"), io::empty())
    }

    /// Adds a file of the home and returns its digest. `content` has exactly `size` bytes.
    pub(crate) fn add_file(
        &mut self,
        path: &str,
        mode: u32,
        size: u64,
        content: impl Read,
    ) -> io::Result<FileDigest> {
        let mut header = new_header(EntryType::Regular, size, mode);
        let mut content = DigestReader::new(content);
        self.tar.append_data(&mut header, format!("{FILES_PREFIX}{path}"), &mut content)?;
        let digest = content.finish();
        match digest.size == size {
            true => Ok(digest),
            // The header is written already, so that the archive would be damaged.
            false => Err(io::Error::other("its length changed while it was read")),
        }
    }

    /// Adds the index and completes the archive.
    pub(crate) fn finish(mut self, index: &[u8]) -> io::Result<W> {
        let mut header = new_header(EntryType::Regular, index.len() as u64, 0o600);
        self.tar.append_data(&mut header, INDEX_NAME, index)?;
        self.tar.into_inner()?.finish()
    }
}

fn new_header(kind: EntryType, size: u64, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(mode);
    // No owner: a home is restored for the user who restores it.
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}
