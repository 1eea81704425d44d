//! Atomic replacement of one file of a skill, if it has the expected content.
//!
//! The new text is written next to the file and synced to the disk before it takes the file's name,
//! so that every reader, also after a crash, sees the old text or the new one. If the system can
//! exchange two names, the replaced file is checked once more afterwards, and an edit that came in
//! the last moment is restored.

use std::io::{self, ErrorKind};

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt};
use cap_std::fs::{Dir, OpenOptions};
use skill_format::Digest;
use skillhost_files::jail::{self, JailError, RelPath};
use skillhost_files::temporary::{self, TEMPORARY_PREFIX};
use skillhost_files::{fault, sync_file};

use crate::files::tree;

/// The state that a file is to have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SwapTarget<'a> {
    /// A file with this content and these executable bits.
    File { content: &'a [u8], mode: u32 },
    /// No file.
    Absent,
}

/// The result of a replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SwapOutcome {
    /// The file was replaced, created or removed.
    Done,
    /// The file already had that state.
    Already,
    /// The file is neither the old nor the new one; it was not changed.
    Conflict,
}

/// A replacement of one file.
#[derive(Debug)]
pub(crate) struct FileSwap<'a> {
    /// The skill's directory.
    pub(crate) dir: &'a Dir,
    pub(crate) path: &'a RelPath,
    /// The digest of the expected file; `None` if no file is expected.
    pub(crate) old: Option<Digest>,
    pub(crate) new: SwapTarget<'a>,
    /// The content with the digest `old`, if it is known.
    pub(crate) before: Option<&'a [u8]>,
    /// The suffix of the temporary file's name; the same for every attempt.
    pub(crate) token: &'a str,
}

