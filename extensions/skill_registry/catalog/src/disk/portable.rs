//! The same calls on platforms other than Unix: through cap-std, link by link.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use cap_fs_ext::{DirExt, FollowSymlinks, MetadataExt, OpenOptionsFollowExt};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, FileType, Metadata, OpenOptions};

use super::{DirectoryListing, FileKind, FileStat};
use crate::signature::FileSignature;

/// An open root directory.
#[derive(Debug)]
pub(crate) struct RootDir(Dir);

impl RootDir {
    /// Opens a root. Links in the path of the root itself are the operator's and are followed.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Dir::open_ambient_dir(path, ambient_authority()).map(Self)
    }

    /// Examines a path below the root; an empty path is the root.
    pub(crate) fn stat(&self, rel: &str) -> io::Result<FileStat> {
        if rel.is_empty() {
            return self.0.dir_metadata().map(|metadata| convert(&metadata));
        }
        let (dir, last) = self.parent(rel)?;
        dir.symlink_metadata(last).map(|metadata| convert(&metadata))
    }

    /// Opens a path below the root for reading.
    pub(crate) fn open_file(&self, rel: &str) -> io::Result<File> {
        let (dir, last) = self.parent(rel)?;
        // Without a flag against waiting, the kind has to be known before the file is opened.
        let kind = convert(&dir.symlink_metadata(last)?).kind;
        if kind != FileKind::Regular {
            return Err(io::Error::other(format!("it is {}", kind.describe())));
        }
        let mut options = OpenOptions::new();
        options.read(true).follow(FollowSymlinks::No);
        dir.open_with(last, &options).map(cap_std::fs::File::into_std)
    }

    /// Lists a directory below the root; an empty path is the root.
    pub(crate) fn list(&self, rel: &str) -> io::Result<DirectoryListing> {
        let dir = if rel.is_empty() {
            self.0.try_clone()?
        } else {
            let (dir, last) = self.parent(rel)?;
            dir.open_dir_nofollow(last)?
        };
        let mut listing = DirectoryListing::default();
        for entry in dir.entries()? {
            let entry = entry?;
            let kind = kind(entry.file_type()?);
            match entry.file_name().into_string() {
                Ok(name) => listing.push(&name, kind),
                Err(name) => listing.push_not_utf8(name, kind),
            }
        }
        Ok(listing.sorted())
    }

    fn parent<'p>(&self, rel: &'p str) -> io::Result<(Dir, &'p str)> {
        let (parents, last) = rel.rsplit_once('/').unwrap_or(("", rel));
        let mut dir = self.0.try_clone()?;
        for component in parents.split('/').filter(|component| !component.is_empty()) {
            dir = dir.open_dir_nofollow(component)?;
        }
        Ok((dir, last))
    }
}

/// Examines an open file.
pub(crate) fn stat_file(file: &File) -> io::Result<FileStat> {
    Metadata::from_file(file).map(|metadata| convert(&metadata))
}

fn kind(file_type: FileType) -> FileKind {
    if file_type.is_file() {
        FileKind::Regular
    } else if file_type.is_dir() {
        FileKind::Directory
    } else if file_type.is_symlink() {
        FileKind::Symlink
    } else {
        FileKind::Unknown
    }
}

fn convert(metadata: &Metadata) -> FileStat {
    let mtime = metadata.modified().map_or(UNIX_EPOCH, cap_std::time::SystemTime::into_std);
    FileStat {
        kind: kind(metadata.file_type()),
        signature: FileSignature {
            dev: MetadataExt::dev(metadata),
            ino: MetadataExt::ino(metadata),
            size: metadata.len(),
            mtime_ns: nanos(mtime),
            ctime_ns: 0,
            mode: u32::from(metadata.permissions().readonly()),
        },
    }
}

fn nanos(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_nanos()).unwrap_or(i64::MAX),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn portable_and_unix_calls_agree() {
        let temp = tempfile::tempdir().unwrap();
        for dir in ["b/skill", "a", "c"] {
            std::fs::create_dir_all(temp.path().join(dir)).unwrap();
        }
        std::fs::write(temp.path().join("b/skill/SKILL.md"), "text").unwrap();
        std::os::unix::fs::symlink("b", temp.path().join("link")).unwrap();
        let portable = RootDir::open(temp.path()).unwrap();
        let unix = super::super::unix::RootDir::open(temp.path()).unwrap();

        let names = |listing: &DirectoryListing| -> Vec<(String, FileKind)> {
            listing.iter().map(|(name, kind)| (name.to_owned(), kind)).collect()
        };
        assert_eq!(names(&portable.list("").unwrap()), names(&unix.list("").unwrap()));
        assert_eq!(
            names(&portable.list("b").unwrap()),
            [("skill".to_owned(), FileKind::Directory)]
        );
        assert!(portable.list("link").is_err());

        let same = |rel: &str| {
            let (mut a, b) = (portable.stat(rel).unwrap(), unix.stat(rel).unwrap());
            a.signature.ctime_ns = b.signature.ctime_ns;
            a.signature.mode = b.signature.mode;
            assert_eq!(a, b, "{rel}");
        };
        ["", "a", "link", "b/skill/SKILL.md"].into_iter().for_each(same);

        let file = portable.open_file("b/skill/SKILL.md").unwrap();
        assert_eq!(stat_file(&file).unwrap(), portable.stat("b/skill/SKILL.md").unwrap());
        assert_eq!(io::read_to_string(file).unwrap(), "text");
        for rel in ["link", "link/skill/SKILL.md", "b/skill", "../x"] {
            assert!(portable.open_file(rel).is_err(), "{rel}");
        }
    }
}
