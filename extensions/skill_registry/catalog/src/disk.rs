//! The file system calls that scanning needs, relative to an open root.
//!
//! On Unix they are plain `*at` calls; elsewhere the same few operations go through cap-std, one
//! path component after the other. Neither follows a link below the root.

use std::ffi::OsString;
use std::ops::Range;

use skill_format::TOOL_JSON;

use crate::signature::FileSignature;

#[cfg(any(not(unix), test))]
mod portable;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub(crate) use portable::RootDir;
#[cfg(unix)]
pub(crate) use unix::{RootDir, stat_file};

#[cfg(not(unix))]
pub(crate) use portable::stat_file;

/// The type of a directory entry or of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FileKind {
    Regular,
    Directory,
    Symlink,
    Fifo,
    Socket,
    Device,
    Unknown,
}

impl FileKind {
    /// Names the kind in a message.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Regular => "a regular file",
            Self::Directory => "a directory",
            Self::Symlink => "a symbolic link",
            Self::Fifo => "a FIFO",
            Self::Socket => "a socket",
            Self::Device => "a device",
            Self::Unknown => "a file of an unknown kind",
        }
    }
}

/// The result of `stat` for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStat {
    pub(crate) kind: FileKind,
    pub(crate) signature: FileSignature,
}

/// The subdirectories and links of a directory, names in one buffer.
#[derive(Debug, Default)]
pub(crate) struct DirectoryListing {
    names: String,
    items: Vec<(Range<u32>, FileKind)>,
    /// Names that are not UTF-8 and may be directories.
    pub(crate) not_utf8: Vec<OsString>,
    /// The first name, in order, that is SKILL.md in some spelling.
    pub(crate) skill_file: Option<Box<str>>,
    /// `true` if there is a `tool.json`.
    pub(crate) tool_manifest: bool,
}

impl DirectoryListing {
    /// Adds an entry that may be a directory; a scan ignores plain files.
    fn push(&mut self, name: &str, kind: FileKind) {
        let first = |known: &str| name < known;
        if name.eq_ignore_ascii_case("skill.md") && self.skill_file.as_deref().is_none_or(first) {
            self.skill_file = Some(name.into());
        }
        self.tool_manifest |= name == TOOL_JSON;
        if matches!(kind, FileKind::Directory | FileKind::Symlink | FileKind::Unknown) {
            let start = self.names.len() as u32;
            self.names.push_str(name);
            self.items.push((start..self.names.len() as u32, kind));
        }
    }

    fn push_not_utf8(&mut self, name: OsString, kind: FileKind) {
        if matches!(kind, FileKind::Directory | FileKind::Symlink | FileKind::Unknown) {
            self.not_utf8.push(name);
        }
    }

    /// Sorts the entries, so that the cut of a limit does not depend on the disk's order.
    fn sorted(mut self) -> Self {
        let names = &self.names;
        let name = |range: &Range<u32>| &names[range.start as usize..range.end as usize];
        self.items.sort_unstable_by(|(a, _), (b, _)| name(a).cmp(name(b)));
        self.not_utf8.sort_unstable();
        self
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, FileKind)> {
        self.items
            .iter()
            .map(|(range, kind)| (&self.names[range.start as usize..range.end as usize], *kind))
    }
}