impl FileSwap<'_> {
    /// Replaces the file.
    pub(crate) fn execute(&self) -> Result<SwapOutcome, JailError> {
        let make = matches!(self.new, SwapTarget::File { .. });
        let (inner, name) = match jail::open_parent(self.dir, self.path, make) {
            Ok(parent) => parent,
            // `open_parent` creates missing directories: a path that is still missing is not a
            // directory.
            Err(JailError::NotFound) if make => return Err(JailError::NotRegular),
            // The directory was removed together with its last file.
            Err(JailError::NotFound) => {
                self.remove_empty_directories();
                return Ok(SwapOutcome::Already);
            }
            Err(error) => return Err(error),
        };
        let parent = inner.as_ref().unwrap_or(self.dir);
        let temporary = format!("{TEMPORARY_PREFIX}{}", self.token);
        // Before the file is looked at: an attempt that crashed may have left an edit to restore.
        if let Some(outcome) = self.resume(parent, name, &temporary)? {
            return Ok(outcome);
        }
        let found = digest_of(parent, name)?;
        if found == self.target_digest() {
            // The content is right; a crash may have come between it and the executable bits.
            match self.new {
                SwapTarget::File { mode, .. } => set_executable(parent, name, mode)?,
                SwapTarget::Absent => self.remove_empty_directories(),
            }
            return Ok(SwapOutcome::Already);
        }
        if found != self.old {
            return Ok(SwapOutcome::Conflict);
        }
        let outcome = match self.new {
            SwapTarget::File { content, mode } => {
                self.replace(parent, name, &temporary, content, mode)
            }
            SwapTarget::Absent => self.remove(parent, name, &temporary),
        };
        match outcome {
            Ok(outcome) => Ok(outcome),
            Err(error) => {
                // The next attempt calls `resume` again if this one fails.
                let _ = self.resume(parent, name, &temporary);
                Err(error.into())
            }
        }
    }

    fn target_digest(&self) -> Option<Digest> {
        match self.new {
            SwapTarget::File { content, .. } => Some(Digest::compute(content)),
            SwapTarget::Absent => None,
        }
    }

    /// Removes the leftover of an interrupted attempt; returns an outcome only for a conflict.
    fn resume(
        &self,
        parent: &Dir,
        name: &str,
        temporary: &str,
    ) -> Result<Option<SwapOutcome>, JailError> {
        let path = RelPath::new(temporary).expect("a temporary name is a path");
        let Some(leftover) = tree::read_file(parent, &path)? else { return Ok(None) };
        let found = digest_of(parent, name)?;
        let new = match self.new {
            SwapTarget::File { content, .. } => Some(content),
            SwapTarget::Absent => None,
        };
        // A crash may have cut the file short, so a prefix suffices.
        let ours = [new, self.before].into_iter().flatten().any(|text| text.starts_with(&leftover))
            || Some(Digest::compute(&leftover)) == self.old;
        // The only other possible content is an edit that was swapped out.
        let edit = found == self.target_digest() && !ours;
        if !edit {
            fault::failpoint("file.sweep")?;
            parent.remove_file(temporary)?;
            return Ok(None);
        }
        match self.new {
            // Either way the edit gets its name back, over the new file if there is one.
            SwapTarget::File { .. } => restore_original(parent, name, temporary)?,
            SwapTarget::Absent => parent.rename(temporary, parent, name)?,
        }
        jail::sync_directory(parent)?;
        Ok(Some(SwapOutcome::Conflict))
    }

    fn replace(
        &self,
        parent: &Dir,
        name: &str,
        temporary: &str,
        content: &[u8],
        mode: u32,
    ) -> io::Result<SwapOutcome> {
        fault::failpoint("file.create")?;
        // `create_new` fails on a link that another program placed under this name.
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).follow(FollowSymlinks::No);
        let mut file = parent.open_with(temporary, &options)?;
        fault::write_all(&mut file, content)?;
        copy_permissions(&file, parent, name, mode)?;
        fault::failpoint("file.sync")?;
        sync_file(&file.into_std())?;
        // Writing took time: checked again right before the name changes.
        let found = digest_of(parent, name).map_err(to_io)?;
        if found != self.old {
            parent.remove_file(temporary)?;
            return Ok(SwapOutcome::Conflict);
        }
        fault::failpoint("file.rename")?;
        let outcome = match self.old {
            None => publish_new(parent, temporary, name)?,
            Some(old) => exchange_files(parent, temporary, name, old)?,
        };
        jail::sync_directory(parent)?;
        Ok(outcome)
    }

    fn remove(&self, parent: &Dir, name: &str, temporary: &str) -> io::Result<SwapOutcome> {
        fault::failpoint("file.rename")?;
        // Renamed before it is compared: no edit can come between the comparison and the removal.
        parent.rename(name, parent, temporary)?;
        if digest_of(parent, temporary).map_err(to_io)? != self.old {
            parent.rename(temporary, parent, name)?;
            return Ok(SwapOutcome::Conflict);
        }
        fault::failpoint("file.remove")?;
        parent.remove_file(temporary)?;
        jail::sync_directory(parent)?;
        self.remove_empty_directories();
        Ok(SwapOutcome::Done)
    }

    /// Removes the parent directories that are now empty.
    fn remove_empty_directories(&self) {
        let mut path = self.path.as_str();
        while let Some((above, _)) = path.rsplit_once('/') {
            path = above;
            let Ok(above_path) = RelPath::new(above) else { return };
            match jail::open_parent(self.dir, &above_path, false) {
                Ok((inner, name)) => {
                    let removed = inner.as_ref().unwrap_or(self.dir).remove_dir(name);
                    if removed.is_err_and(|error| error.kind() != ErrorKind::NotFound) {
                        return;
                    }
                }
                // An earlier, interrupted attempt has removed it.
                Err(JailError::NotFound) => {}
                Err(_) => return,
            }
        }
    }
}

/// Removes the temporary files of ended processes next to the given files; returns their number.
pub(crate) fn remove_temporary_files<'p>(
    dir: &Dir,
    paths: impl Iterator<Item = &'p RelPath>,
) -> io::Result<usize> {
    let mut swept = 0;
    for path in paths {
        let Ok((inner, _)) = jail::open_parent(dir, path, false) else { continue };
        let parent = inner.as_ref().unwrap_or(dir);
        swept += temporary::sweep(parent, true)?;
    }
    Ok(swept)
}

/// Returns the digest of a file; `None` if it does not exist.
fn digest_of(parent: &Dir, name: &str) -> Result<Option<Digest>, JailError> {
    let path = RelPath::new(name).expect("a component of a path is a path");
    Ok(tree::read_file(parent, &path)?.map(|content| Digest::compute(&content)))
}

fn to_io(error: JailError) -> io::Error {
    match error {
        JailError::Io(error) => error,
        JailError::NotFound => ErrorKind::NotFound.into(),
        JailError::Link | JailError::Directory | JailError::NotRegular => {
            io::Error::other("not a regular file")
        }
    }
}

