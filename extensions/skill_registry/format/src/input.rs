//! A skill as a reader of the disk passes it on: the bytes of a SKILL.md and the entries of its
//! directory.

use crate::split::FRONTMATTER_LIMIT;

/// The name of the file next to SKILL.md.
pub const SKILL_YAML: &str = "skill.yaml";

/// The directory of a skill's cases. Models do not get its files.
pub const EVALS_DIRECTORY: &str = "evals";

/// Returns whether a path, relative to a skill's directory, is one of its cases.
#[must_use]
pub fn is_case_file(path: &str) -> bool {
    path.strip_prefix(EVALS_DIRECTORY).is_some_and(|rest| rest.starts_with('/'))
}

/// The maximum size of a `skill.yaml`, in bytes: the same as for a frontmatter.
pub const SKILL_YAML_LIMIT: usize = FRONTMATTER_LIMIT;

/// A skill as it was read from the disk.
#[derive(Clone, Copy, Debug)]
pub struct SkillInput<'a> {
    /// The name of the skill's directory.
    pub dir_name: &'a str,
    /// The name of its file as spelled on disk; `None` if there is no SKILL.md in any spelling.
    pub file_name: Option<&'a str>,
    /// The bytes of that file.
    pub bytes: &'a [u8],
    /// The entries of the directory; `None` if it was not listed, which disables rules about files.
    pub files: Option<&'a [FileEntry]>,
}

/// A file of a skill, its SKILL.md included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// The path relative to the skill's directory, with `/` between components.
    pub path: String,
    /// The size in bytes.
    pub size: u64,
    /// The permission bits.
    pub mode: u32,
    /// The kind of entry.
    pub kind: EntryKind,
}

/// The kind of a directory entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink {
        /// Whether it leads out of the skill's directory.
        escapes: bool,
    },
    /// Anything else: a FIFO, a socket, a device.
    Other,
}
