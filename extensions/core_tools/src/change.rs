//! Changes of texts: all of them, or none.

use std::io::{self, ErrorKind as IoKind, Write as _};
use std::sync::PoisonError;

use cap_std::fs::{Dir, OpenOptions, Permissions};
use skillhost_files::jail::sync_directory;
use skillhost_files::sync_file;
use skillhost_files::temporary::unique_temporary_name;
use skillhost_sdk::{ErrorKind, ExtensionError};

use crate::jail::{CreatedDirectories, EntryError, EntryPath};
use crate::path::FilePath;
use crate::read::{self, CurrentText};
use crate::roots::FileRoots;
use crate::skill;
use crate::temporary::sweep;
use crate::text::{self, FILE_LIMIT};

/// The new text of one file.
#[derive(Clone, Debug)]
pub(crate) struct FileEdit {
    pub(crate) path: FilePath,
    /// The digest of the text it replaces; `None` for a new file.
    pub(crate) base: Option<String>,
    /// The text it replaces; empty for a new file.
    pub(crate) old: String,
    pub(crate) new: String,
}

/// The new texts of several files, each at another path.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangeSet {
    pub(crate) edits: Vec<FileEdit>,
}

/// Reads a text of the sandbox; returns `None` if the file does not exist, or the error that hides
/// it.
pub(crate) fn read_current(
    roots: &FileRoots,
    path: &FilePath,
) -> Result<Option<CurrentText>, ExtensionError> {
    roots.check_mutable(path)?;
    let location = match roots.open_entry(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        location => location?,
    };
    read_entry(&location, path)
}

fn read_entry(
    location: &EntryPath,
    path: &FilePath,
) -> Result<Option<CurrentText>, ExtensionError> {
    match location.metadata() {
        Ok(None) => Ok(None),
        Ok(Some(_)) => read::read_text(location, path).map(Some),
        Err(error) => Err(EntryError::from(error).with_path(path)),
    }
}

impl ChangeSet {
    /// Adds the new text of a file.
    pub(crate) fn add(&mut self, edit: FileEdit) -> Result<(), ExtensionError> {
        if edit.new.len() > FILE_LIMIT {
            return Err(text::too_large(&edit.path, edit.new.len() as u64));
        }
        // NUL marks binary data for `read_file`; a text with it could not be read back.
        if edit.new.contains('\0') {
            return Err(ExtensionError::invalid_argument(format!(
                "the text for `{}` has NUL",
                edit.path
            ))
            .with_hint("only text in UTF-8 can be written"));
        }
        self.edits.push(edit);
        Ok(())
    }

    /// Returns the ids of the skills that the change creates.
    pub(crate) fn new_skills(&self, roots: &FileRoots) -> Result<Vec<String>, ExtensionError> {
        let made = self.edits.iter().filter(|edit| edit.base.is_none());
        made.filter_map(|edit| skill::new_skill(roots, &edit.path).transpose()).collect()
    }

    /// Writes every file or none: a concurrent reader sees the old text or the new one.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] if a file has changed since the plan; those of the disk.
    pub(crate) fn commit(&self, roots: &FileRoots) -> Result<(), ExtensionError> {
        // A panic of another writer leaves no state in the mutex, so its poison is ignored.
        let _one = roots.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut made = CreatedDirectories::default();
        let mut staged = Vec::new();
        let mut work = || -> Result<(), ExtensionError> {
            // All files are written before the first rename: most errors occur while no file has
            // changed.
            for edit in &self.edits {
                staged.push(StagedFile::stage(roots, edit, &mut made)?);
            }
            swap_all(&mut staged)
        };
        let worked = work();
        if worked.is_err() {
            // Temporary files have to go first, else the created directories are not empty.
            drop(staged);
            made.undo();
            return worked;
        }
        // The names are only safe once their directories are.
        staged
            .iter()
            .try_for_each(|one| sync_directory(&one.location.dir))
            .map_err(ExtensionError::from)
    }
}

/// Renames every text to its path, or none of them.
fn swap_all(staged: &mut [StagedFile<'_>]) -> Result<(), ExtensionError> {
    for at in 0..staged.len() {
        if let Err(error) = staged[at].swap() {
            // In reverse order, so that every file gets the text it had before the first rename.
            staged[..at].iter_mut().rev().for_each(StagedFile::restore);
            return Err(error);
        }
    }
    Ok(())
}

/// A temporary file next to the file that it replaces.
struct StagedFile<'e> {
    edit: &'e FileEdit,
    location: EntryPath,
    old: Option<(Vec<u8>, Permissions)>,
    temporary: Option<String>,
}

impl<'e> StagedFile<'e> {
    fn stage(
        roots: &FileRoots,
        edit: &'e FileEdit,
        made: &mut CreatedDirectories,
    ) -> Result<Self, ExtensionError> {
        let path = &edit.path;
        roots.check_mutable(path)?;
        let location = roots.open_entry_creating(path, made)?;
        let now = read_entry(&location, path)?;
        // The digest is compared under the writers' lock, right before the write.
        if now.as_ref().map(|now| &now.digest) != edit.base.as_ref() {
            return Err(conflict_error(path));
        }
        // A rename would replace a write-protected file, so the mode is checked explicitly.
        if now.as_ref().is_some_and(|now| now.metadata.permissions().readonly()) {
            return Err(ExtensionError::new(
                ErrorKind::Denied,
                format!("`{path}` is write-protected"),
            )
            .with_hint("a person protected it; leave it as it is"));
        }
        let old = now.map(|now| (now.text.into_bytes(), now.metadata.permissions()));
        let mode = old.as_ref().map(|(_, mode)| mode.clone());
        let temporary = stage(&location.dir, edit.new.as_bytes(), mode)
            .map_err(|error| EntryError::from(error).with_path(path))?;
        Ok(Self { edit, location, old, temporary: Some(temporary) })
    }

