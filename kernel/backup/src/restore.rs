//! The restoration of a backup.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use flate2::read::GzDecoder;
use serde::Serialize;
use skillhost_files::jail::{JailError, RelPath, open_parent, open_root};
use skillhost_files::temporary::unique_temporary_name;
use skillhost_files::{rename_synced, sync_file, sync_tree};
use tar::{Archive, EntryType};

use crate::archive::DigestReader;
use crate::error::{PathProblem, RestoreError};
use crate::index::{
    BackupIndex, BackupSummary, FILES_PREFIX, FORMAT, FileDigest, HOME_PARTS, INDEX_NAME,
    IndexEntry, MAX_ENTRIES, MAX_INDEX_BYTES,
};

/// The longest path in an archive, in bytes.
const MAX_NAME_BYTES: u64 = 4096;

/// A backup that was restored.
#[derive(Debug, Serialize)]
pub struct RestoreReport {
    /// The home.
    pub home: PathBuf,
    /// The contents of the backup.
    #[serde(flatten)]
    pub summary: BackupSummary,
    /// The directory with the files that the backup has replaced.
    pub replaced: Option<PathBuf>,
}

/// Reads a backup and compares every file with its digest; writes no file.
///
/// # Errors
/// [`RestoreError`] for a file that is damaged or not a backup.
pub fn check_backup(file: &Path) -> Result<BackupSummary, RestoreError> {
    Ok(read_archive(file, &mut |_, content| io::copy(content, &mut io::sink()).map(drop))?
        .summarize())
}

/// The checked files of a backup, in a directory of the home. Dropped without
/// [`StagedBackup::install`], it leaves the home as it was.
#[derive(Debug)]
pub struct StagedBackup {
    target: PathBuf,
    directory: PathBuf,
    index: BackupIndex,
    guard: StagingGuard,
}

/// A guard that removes the directory of extracted files.
#[derive(Debug)]
struct StagingGuard {
    directory: PathBuf,
    /// The home, if it is to be removed, too.
    created: Option<PathBuf>,
}

/// Extracts a backup to a home, which is created if it does not exist, without a change of its
/// files. `replace` permits a home with files.
///
/// # Errors
/// [`RestoreError`] for a file that is damaged or not a backup, and for a home with files.
pub fn stage_backup(
    file: &Path,
    target: &Path,
    replace: bool,
) -> Result<StagedBackup, RestoreError> {
    let existed = target.symlink_metadata().is_ok();
    let failed = || RestoreError::io(target);
    if existed && !replace && fs::read_dir(target).map_err(failed())?.next().is_some() {
        return Err(RestoreError::NotEmpty { path: target.to_owned() });
    }
    DirBuilder::new().recursive(true).mode(0o700).create(target).map_err(failed())?;
    let directory = target.join(unique_temporary_name());
    let created = (!existed).then(|| target.to_owned());
    let guard = StagingGuard { directory: directory.clone(), created };
    let limit = free_bytes(target)?;
    let index = extract(file, &directory, limit)?;
    Ok(StagedBackup { target: target.to_owned(), directory, index, guard })
}

impl StagedBackup {
    /// Moves the files into place. The parts of the home that the backup has are replaced as a
    /// whole; the former ones are moved to a new directory in the home. All other entries stay.
    ///
    /// # Errors
    /// [`RestoreError::Io`]; the former files are in place again.
    pub fn install(mut self) -> Result<RestoreReport, RestoreError> {
        let summary = self.index.summarize();
        let replaced = move_into_place(&self.directory, &self.target, summary.created_ms)?;
        self.guard.created = None;
        Ok(RestoreReport { home: self.target, summary, replaced })
    }
}

impl Drop for StagingGuard {
    fn drop(&mut self) {
        // Empty after the installation, incomplete after an error.
        let _ = fs::remove_dir_all(&self.directory);
        if let Some(home) = &self.created {
            let _ = fs::remove_dir(home);
        }
    }
}

/// Returns the bytes that a backup may fill of a file system: a tenth of what is free stays.
fn free_bytes(target: &Path) -> Result<u64, RestoreError> {
    let found = rustix::fs::statvfs(target).map_err(io::Error::from);
    let found = found.map_err(RestoreError::io(target))?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    Ok(free - free / 10)
}

