//! The files of a skill, planned and actual.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use skill_catalog::{Skill, Snapshot, Store};
use skill_format::Digest;
use skill_service::SkillPublisher;
use skillhost_terminal::{CliError, exit};

use crate::wording::registry_error;

/// The entry limit; an exported skill never has more, so a larger tree is foreign.
const MAX_ENTRIES: usize = 5_000;

/// The size limit of a file that is hashed, in bytes.
const MAX_FILE: u64 = 16 << 20;

/// The digest of a file, and whether the file is executable.
pub(super) type FileFingerprint = (Digest, bool);

/// Files by path, with `/` as separator.
pub(super) type FileMap = BTreeMap<String, FileFingerprint>;

/// The planned contents of an exported skill.
#[derive(Debug)]
pub(super) enum ExportSource {
    /// A copy of these files.
    Copy(FileMap),
    /// A link to this directory.
    Link(PathBuf),
}

impl ExportSource {
    /// Creates a copy source from the files of a skill.
    pub(super) fn copy_of(
        publisher: &SkillPublisher,
        store: &Store,
        snapshot: &Snapshot,
        skill: &Skill,
    ) -> Result<Self, CliError> {
        let entry = publisher.entry(store, snapshot, skill).map_err(registry_error)?;
        let Some(files) = &entry.files else {
            let message = "it has more than 512 files or 16 MiB, which is too much for a copy";
            return Err(CliError::new(exit::FINDINGS, message).with_hint("--symlink"));
        };
        let files = files.iter().map(|file| (file.path.clone(), (file.digest, file.executable)));
        Ok(Self::Copy(files.collect()))
    }

    /// Creates a link source from the directory of a skill.
    pub(super) fn link_to(skill: &Skill) -> Result<Self, CliError> {
        let dir = skill.dir();
        let dir = fs::canonicalize(&dir).map_err(|error| CliError::io(&dir, &error))?;
        Ok(Self::Link(dir))
    }
}

/// The actual contents at the path of a skill.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TargetContents {
    /// The path does not exist.
    Nothing,
    /// A directory with exactly these files.
    Copy(FileMap),
    /// A link to this path.
    Link(PathBuf),
    /// An entry that export does not write.
    Other,
}

/// One file that differs.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub(super) struct FileChange {
    pub(super) path: String,
    pub(super) kind: FileChangeKind,
}

/// The kind of a difference between a file in the directory and the skill's.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum FileChangeKind {
    /// The directory lacks the file.
    Missing,
    /// Only the directory has the file.
    Extra,
    /// The contents differ.
    Differs,
}

impl FileChangeKind {
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Self::Missing => "-",
            Self::Extra => "+",
            Self::Differs => "~",
        }
    }
}

impl TargetContents {
    /// Reads a path without following a link.
    pub(super) fn inspect(path: &Path) -> io::Result<Self> {
        let metadata = match fs::symlink_metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::Nothing),
            Err(error) => return Err(error),
        };
        if metadata.is_symlink() {
            return Ok(Self::Link(fs::read_link(path)?));
        }
        if !metadata.is_dir() {
            return Ok(Self::Other);
        }
        let mut files = FileMap::new();
        let mut seen = 0;
        let plain = walk(path, "", &mut seen, &mut files)?;
        Ok(if plain { Self::Copy(files) } else { Self::Other })
    }

    /// Returns whether the contents equal the planned ones.
    pub(super) fn matches(&self, source: &ExportSource) -> bool {
        match (self, source) {
            (Self::Copy(found), ExportSource::Copy(wanted)) => found == wanted,
            (Self::Link(found), ExportSource::Link(wanted)) => found == wanted,
            _ => false,
        }
    }

    /// Returns the differences, sorted by path.
    pub(super) fn changes(&self, source: &ExportSource) -> Vec<FileChange> {
        let (Self::Copy(found), ExportSource::Copy(wanted)) = (self, source) else {
            return Vec::new();
        };
        let paths: BTreeSet<&String> = found.keys().chain(wanted.keys()).collect();
        let change = |path: &String| {
            let kind = match (found.get(path), wanted.get(path)) {
                (None, _) => FileChangeKind::Missing,
                (_, None) => FileChangeKind::Extra,
                (found, wanted) if found != wanted => FileChangeKind::Differs,
                _ => return None,
            };
            Some(FileChange { path: path.clone(), kind })
        };
        paths.into_iter().filter_map(change).collect()
    }
}

/// Computes the digest of a tree, over each path, executable bit and file digest.
pub(super) fn digest(files: &FileMap) -> Digest {
    let mut text = String::new();
    for (path, (digest, executable)) in files {
        // A path cannot hold a NUL, so the separator is unambiguous.
        text.push_str(&format!("{path}\0{}\0{digest}\n", u8::from(*executable)));
    }
    Digest::compute(text.as_bytes())
}

/// Reads a tree; returns `false` if it holds an entry that export does not write.
fn walk(dir: &Path, prefix: &str, seen: &mut usize, files: &mut FileMap) -> io::Result<bool> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        *seen += 1;
        let Ok(name) = entry.file_name().into_string() else { return Ok(false) };
        let kind = entry.file_type()?;
        let path = format!("{prefix}{name}");
        if *seen > MAX_ENTRIES || !(kind.is_dir() || kind.is_file()) {
            return Ok(false);
        }
        if kind.is_dir() {
            if !walk(&entry.path(), &format!("{path}/"), seen, files)? {
                return Ok(false);
            }
            continue;
        }
        let metadata = entry.metadata()?;
        let mut bytes = Vec::new();
        fs::File::open(entry.path())?.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_FILE {
            return Ok(false);
        }
        files.insert(path, (Digest::compute(&bytes), executable(&metadata)));
    }
    Ok(true)
}

#[cfg(unix)]
fn executable(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn executable(_: &fs::Metadata) -> bool {
    false
}