    fn swap(&mut self) -> Result<(), ExtensionError> {
        let Some(temporary) = self.temporary.take() else { return Ok(()) };
        let (dir, name) = (&self.location.dir, &self.location.name);
        let swapped = match self.old {
            Some(_) => dir.rename(&temporary, dir, name),
            // A new file must not replace one that a concurrent process has just created.
            None => rename_new(dir, &temporary, dir, name),
        };
        swapped.map_err(|error| {
            let is_there = error.kind() == IoKind::AlreadyExists;
            // Kept for `drop`, which removes the temporary file.
            self.temporary = Some(temporary);
            if is_there {
                conflict_error(&self.edit.path)
            } else {
                EntryError::from(error).with_path(&self.edit.path)
            }
        })
    }

    /// Restores the file; best effort, because the first error is returned.
    fn restore(&mut self) {
        let (dir, name) = (&self.location.dir, &self.location.name);
        let _ = match self.old.take() {
            None => dir.remove_file(name),
            Some((bytes, mode)) => stage(dir, &bytes, Some(mode)).and_then(|temporary| {
                let back = dir.rename(&temporary, dir, name);
                back.inspect_err(|_| drop(dir.remove_file(&temporary)))
            }),
        };
    }
}

impl Drop for StagedFile<'_> {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            // The first error is returned; an error of the cleanup would only hide it.
            let _ = self.location.dir.remove_file(temporary);
        }
    }
}

fn conflict_error(path: &FilePath) -> ExtensionError {
    ExtensionError::new(ErrorKind::Conflict, format!("`{path}` has changed since it was looked at"))
        .with_hint("read_file again and make the change for the text as it is now")
}

/// Writes a text to a temporary file and syncs it to the disk.
fn stage(dir: &Dir, bytes: &[u8], mode: Option<Permissions>) -> io::Result<String> {
    // A leftover file does no harm: the sweep removes it.
    let _ = sweep(dir);
    let name = unique_temporary_name();
    let mut options = OpenOptions::new();
    // `create_new` does not follow a link that waits under this name.
    options.write(true).create_new(true);
    let written = (|| {
        let mut file = dir.open_with(&name, &options)?;
        file.write_all(bytes)?;
        if let Some(mode) = mode {
            file.set_permissions(mode)?;
        }
        // The content has to be on the disk before the rename makes it visible.
        sync_file(&file.into_std())
    })();
    match written {
        Ok(()) => Ok(name),
        Err(error) => {
            let _ = dir.remove_file(&name);
            Err(error)
        }
    }
}

/// Renames an entry to a name that does not exist yet.
pub(crate) fn rename_new(from: &Dir, old: &str, to: &Dir, new: &str) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{RenameFlags, renameat_with};
        match renameat_with(from, old, to, new, RenameFlags::NOREPLACE) {
            // The file system knows no such flag.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {}
            renamed => return renamed.map_err(io::Error::from),
        }
    }
    // Without the flag a small race remains between the check and the rename.
    match to.symlink_metadata(new) {
        Ok(_) => Err(IoKind::AlreadyExists.into()),
        Err(error) if error.kind() == IoKind::NotFound => from.rename(old, to, new),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use skillhost_files::sha256_hex;

    use super::*;

    fn edit(path: &str, base: Option<&str>, new: &str) -> FileEdit {
        let path = FilePath::new(path).unwrap();
        let digest = base.map(|base| sha256_hex(base.as_bytes()));
        let old = base.unwrap_or_default().to_owned();
        FileEdit { path, base: digest, old, new: new.to_owned() }
    }

    #[test]
    fn failed_swap_restores_earlier_files() {
        let home = tempfile::tempdir().unwrap();
        let at = |path: &str| home.path().join("sandbox").join(path);
        fs::create_dir(at("")).unwrap();
        fs::write(at("a"), "old").unwrap();
        let roots = FileRoots::new(home.path());
        let edits = [edit("a", Some("old"), "new"), edit("b", None, "b"), edit("c", None, "c")];
        let mut made = CreatedDirectories::default();
        let stage = |edit| StagedFile::stage(&roots, edit, &mut made).unwrap();
        let mut staged: Vec<_> = edits.iter().map(stage).collect();
        // A concurrent process creates the last one at the last moment.
        fs::write(at("c"), "theirs").unwrap();
        let error = swap_all(&mut staged).unwrap_err();
        assert_eq!(error.message(), "`c` has changed since it was looked at");
        drop(staged);
        let mut left: Vec<_> =
            fs::read_dir(at("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["a", "c"]);
        assert_eq!(fs::read_to_string(at("a")).unwrap(), "old");
        assert_eq!(fs::read_to_string(at("c")).unwrap(), "theirs");
    }

    #[test]
    fn unused_directories_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let roots = FileRoots::new(home.path());
        fs::create_dir_all(home.path().join("sandbox/kept")).unwrap();
        let change = ChangeSet {
            edits: vec![edit("kept/x/y/new", None, "1"), edit("kept/gone", Some("old"), "2")],
        };
        let error = change.commit(&roots).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert_eq!(fs::read_dir(home.path().join("sandbox/kept")).unwrap().count(), 0);
    }
}