/// Extracts an archive to a new directory, and compares the result with the index. Its size is known
/// only at its end, and a small archive can have any: files of more than `limit` bytes together are
/// an error.
fn extract(file: &Path, staged: &Path, limit: u64) -> Result<BackupIndex, RestoreError> {
    DirBuilder::new().mode(0o700).create(staged).map_err(RestoreError::io(staged))?;
    let root = open_root(staged).map_err(RestoreError::io(staged))?;
    let mut room = Some(limit);
    let read =
        read_archive(file, &mut |path, content| write_entry(&root, path, content, &mut room));
    if room.is_none() {
        return Err(RestoreError::TooLarge { path: file.to_owned(), limit });
    }
    let index = read?;
    // Directories last and from below: one without write permission would reject its files.
    for entry in index.entries.iter().rev() {
        let path = staged.join(&entry.path);
        let own = if entry.file.is_some() { 0o600 } else { 0o700 };
        let mode = Permissions::from_mode(entry.mode & 0o755 | own);
        fs::set_permissions(&path, mode).map_err(RestoreError::io(&path))?;
    }
    sync_tree(staged).map_err(RestoreError::io(staged))?;
    Ok(index)
}

/// Writes an entry below a directory without following links; a directory has no content. `room` is
/// the number of bytes that files may still have, or `None` once one has more.
fn write_entry(
    root: &Dir,
    path: &ArchivePath,
    content: &mut dyn Read,
    room: &mut Option<u64>,
) -> io::Result<()> {
    let opened = open_parent(root, &path.path, true).map_err(to_io_error)?;
    let (parent, name) = (opened.0.as_ref().unwrap_or(root), opened.1);
    if path.is_directory {
        return match parent.create_dir(name) {
            // Made for a file in it: the order of the entries is free.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            created => created,
        };
    }
    let mut options = OpenOptions::new();
    // `create_new` fails on any existing entry, so no link is written through.
    options.write(true).create_new(true).mode(0o600);
    let mut file = parent.open_with(name, &options)?.into_std();
    let limit = room.unwrap_or(0);
    let written = io::copy(&mut content.take(limit.saturating_add(1)), &mut file)?;
    *room = limit.checked_sub(written);
    if room.is_none() {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    sync_file(&file)
}

fn to_io_error(error: JailError) -> io::Error {
    match error {
        JailError::Io(error) => error,
        _ => io::Error::new(io::ErrorKind::InvalidInput, "not a directory"),
    }
}

/// Moves the extracted parts to the target, and the former ones to a directory next to them. After
/// an error the former state is restored.
fn move_into_place(
    staged: &Path,
    target: &Path,
    created_ms: u64,
) -> Result<Option<PathBuf>, RestoreError> {
    let parts: Vec<_> = HOME_PARTS.iter().filter(|part| staged.join(part).exists()).collect();
    let replaced = free_name(target, created_ms);
    let mut moves = Vec::new();
    for part in &parts {
        let former = target.join(part);
        if former.symlink_metadata().is_ok() {
            moves.push((former, replaced.join(part)));
        }
    }
    let has_former = !moves.is_empty();
    if has_former {
        DirBuilder::new().mode(0o700).create(&replaced).map_err(RestoreError::io(&replaced))?;
    }
    moves.extend(parts.iter().map(|part| (staged.join(part), target.join(part))));
    for (done, (from, to)) in moves.iter().enumerate() {
        if let Err(source) = rename_synced(from, to) {
            // The failed one as well: it may have been renamed, and only not synchronized.
            for (from, to) in moves[..=done].iter().rev() {
                // A part that cannot be moved back stays where the report says.
                let _ = rename_synced(to, from);
            }
            let _ = fs::remove_dir(&replaced);
            return Err(RestoreError::Io { path: to.clone(), source });
        }
    }
    Ok(has_former.then_some(replaced))
}

/// Returns a name for the replaced parts that no entry of the target has.
fn free_name(target: &Path, created_ms: u64) -> PathBuf {
    let name = |number: u32| target.join(format!("replaced-by-backup-{created_ms}-{number}"));
    let mut names = (1..u32::MAX).map(name);
    names.find(|path| path.symlink_metadata().is_err()).unwrap_or_else(|| name(u32::MAX))
}

/// The path of an entry, below the home.
struct ArchivePath {
    path: RelPath,
    is_directory: bool,
}

/// A function that receives the path of each entry and its content.
type EntrySink<'s> = dyn FnMut(&ArchivePath, &mut dyn Read) -> io::Result<()> + 's;

/// Reads an archive to its end and compares it with its index.
fn read_archive(file: &Path, sink: &mut EntrySink<'_>) -> Result<BackupIndex, RestoreError> {
    let stream = File::open(file).map_err(RestoreError::io(file))?;
    if !stream.metadata().is_ok_and(|found| found.is_file()) {
        return Err(RestoreError::NotABackup { path: file.to_owned() });
    }
    let mut reader = ArchiveReader { file, last: None, found: BTreeMap::new() };
    let mut archive = Archive::new(GzDecoder::new(BufReader::new(stream)));
    let index = reader.read_entries(&mut archive, sink)?;
    // The checksum of the compressed data follows the archive.
    let rest = io::copy(&mut archive.into_inner(), &mut io::sink());
    rest.map_err(|source| reader.unreadable(source))?;
    reader.compare(&index)?;
    Ok(index)
}

/// The state of reading an archive.
struct ArchiveReader<'f> {
    file: &'f Path,
    last: Option<String>,
    /// The entries by their paths; a directory has no digest.
    found: BTreeMap<String, Option<FileDigest>>,
}

