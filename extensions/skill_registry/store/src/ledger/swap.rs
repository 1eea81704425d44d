//! One file of a skill, replaced as a whole and only over what it is known to be.
//!
//! The new text is written beside the file and brought to the disk before it takes the file's name,
//! so that whoever looks, also after a crash, sees the old text or the new one. Where the system can
//! exchange two names, what was replaced is looked at once more afterwards: an edit that came in the
//! last moment is put back.

use std::io::{self, ErrorKind};

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt};
use cap_std::fs::{Dir, OpenOptions};
use skill_format::Digest;

use crate::fault;
use crate::jail::{self, JailError, RelPath};
use crate::ledger::tree;
use crate::temporary::{self, TEMPORARY_PREFIX};

/// What a file is to become.
#[derive(Clone, Copy, Debug)]
pub(super) enum SwapTarget<'a> {
    /// A file with this content and these executable bits.
    File { content: &'a [u8], mode: u32 },
    /// Nothing.
    Absent,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SwapOutcome {
    /// The file was replaced, made or removed.
    Done,
    /// The file was that already.
    Already,
    /// The file is neither the old nor the new one; it was left alone.
    Conflict,
}

/// One replacement of one file.
#[derive(Debug)]
pub(super) struct FileSwap<'a> {
    /// The skill's directory.
    pub(super) dir: &'a Dir,
    pub(super) path: &'a RelPath,
    /// The digest of what the file is known to be; nothing if there is none.
    pub(super) old: Option<Digest>,
    pub(super) new: SwapTarget<'a>,
    /// The content that has the digest `old`, where it is known.
    pub(super) before: Option<&'a [u8]>,
    /// Makes the temporary file's name; the same for every attempt.
    pub(super) token: &'a str,
}

impl FileSwap<'_> {
    /// Replaces the file.
    pub(super) fn execute(&self) -> Result<SwapOutcome, JailError> {
        let make = matches!(self.new, SwapTarget::File { .. });
        let (inner, name) = match jail::open_parent(self.dir, self.path, make) {
            Ok(parent) => parent,
            Err(JailError::NotFound) if make => return Err(JailError::NotRegular),
            // The directory goes with the last file in it.
            Err(JailError::NotFound) => {
                self.remove_empty_directories();
                return Ok(SwapOutcome::Already);
            }
            Err(error) => return Err(error),
        };
        let parent = inner.as_ref().unwrap_or(self.dir);
        let temporary = format!("{TEMPORARY_PREFIX}{}", self.token);
        if let Some(outcome) = self.resume(parent, name, &temporary)? {
            return Ok(outcome);
        }
        let found = digest_of(parent, name)?;
        if found == self.wanted() {
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
                // Whatever is left of it is looked at when this is tried again.
                let _ = self.resume(parent, name, &temporary);
                Err(error.into())
            }
        }
    }

    fn wanted(&self) -> Option<Digest> {
        match self.new {
            SwapTarget::File { content, .. } => Some(Digest::compute(content)),
            SwapTarget::Absent => None,
        }
    }

    /// Clears away what an interrupted attempt left; answers only if that shows a conflict.
    fn resume(
        &self,
        parent: &Dir,
        name: &str,
        temporary: &str,
    ) -> Result<Option<SwapOutcome>, JailError> {
        let path = RelPath::new(temporary).expect("a temporary name is a path");
        let Some(left) = tree::read_file(parent, &path)? else { return Ok(None) };
        let found = digest_of(parent, name)?;
        let new = match self.new {
            SwapTarget::File { content, .. } => Some(content),
            SwapTarget::Absent => None,
        };
        let ours = [new, self.before].into_iter().flatten().any(|text| text.starts_with(&left))
            || Some(Digest::compute(&left)) == self.old;
        // An edit that was swapped out is the only other thing that can lie there.
        let edit = found == self.wanted() && !ours;
        if !edit {
            fault::failpoint("file.sweep")?;
            parent.remove_file(temporary)?;
            return Ok(None);
        }
        match self.new {
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
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).follow(FollowSymlinks::No);
        let mut file = parent.open_with(temporary, &options)?;
        fault::write_all(&mut file, content)?;
        copy_permissions(&file, parent, name, mode)?;
        fault::failpoint("file.sync")?;
        file.sync_all()?;
        drop(file);
        let found = digest_of(parent, name).map_err(to_io)?;
        if found != self.old {
            parent.remove_file(temporary)?;
            return Ok(SwapOutcome::Conflict);
        }
        fault::failpoint("file.rename")?;
        let outcome = match self.old {
            None => make(parent, temporary, name)?,
            Some(old) => exchange(parent, temporary, name, old)?,
        };
        jail::sync_directory(parent)?;
        Ok(outcome)
    }

    fn remove(&self, parent: &Dir, name: &str, temporary: &str) -> io::Result<SwapOutcome> {
        fault::failpoint("file.rename")?;
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

    /// Removes the directories above the file that have nothing in them any more.
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
                // A process that ended in the middle has removed it.
                Err(JailError::NotFound) => {}
                Err(_) => return,
            }
        }
    }
}