/// Copies the permissions of the old file to the new one, and its owner where that is allowed.
#[cfg(unix)]
fn copy_permissions(
    file: &cap_std::fs::File,
    parent: &Dir,
    name: &str,
    mode: u32,
) -> io::Result<()> {
    use cap_std::fs::{MetadataExt, Permissions, PermissionsExt};
    use rustix::fs::{Gid, Uid, fchown};
    let bits = match parent.symlink_metadata(name) {
        Ok(old) => {
            let own = file.metadata()?;
            if (own.uid(), own.gid()) != (old.uid(), old.gid()) {
                // Only root may give files away; for others the file becomes theirs.
                let (uid, gid) = (Uid::from_raw(old.uid()), Gid::from_raw(old.gid()));
                let _ = fchown(file, Some(uid), Some(gid));
            }
            old.mode() & 0o666
        }
        Err(_) => 0o644,
    };
    file.set_permissions(Permissions::from_mode(bits | mode))
}

/// Sets the executable bits of a file whose content is right.
#[cfg(unix)]
fn set_executable(parent: &Dir, name: &str, mode: u32) -> Result<(), JailError> {
    use cap_std::fs::{MetadataExt, Permissions, PermissionsExt};
    let path = RelPath::new(name).expect("a component of a path is a path");
    let (file, metadata) = jail::open_file(parent, &path)?;
    // Only on a difference: a change of the mode would fail for a file of another owner.
    if metadata.mode() & 0o111 != mode {
        fault::failpoint("file.mode")?;
        file.set_permissions(Permissions::from_mode(metadata.mode() & 0o666 | mode))?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn set_executable(_: &Dir, _: &str, _: u32) -> Result<(), JailError> {
    Ok(())
}

#[cfg(not(unix))]
fn copy_permissions(_: &cap_std::fs::File, _: &Dir, _: &str, _: u32) -> io::Result<()> {
    Ok(())
}

/// Gives a new file its name, unless a file of that name exists.
fn publish_new(parent: &Dir, temporary: &str, name: &str) -> io::Result<SwapOutcome> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{RenameFlags, renameat_with};
        match renameat_with(parent, temporary, parent, name, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(SwapOutcome::Done),
            // Another program created the file after the last check.
            Err(error) if error == rustix::io::Errno::EXIST => {
                parent.remove_file(temporary)?;
                return Ok(SwapOutcome::Conflict);
            }
            Err(error) if !is_unsupported(error) => return Err(error.into()),
            Err(_) => {}
        }
    }
    // Without the flag a file that another program creates just now would be overwritten; that is
    // the best the other systems offer.
    parent.rename(temporary, parent, name)?;
    Ok(SwapOutcome::Done)
}

/// Exchanges the new file with the old one, then checks the replaced content.
fn exchange_files(
    parent: &Dir,
    temporary: &str,
    name: &str,
    old: Digest,
) -> io::Result<SwapOutcome> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{RenameFlags, renameat_with};
        match renameat_with(parent, temporary, parent, name, RenameFlags::EXCHANGE) {
            Ok(()) => {
                // The old content must not be removed before the exchange is on the disk.
                jail::sync_directory(parent)?;
                if digest_of(parent, temporary).map_err(to_io)? != Some(old) {
                    restore_original(parent, name, temporary)?;
                    return Ok(SwapOutcome::Conflict);
                }
                fault::failpoint("file.remove")?;
                parent.remove_file(temporary)?;
                return Ok(SwapOutcome::Done);
            }
            Err(error) if !is_unsupported(error) => return Err(error.into()),
            Err(_) => {}
        }
    }
    // Only Linux compares it again.
    let _ = old;
    parent.rename(temporary, parent, name)?;
    Ok(SwapOutcome::Done)
}

/// Restores the name of an edit that was swapped out; this replaces the new file.
fn restore_original(parent: &Dir, name: &str, temporary: &str) -> io::Result<()> {
    parent.rename(temporary, parent, name)
}

#[cfg(target_os = "linux")]
fn is_unsupported(error: rustix::io::Errno) -> bool {
    use rustix::io::Errno;
    // Old kernels do not know the call or the flag, some file systems do not support it.
    matches!(error, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
}