impl ArchiveReader<'_> {
    /// Reads all entries up to the index, which is the last one.
    fn read_entries(
        &mut self,
        archive: &mut Archive<impl Read>,
        sink: &mut EntrySink<'_>,
    ) -> Result<BackupIndex, RestoreError> {
        let mut long_name: Option<Vec<u8>> = None;
        // Raw entries: the length of a long name is limited before it is read.
        let entries = archive.entries().map_err(|source| self.unreadable(source))?.raw(true);
        for entry in entries {
            let mut entry = entry.map_err(|source| self.unreadable(source))?;
            let kind = entry.header().entry_type();
            if kind == EntryType::GNULongName {
                long_name = Some(self.read_long_name(&mut entry)?);
                continue;
            }
            let name = match long_name.take() {
                Some(name) => name,
                None => entry.path_bytes().into_owned(),
            };
            let shown = String::from_utf8_lossy(&name).into_owned();
            if name == INDEX_NAME.as_bytes() && kind == EntryType::Regular {
                return self.read_index(&mut entry);
            }
            let path = self.check_path(&name, kind).map_err(|problem| RestoreError::Path {
                path: self.file.to_owned(),
                entry: shown.clone(),
                problem,
            })?;
            let mut content = ContentReader { inner: DigestReader::new(&mut entry), failed: false };
            let written = sink(&path, &mut content);
            if let Err(source) = written {
                return Err(match content.failed {
                    true => self.unreadable(source),
                    false => RestoreError::Io { path: path.path.as_str().into(), source },
                });
            }
            let digest = (!path.is_directory).then(|| content.inner.finish());
            self.found.insert(path.path.to_string(), digest);
            self.last = Some(shown);
        }
        // Without an index it is an archive of another program, or one that was cut.
        Err(match self.last {
            None => RestoreError::NotABackup { path: self.file.to_owned() },
            Some(_) => self.unreadable(io::ErrorKind::UnexpectedEof.into()),
        })
    }

    fn read_long_name(&self, entry: &mut impl Read) -> Result<Vec<u8>, RestoreError> {
        let mut name = Vec::new();
        let read = entry.take(MAX_NAME_BYTES + 1).read_to_end(&mut name);
        read.map_err(|source| self.unreadable(source))?;
        // The format ends a long name with NUL.
        while name.last() == Some(&0) {
            name.pop();
        }
        Ok(name)
    }

    fn read_index(&self, entry: &mut impl Read) -> Result<BackupIndex, RestoreError> {
        let mut text = Vec::new();
        let read = entry.take(MAX_INDEX_BYTES).read_to_end(&mut text);
        read.map_err(|source| self.unreadable(source))?;
        #[derive(serde::Deserialize)]
        struct FormatOnly {
            format: u32,
        }
        let format = serde_json::from_slice::<FormatOnly>(&text);
        let format = format.map_err(|error| self.unreadable(error.into()))?.format;
        if format > FORMAT {
            let path = self.file.to_owned();
            return Err(RestoreError::Newer { path, format, limit: FORMAT });
        }
        serde_json::from_slice(&text).map_err(|error| self.unreadable(error.into()))
    }

    fn check_path(&self, name: &[u8], kind: EntryType) -> Result<ArchivePath, PathProblem> {
        let is_directory = match kind {
            EntryType::Directory => true,
            EntryType::Regular => false,
            _ => return Err(PathProblem::Special),
        };
        let name = std::str::from_utf8(name).map_err(|_| PathProblem::Encoding)?;
        let name = if is_directory { name.strip_suffix('/').unwrap_or(name) } else { name };
        let Some(below) = name.strip_prefix(FILES_PREFIX) else {
            // Such a path is refused in any case; the form is the more precise reason.
            RelPath::new(name)?;
            return Err(PathProblem::Foreign);
        };
        let path = RelPath::new(below)?;
        let part = path.components().next().unwrap_or_default();
        if !HOME_PARTS.contains(&part) {
            return Err(PathProblem::Foreign);
        }
        if self.found.contains_key(path.as_str()) {
            return Err(PathProblem::Repeated);
        }
        match self.found.len() < MAX_ENTRIES {
            true => Ok(ArchivePath { path, is_directory }),
            false => Err(PathProblem::TooMany),
        }
    }

    /// Compares the entries with the index.
    fn compare(&self, index: &BackupIndex) -> Result<(), RestoreError> {
        let damaged = |entry: &str, problem| {
            let (path, entry) = (self.file.to_owned(), entry.to_owned());
            Err(RestoreError::Damaged { path, entry, problem })
        };
        for IndexEntry { path, file, .. } in &index.entries {
            match (self.found.get(path), file) {
                (None, _) => return damaged(path, "is missing"),
                (Some(found), file) if found != file => {
                    return damaged(path, "differs from its sha256 in the index");
                }
                _ => {}
            }
        }
        let indexed: BTreeSet<_> = index.entries.iter().map(|entry| entry.path.as_str()).collect();
        match self.found.keys().find(|path| !indexed.contains(path.as_str())) {
            Some(path) => damaged(path, "is not in the index"),
            None if indexed.len() != index.entries.len() => damaged(INDEX_NAME, "has a path twice"),
            None => Ok(()),
        }
    }

    fn unreadable(&self, source: io::Error) -> RestoreError {
        RestoreError::Unreadable { path: self.file.to_owned(), last: self.last.clone(), source }
    }
}

