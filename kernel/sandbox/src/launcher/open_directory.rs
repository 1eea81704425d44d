//! Directories that are opened by descriptor: links are not followed, paths may have any length,
//! and what a run has made unreadable is made readable.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, Stat, chmod, fchmod, fstat, mkdirat, openat,
    renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::policy_paths::open_path;

/// The deepest nesting that is entered below a directory of the policy.
pub(super) const MAX_DEPTH: usize = 256;

/// The device and the number of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileIdentity {
    pub(super) device: u64,
    pub(super) number: u64,
}

impl FileIdentity {
    pub(super) fn of(meta: &Stat) -> Self {
        Self { device: meta.st_dev, number: meta.st_ino }
    }
}

/// A directory that can be listed and searched.
#[derive(Debug)]
pub(super) struct OpenDirectory {
    descriptor: OwnedFd,
    pub(super) identity: FileIdentity,
    /// The mode that it gets again on drop, if it was unreadable.
    original: Option<Mode>,
}

/// An entry of a directory.
#[derive(Debug)]
pub(super) struct DirectoryEntry {
    pub(super) name: CString,
    pub(super) is_directory: bool,
}

impl DirectoryEntry {
    pub(super) fn os_name(&self) -> &OsStr {
        OsStr::from_bytes(self.name.as_bytes())
    }
}

impl OpenDirectory {
    /// Opens a directory of the policy.
    pub(super) fn open_root(path: &Path) -> io::Result<Self> {
        Self::open_in(open_path(path)?.as_fd(), c".")
    }

    /// Opens an entry of a directory. An unreadable directory of this user gets its mode again on
    /// drop.
    pub(super) fn open_in(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut original = None;
        let opened = match openat(parent, name, flags, Mode::empty()) {
            Err(Errno::ACCESS) => {
                let place = openat(parent, name, flags | OFlags::PATH, Mode::empty())?;
                original = Some(add_owner_access(place.as_fd())?);
                openat(&place, c".", flags, Mode::empty())
            }
            opened => opened,
        };
        let descriptor = opened?;
        let meta = fstat(&descriptor)?;
        let mode = Mode::from_raw_mode(meta.st_mode);
        // Its entries could be listed but not opened.
        if !mode.contains(Mode::XUSR) && meta.st_uid == geteuid().as_raw() && !geteuid().is_root() {
            fchmod(&descriptor, mode | Mode::RWXU)?;
            original = Some(mode);
        }
        Ok(Self { descriptor, identity: FileIdentity::of(&meta), original })
    }

    /// Tests whether it had to be made readable.
    pub(super) fn was_unreadable(&self) -> bool {
        self.original.is_some()
    }

    /// Leaves it readable.
    pub(super) fn leave_readable(&mut self) {
        self.original = None;
    }