/// Removes the temporary files beside the given files whose writers are gone; returns their number.
pub(super) fn remove_temporary_files<'p>(
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

/// Returns the digest of a file; nothing if it is not there.
fn digest_of(parent: &Dir, name: &str) -> Result<Option<Digest>, JailError> {
    let path = RelPath::new(name).expect("a component of a path is a path");
    Ok(tree::read_file(parent, &path)?.map(|content| Digest::compute(&content)))
}

fn to_io(error: JailError) -> io::Error {
    match error {
        JailError::Io(error) => error,
        JailError::NotFound => ErrorKind::NotFound.into(),
        JailError::Link | JailError::Directory | JailError::NotRegular => {
            io::Error::other("it is not a regular file")
        }
    }
}

/// Gives the new file the permissions of the old one, and its owner where that is allowed.
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

/// Gives a file that has the right content the right executable bits.
#[cfg(unix)]
fn set_executable(parent: &Dir, name: &str, mode: u32) -> Result<(), JailError> {
    use cap_std::fs::{MetadataExt, Permissions, PermissionsExt};
    let path = RelPath::new(name).expect("a component of a path is a path");
    let (file, metadata) = jail::open_file(parent, &path)?;
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
fn keep_access(_: &cap_std::fs::File, _: &Dir, _: &str, _: u32) -> io::Result<()> {
    Ok(())
}

/// Gives a new file its name, unless there is one of that name.
fn make(parent: &Dir, temporary: &str, name: &str) -> io::Result<SwapOutcome> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{RenameFlags, renameat_with};
        match renameat_with(parent, temporary, parent, name, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(SwapOutcome::Done),
            Err(error) if error == rustix::io::Errno::EXIST => {
                parent.remove_file(temporary)?;
                return Ok(SwapOutcome::Conflict);
            }
            Err(error) if !unsupported(error) => return Err(error.into()),
            Err(_) => {}
        }
    }
    parent.rename(temporary, parent, name)?;
    Ok(SwapOutcome::Done)
}

/// Puts the new file in place of the old one and looks at what was there.
fn exchange(parent: &Dir, temporary: &str, name: &str, old: Digest) -> io::Result<SwapOutcome> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{RenameFlags, renameat_with};
        match renameat_with(parent, temporary, parent, name, RenameFlags::EXCHANGE) {
            Ok(()) => {
                jail::sync_directory(parent)?;
                if digest_of(parent, temporary).map_err(to_io)? != Some(old) {
                    restore_original(parent, name, temporary)?;
                    return Ok(SwapOutcome::Conflict);
                }
                fault::failpoint("file.remove")?;
                parent.remove_file(temporary)?;
                return Ok(SwapOutcome::Done);
            }
            Err(error) if !unsupported(error) => return Err(error.into()),
            Err(_) => {}
        }
    }
    let _ = old;
    parent.rename(temporary, parent, name)?;
    Ok(SwapOutcome::Done)
}

/// Gives an edit that was swapped out its name back; the new file goes.
fn restore_original(parent: &Dir, name: &str, temporary: &str) -> io::Result<()> {
    parent.rename(temporary, parent, name)
}

#[cfg(target_os = "linux")]
fn unsupported(error: rustix::io::Errno) -> bool {
    use rustix::io::Errno;
    matches!(error, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
}
