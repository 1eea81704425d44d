//! A skill's files as they are now.

use std::fmt::Write as _;
use std::io::{self, Read};
use std::sync::Arc;

use cap_std::fs::{Dir, Metadata};
use skill_format::Digest;

use crate::jail::{self, JailError, RelPath};
use crate::ledger::version::VersionFile;
use crate::skill::SkillFile;
use crate::tree::FileTree;

/// How many files of a skill a version keeps.
const MAX_FILES: usize = 512;

/// How many bytes a version keeps.
const MAX_BYTES: u64 = 16 << 20;

/// The files of a skill, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CapturedTree {
    /// Sorted by path.
    pub(super) files: Vec<VersionFile>,
    /// Whether these are all.
    pub(super) complete: bool,
}

impl CapturedTree {
    /// Reads every file of a skill within the bounds of a version; SKILL.md comes first.
    pub(super) fn read(dir: &Dir) -> Result<Self, JailError> {
        let tree = FileTree::list(dir)?;
        let mut captured = Self { files: Vec::new(), complete: !tree.cut };
        let own = SkillFile::BOTH.map(SkillFile::name);
        let (first, rest): (Vec<String>, Vec<String>) =
            tree.files.into_iter().partition(|path| own.contains(&path.as_str()));
        let mut left = MAX_BYTES;
        for path in first.into_iter().chain(rest) {
            let Ok(rel) = RelPath::new(&path) else {
                captured.complete = false;
                continue;
            };
            let (file, metadata) = match jail::open_file(dir, &rel) {
                Ok(opened) => opened,
                // It was removed or replaced meanwhile.
                Err(JailError::NotFound | JailError::Link | JailError::NotRegular) => continue,
                Err(error) => return Err(error),
            };
            if captured.files.len() == MAX_FILES || metadata.len() > left {
                captured.complete = false;
                continue;
            }
            let content = contents(file, left)?;
            left = left.saturating_sub(content.len() as u64);
            captured.files.push(VersionFile {
                path,
                mode: executable(&metadata),
                size: content.len() as u64,
                digest: Digest::compute(&content),
                content,
            });
        }
        captured.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(captured)
    }

    /// Returns a file.
    pub(super) fn file(&self, path: &str) -> Option<&VersionFile> {
        let at = self.files.binary_search_by(|file| file.path.as_str().cmp(path)).ok()?;
        Some(&self.files[at])
    }

    /// Returns the contents by their digests.
    pub(super) fn contents(&self) -> impl Iterator<Item = (Digest, &[u8])> {
        self.files.iter().map(|file| (file.digest, &*file.content))
    }

    /// Returns the digest of the tree.
    pub(super) fn digest(&self) -> Digest {
        tree_digest(&self.files)
    }
}

/// Returns the digest of a tree: the SHA-256 of one line per file, sorted by path, with the length
/// of the path, the path, the executable bits, the size and the digest of the content.
pub(super) fn tree_digest(files: &[VersionFile]) -> Digest {
    let mut lines = String::new();
    for VersionFile { path, mode, size, digest, .. } in files {
        let length = path.len();
        writeln!(lines, "{length} {path} {mode:o} {size} {digest}")
            .expect("a text takes whatever is written");
    }
    Digest::compute(lines.as_bytes())
}

/// Reads one file whole; nothing if it is not there.
pub(super) fn read_file(dir: &Dir, path: &RelPath) -> Result<Option<Arc<[u8]>>, JailError> {
    match jail::open_file(dir, path) {
        Ok((file, _)) => Ok(Some(contents(file, MAX_BYTES)?)),
        Err(JailError::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

fn contents(file: cap_std::fs::File, limit: u64) -> io::Result<Arc<[u8]>> {
    let mut content = Vec::new();
    file.take(limit + 1).read_to_end(&mut content)?;
    if content.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file grew beyond 16 MiB"));
    }
    Ok(content.into())
}

#[cfg(unix)]
fn executable(metadata: &Metadata) -> u32 {
    use cap_std::fs::MetadataExt;
    metadata.mode() & 0o111
}

#[cfg(not(unix))]
fn executable(_: &Metadata) -> u32 {
    0
}