/// The content of an entry, which tells its own errors from those of the sink.
struct ContentReader<R: Read> {
    inner: DigestReader<R>,
    failed: bool,
}

impl<R: Read> Read for ContentReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer);
        self.failed |= read.is_err();
        read
    }
}

#[cfg(test)]
mod tests {
    use skillhost_home::{Home, HomeSource};

    use super::*;
    use crate::create::{BackupOptions, create_backup};

    #[test]
    fn archive_above_limit_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let data = temp.path().join("home/sandbox/data/x");
        fs::create_dir_all(&data).unwrap();
        fs::write(data.join("zeros"), vec![0; 1 << 20]).unwrap();
        fs::write(data.join("more"), "x").unwrap();
        let home = Home::open(&temp.path().join("home"), HomeSource::Argument).unwrap();
        let file = temp.path().join("home.tar.gz");
        let report = create_backup(&home, &file, BackupOptions::default()).unwrap();
        assert!(report.file_bytes < 10_000);
        let size = (1 << 20) + 1;
        for limit in [0, 1 << 10, size - 1] {
            let staged = temp.path().join(format!("staged-{limit}"));
            let error = extract(&file, &staged, limit).unwrap_err();
            assert!(matches!(error, RestoreError::TooLarge { limit: at, .. } if at == limit));
            let largest = fs::metadata(staged.join("sandbox/data/x/zeros"));
            assert!(largest.map_or(0, |found| found.len()) <= limit + 1);
        }
        extract(&file, &temp.path().join("staged"), size).unwrap();
    }
}
