//! The current files of a skill.

use std::fmt::Write as _;
use std::io::{self, Read};
use std::sync::Arc;

use cap_std::fs::{Dir, Metadata};
use skill_catalog::{FileTree, Skill, SkillFile};
use skill_format::Digest;
use skillhost_files::jail::{self, JailError, RelPath};

use crate::files::skill_directory::{SkillDirectory, jail_error};
use crate::records::error::LedgerError;
use crate::records::version::VersionFile;

/// The maximum number of files in a version.
const MAX_FILES: usize = 512;

/// The maximum number of bytes in a version.
const MAX_BYTES: u64 = 16 << 20;

/// The files of a skill with their contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CapturedTree {
    /// Sorted by path.
    pub(crate) files: Vec<VersionFile>,
    /// `true` if all files are included.
    pub(crate) complete: bool,
}

impl CapturedTree {
    /// Reads every file of a skill within the limits of a version; SKILL.md comes first.
    pub(crate) fn read(dir: &Dir) -> Result<Self, JailError> {
        let tree = FileTree::list(dir)?;
        let mut captured = Self { files: Vec::new(), complete: !tree.cut };
        let skill_files = SkillFile::BOTH.map(SkillFile::name);
        // First, so that the limits never leave SKILL.md out.
        let (first, rest): (Vec<String>, Vec<String>) =
            tree.files.into_iter().partition(|path| skill_files.contains(&path.as_str()));
        let mut remaining = MAX_BYTES;
        for path in first.into_iter().chain(rest) {
            let Ok(rel) = RelPath::new(&path) else {
                captured.complete = false;
                continue;
            };
            let (file, metadata) = match jail::open_file(dir, &rel) {
                Ok(opened) => opened,
                // It was removed or replaced after the listing.
                Err(JailError::NotFound | JailError::Link | JailError::NotRegular) => continue,
                Err(error) => return Err(error),
            };
            if captured.files.len() == MAX_FILES || metadata.len() > remaining {
                captured.complete = false;
                continue;
            }
            // The file may have grown since its size was read.
            let content = read_contents(file, remaining)?;
            remaining = remaining.saturating_sub(content.len() as u64);
            captured.files.push(VersionFile {
                path,
                mode: executable_bits(&metadata),
                size: content.len() as u64,
                digest: Digest::compute(&content),
                content,
            });
        }
        // `file` searches in this order, and the digest of the tree depends on it.
        captured.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(captured)
    }

    /// Returns the file with a path.
    pub(crate) fn file(&self, path: &str) -> Option<&VersionFile> {
        let at = self.files.binary_search_by(|file| file.path.as_str().cmp(path)).ok()?;
        Some(&self.files[at])
    }

    /// Returns the digests and contents.
    pub(crate) fn contents(&self) -> impl Iterator<Item = (Digest, &[u8])> {
        self.files.iter().map(|file| (file.digest, &*file.content))
    }

    /// Returns the digest of the tree.
    pub(crate) fn digest(&self) -> Digest {
        tree_digest(&self.files)
    }
}

/// Reads the files of a skill; a missing directory has none.
pub(crate) fn read_tree(place: &SkillDirectory) -> Result<CapturedTree, LedgerError> {
    let failed = |error: JailError| jail_error(&error, &place.path());
    match place.open(false) {
        Err(JailError::NotFound) => Ok(CapturedTree { files: Vec::new(), complete: true }),
        Ok(dir) => CapturedTree::read(&dir).map_err(failed),
        Err(error) => Err(failed(error)),
    }
}

/// Returns the digest of a skill's tree and that of its SKILL.md, from one read of the directory.
///
/// # Errors
/// Those of the disk and the database.
pub fn current_digests(skill: &Skill) -> Result<(Digest, Option<Digest>), LedgerError> {
    let captured = read_tree(&SkillDirectory::for_skill(skill))?;
    let text = captured.file(skill.file().name()).map(|file| file.digest);
    // Files that were not captured cannot have been approved.
    Ok((captured.digest(), text.filter(|_| captured.complete)))
}

/// Returns the digest of a tree: the SHA-256 of one line per file, sorted by path, with the length
/// of the path, the path, the executable bits, the size and the digest of the content.
pub(crate) fn tree_digest(files: &[VersionFile]) -> Digest {
    let mut lines = String::new();
    for VersionFile { path, mode, size, digest, .. } in files {
        let length = path.len();
        // The length keeps a path with a line break from imitating another line.
        writeln!(lines, "{length} {path} {mode:o} {size} {digest}")
            .expect("writing to a string cannot fail");
    }
    Digest::compute(lines.as_bytes())
}

/// Reads a file completely; `None` if it does not exist.
pub(crate) fn read_file(dir: &Dir, path: &RelPath) -> Result<Option<Arc<[u8]>>, JailError> {
    match jail::open_file(dir, path) {
        Ok((file, _)) => Ok(Some(read_contents(file, MAX_BYTES)?)),
        Err(JailError::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

fn read_contents(file: cap_std::fs::File, limit: u64) -> io::Result<Arc<[u8]>> {
    let mut content = Vec::new();
    // One byte more than allowed, to notice a file that grew while it was read.
    file.take(limit + 1).read_to_end(&mut content)?;
    if content.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file grew beyond 16 MiB"));
    }
    Ok(content.into())
}

#[cfg(unix)]
fn executable_bits(metadata: &Metadata) -> u32 {
    use cap_std::fs::MetadataExt;
    metadata.mode() & 0o111
}

#[cfg(not(unix))]
fn executable_bits(_: &Metadata) -> u32 {
    0
}
