//! The results of the search.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use skill_format::{FILE_LIMIT, FileEntry};

use crate::disk::{FileKind, FileStat, stat_file};

/// A result of the search: a skill, or a problem that prevents its examination.
#[derive(Debug)]
pub enum FoundItem {
    /// A directory with a SKILL.md, in any case.
    Skill(FoundSkill),
    /// Something that could not be looked at, or is not there.
    Problem(FoundProblem),
}

/// A directory with a SKILL.md.
#[derive(Debug)]
pub struct FoundSkill {
    /// The directory, with the path that led to it, for reports.
    pub dir: PathBuf,
    /// The directory's own name; empty for the root of the file system.
    pub dir_name: String,
    /// The name of its SKILL.md as it is spelt.
    pub file_name: String,
    pub(super) file: File,
    pub(super) stat: FileStat,
}

/// A problem that prevents the examination of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundProblem {
    /// The file or directory, as the path that led to it names it.
    pub path: PathBuf,
    /// The kind of the problem.
    pub kind: ProblemKind,
    /// The id of the rule that explains it.
    pub rule: &'static str,
    /// The message: a lower-case fragment without a final period.
    pub message: String,
    /// The hint: the next step for the user.
    pub help: &'static str,
}

/// The kinds of [`FoundProblem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProblemKind {
    /// The path does not exist.
    NotFound,
    /// No SKILL.md exists.
    NoSkill,
    /// The file cannot be a SKILL.md: its kind, its size or its directory's name is wrong.
    Unusable,
    /// The system refused to read it, or it changed all the while.
    Unreadable,
    /// A link that leads elsewhere was not followed; it is not an error.
    Link,
    /// A limit of the search was reached.
    Limit,
}

/// The bytes of a skill's SKILL.md, and the other files of its directory if requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillFiles {
    /// The name of the file as it is spelt.
    pub file_name: String,
    /// Its bytes; at most [`FILE_LIMIT`] of them.
    pub bytes: Vec<u8>,
    /// The files of the directory, sorted by path; `None` if not requested.
    pub files: Option<Vec<FileEntry>>,
}

impl FoundSkill {
    /// Returns the path of the SKILL.md.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        if self.dir == Path::new(".") {
            return PathBuf::from(&self.file_name);
        }
        self.dir.join(&self.file_name)
    }
}

impl FoundProblem {
    /// Creates the problem of a path that the system did not open or read.
    pub(super) fn io(path: &Path, error: &io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Self {
                path,
                kind: ProblemKind::NotFound,
                rule: "path.notFound",
                message: "it does not exist".to_owned(),
                help: "check the path",
            },
            ErrorKind::PermissionDenied => Self {
                path,
                kind: ProblemKind::Unreadable,
                rule: "file.unreadable",
                message: "it may not be read".to_owned(),
                help: "check its read permissions",
            },
            _ => Self {
                path,
                kind: ProblemKind::Unreadable,
                rule: "file.unreadable",
                message: error.to_string(),
                help: "",
            },
        }
    }

    /// Creates the problem of a file from its `stat` result.
    pub(super) fn from_stat(path: &Path, stat: &FileStat) -> Self {
        let (rule, message, help) = match stat.kind {
            FileKind::Regular => (
                "file.maxSize",
                format!(
                    "the file has {} bytes, more than the limit of {FILE_LIMIT}",
                    stat.signature.size
                ),
                "move the bulk of the text into files under references/",
            ),
            FileKind::Symlink => (
                "file.symlink",
                "it is a symbolic link, which is not followed".to_owned(),
                "name the file it points to, or put the file itself here",
            ),
            kind => (
                "file.notRegular",
                format!("it is {}, not a regular file", kind.describe()),
                "replace it with a regular file",
            ),
        };
        Self { path: path.to_owned(), kind: ProblemKind::Unusable, rule, message, help }
    }
}

/// Converts an opened SKILL.md into a skill if it is a regular file.
pub(super) fn to_found_item(
    dir: PathBuf,
    dir_name: &str,
    file_name: &str,
    file: File,
) -> FoundItem {
    let path = dir.join(file_name);
    match stat_file(&file) {
        Ok(stat) if stat.kind == FileKind::Regular => FoundItem::Skill(FoundSkill {
            dir,
            dir_name: dir_name.to_owned(),
            file_name: file_name.to_owned(),
            file,
            stat,
        }),
        Ok(stat) => FoundItem::Problem(FoundProblem::from_stat(&path, &stat)),
        Err(error) => FoundItem::Problem(FoundProblem::io(&path, &error)),
    }
}