    /// Lists the entries.
    pub(super) fn entries(&self) -> io::Result<Vec<DirectoryEntry>> {
        let mut entries = Vec::new();
        for entry in Dir::read_from(&self.descriptor)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let is_directory = match entry.file_type() {
                FileType::Unknown => {
                    let kind = self.stat(name).map(|meta| FileType::from_raw_mode(meta.st_mode));
                    kind.is_ok_and(|kind| kind == FileType::Directory)
                }
                kind => kind == FileType::Directory,
            };
            entries.push(DirectoryEntry { name: name.to_owned(), is_directory });
        }
        Ok(entries)
    }

    /// Returns the facts about an entry; a link is not followed.
    pub(super) fn stat(&self, name: &CStr) -> io::Result<Stat> {
        Ok(statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Removes everything in it.
    fn clear(&self) -> io::Result<()> {
        add_owner_access(self.as_fd())?;
        let mut number = 0_u64;
        loop {
            let entries = self.entries()?;
            if entries.is_empty() {
                return Ok(());
            }
            for entry in entries {
                if unlink(self.as_fd(), &entry.name).is_ok() {
                    continue;
                }
                let mut below = Self::open_in(self.as_fd(), &entry.name)?;
                below.leave_readable();
                add_owner_access(below.as_fd())?;
                for inner in below.entries()? {
                    if unlink(below.as_fd(), &inner.name).is_ok() {
                        continue;
                    }
                    let mut moved = Self::open_in(below.as_fd(), &inner.name)?;
                    moved.leave_readable();
                    add_owner_access(moved.as_fd())?;
                    // Moved up instead of entered, so that the depth has no limit.
                    loop {
                        number += 1;
                        let name = format!("{number}");
                        match renameat(&below.descriptor, &*inner.name, &self.descriptor, name) {
                            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
                            renamed => break renamed?,
                        }
                    }
                }
                drop(below);
                unlinkat(&self.descriptor, &*entry.name, AtFlags::REMOVEDIR)?;
            }
        }
    }
}

impl AsFd for OpenDirectory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for OpenDirectory {
    fn drop(&mut self) {
        if let Some(mode) = self.original {
            // It was changed only so that this program could read it.
            let _ = fchmod(&self.descriptor, mode);
        }
    }
}

/// An entry at a path below a directory of the policy, whose parent was opened without following
/// links.
pub(super) struct PinnedEntry {
    parent: OwnedFd,
    name: CString,
}

impl PinnedEntry {
    /// Opens the parent of a path. With `make`, missing directories are created, and other files
    /// in their place set aside.
    pub(super) fn open(roots: &[PathBuf], path: &Path, make: bool) -> io::Result<Self> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        let inside = roots.iter().filter(|root| path.starts_with(root) && path != **root);
        let root = inside.max_by_key(|root| root.as_os_str().len()).ok_or_else(invalid)?;
        let below = path.strip_prefix(root).map_err(io::Error::other)?;
        let mut parent = open_path(root)?;
        for component in below.parent().into_iter().flat_map(Path::components) {
            let name = CString::new(component.as_os_str().as_bytes())?;
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mut opened = openat(&parent, &*name, flags, Mode::empty());
            if make && opened.is_err() {
                let entry = Self { parent, name };
                if opened.is_err_and(|error| error != Errno::NOENT) {
                    entry.set_aside()?;
                }
                entry.change(|entry| {
                    mkdirat(&entry.parent, &*entry.name, Mode::from_raw_mode(0o755))
                })?;
                opened = openat(&entry.parent, &*entry.name, flags, Mode::empty());
            }
            parent = opened?;
        }
        let name = CString::new(below.file_name().ok_or_else(invalid)?.as_bytes())?;
        Ok(Self { parent, name })
    }

    /// Returns the facts about the entry; a link is not followed.
    pub(super) fn stat(&self) -> io::Result<Stat> {
        Ok(statat(&self.parent, &*self.name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Opens the entry as a directory.
    pub(super) fn open_directory(&self) -> io::Result<OpenDirectory> {
        OpenDirectory::open_in(self.parent.as_fd(), &self.name)
    }

    /// Opens the entry; a link is not followed and a pipe not waited for.
    pub(super) fn open_file(&self, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(openat(&self.parent, &*self.name, flags, Mode::empty())?)
    }

    /// Creates a file.
    pub(super) fn create_file(&self, mode: Mode) -> io::Result<OwnedFd> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        self.change(|entry| openat(&entry.parent, &*entry.name, flags, mode))
    }

    /// Returns the target of a link.
    pub(super) fn read_link(&self) -> io::Result<CString> {
        Ok(rustix::fs::readlinkat(&self.parent, &*self.name, Vec::new())?)
    }

    /// Creates a link.
    pub(super) fn create_link(&self, target: &CStr) -> io::Result<()> {
        self.change(|entry| rustix::fs::symlinkat(target, &entry.parent, &*entry.name))
    }

    /// Removes the entry, and all that is in it.
    pub(super) fn remove(&self) -> io::Result<()> {
        let removed = self.change(|entry| unlink(entry.parent.as_fd(), &entry.name));
        if removed.is_ok() {
            return removed;
        }
        let mut directory = self.open_directory()?;
        directory.leave_readable();
        directory.clear()?;
        drop(directory);
        self.change(|entry| unlinkat(&entry.parent, &*entry.name, AtFlags::REMOVEDIR))
    }

    /// Moves the entry to a place that is free.
    pub(super) fn move_to(&self, other: &Self) -> io::Result<()> {
        add_owner_access(other.parent.as_fd())?;
        self.change(|entry| {
            let flags = RenameFlags::NOREPLACE;
            renameat_with(&entry.parent, &*entry.name, &other.parent, &*other.name, flags)
        })
    }

    /// Gives the entry a name that no program obeys.
    pub(super) fn set_aside(&self) -> io::Result<()> {
        let name = self.name.to_string_lossy();
        let name = if name.len() > 200 { "entry" } else { &*name };
        for number in 1..1_000 {
            let aside = CString::new(format!("{name}.set-aside-{number}"))?;
            let renamed = self.change(|entry| {
                let flags = RenameFlags::NOREPLACE;
                renameat_with(&entry.parent, &*entry.name, &entry.parent, &*aside, flags)
            });
            match renamed {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                renamed => return renamed,
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Changes the parent; if its mode forbids that, it is made writable first.
    fn change<T>(&self, change: impl Fn(&Self) -> Result<T, Errno>) -> io::Result<T> {
        match change(self) {
            Err(Errno::ACCESS) => {
                add_owner_access(self.parent.as_fd())?;
                Ok(change(self)?)
            }
            changed => Ok(changed?),
        }
    }
}

/// Tests whether a file belongs to a user as whom neither this program nor a run of it creates files.
pub(super) fn is_of_other_user(meta: &Stat) -> bool {
    !geteuid().is_root() && meta.st_uid != geteuid().as_raw()
}

/// Removes a file, a link or an empty directory.
fn unlink(parent: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) => unlinkat(parent, name, AtFlags::REMOVEDIR),
        removed => removed,
    }
}

/// Gives the owner all access to a directory, and returns the mode that it had.
fn add_owner_access(directory: BorrowedFd<'_>) -> io::Result<Mode> {
    let mode = Mode::from_raw_mode(fstat(directory)?.st_mode);
    if !mode.contains(Mode::RWXU) {
        // A descriptor that is only a place has no other way.
        chmod(format!("/proc/self/fd/{}", directory.as_raw_fd()), mode | Mode::RWXU)?;
    }
    Ok(mode)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn unreadable_directory_is_listed_and_gets_its_mode_again() {
        let base = tempfile::tempdir().unwrap();
        let closed = base.path().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::write(closed.join("file"), "").unwrap();
        for mode in [0o311, 0o600, 0o000] {
            fs::set_permissions(&closed, fs::Permissions::from_mode(mode)).unwrap();
            let opened = OpenDirectory::open_root(&closed).unwrap();
            assert_eq!(opened.entries().unwrap().len(), 1);
            assert!(opened.stat(c"file").is_ok());
            drop(opened);
            assert_eq!(fs::metadata(&closed).unwrap().permissions().mode() & 0o777, mode);
        }
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn deep_and_closed_tree_is_removed() {
        let base = tempfile::tempdir().unwrap();
        let roots = [base.path().to_owned()];
        let mut place: OwnedFd = fs::File::open(base.path()).unwrap().into();
        let name = "n".repeat(200);
        for level in 0..2_000 {
            let name = if level == 0 { "top" } else { &name };
            mkdirat(&place, name, Mode::RWXU).unwrap();
            let file = format!("file{level}");
            openat(&place, file, OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
            let below = openat(&place, name, OFlags::RDONLY, Mode::empty()).unwrap();
            fchmod(&place, Mode::from_raw_mode(if level % 3 == 1 { 0o311 } else { 0o700 }))
                .unwrap();
            place = below;
        }
        let top = base.path().join("top");
        PinnedEntry::open(&roots, &top, false).unwrap().remove().unwrap();
        assert!(top.symlink_metadata().is_err());
    }

    #[test]
    fn directories_are_made_without_following_links() {
        let base = tempfile::tempdir().unwrap();
        let (root, outside) = (base.path().join("root"), base.path().join("outside"));
        fs::create_dir_all(&root).unwrap();
        fs::create_dir_all(&outside).unwrap();
        symlink(&outside, root.join("a")).unwrap();
        let roots = [root.clone()];
        let path = root.join("a/b/file");
        assert!(PinnedEntry::open(&roots, &path, false).is_err());
        let entry = PinnedEntry::open(&roots, &path, true).unwrap();
        entry.create_file(Mode::RWXU).unwrap();
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        assert!(path.is_file() && root.join("a.set-aside-1").is_symlink());
        assert!(PinnedEntry::open(&roots, &outside.join("x"), true).is_err(), "outside");
    }
}
