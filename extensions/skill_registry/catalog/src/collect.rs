//! Finds and reads skills in any directory, for checks of files without a registry.
//!
//! Unlike a [`Store`](crate::Store) it has no roots and no memory. It never blocks on a file, never
//! reads through a link, and continues after an unreadable entry.

mod files;
mod found;
mod resource;
mod walk;

pub use found::{FoundItem, FoundProblem, FoundSkill, ProblemKind, SkillFiles};
pub use resource::ResourceContent;

use std::ops::ControlFlow;
use std::path::Path;

use skill_format::FileEntry;

use crate::reading::read_bytes;
use crate::signature::FileSignature;

/// Finds the skills of a path, in a fixed order, and passes them to a callback one by one.
///
/// The path is a SKILL.md, a skill's directory, or a directory with skills somewhere below it. A
/// directory with a SKILL.md is not searched further; `.git` and `node_modules` are not entered,
/// and links are not followed, except in the path itself. At most 500,000 directories are opened,
/// 32 levels deep; a limit that is reached is a [`ProblemKind::Limit`].
///
/// # Errors
/// Never fails: a path that cannot be examined is a [`FoundItem::Problem`]. The search ends early
/// only if `each` breaks.
pub fn find_skills<B>(
    path: &Path,
    each: &mut dyn FnMut(FoundItem) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) => return each(FoundItem::Problem(FoundProblem::io(path, &error))),
    };
    if metadata.is_dir() {
        return walk::visit_skills(path, each);
    }
    let is_skill_file = path
        .file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name.eq_ignore_ascii_case("skill.md"));
    if !is_skill_file {
        return each(FoundItem::Problem(FoundProblem {
            path: path.to_owned(),
            kind: ProblemKind::NoSkill,
            rule: "structure.missingSkillMd",
            message: "it is neither a SKILL.md nor a directory".to_owned(),
            help: "name a skill's directory, its SKILL.md, or a directory of skills",
        }));
    }
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    walk::visit_single(dir, path, each)
}

impl FoundSkill {
    /// Returns the stamp of the SKILL.md, from when it was found.
    #[must_use]
    pub fn signature(&self) -> FileSignature {
        self.stat.signature
    }

    /// Lists the files of the directory, sorted by path.
    ///
    /// # Errors
    /// Fails if the directory cannot be opened.
    pub fn list_files(&self) -> Result<Vec<FileEntry>, FoundProblem> {
        files::list_files(&self.dir)
    }

    /// Reads the SKILL.md, and lists the directory if `with_files`.
    ///
    /// # Errors
    /// Fails if the file is too large, keeps changing, or cannot be read.
    pub fn read(&mut self, with_files: bool) -> Result<SkillFiles, FoundProblem> {
        let path = self.path();
        let read = read_bytes(&mut self.file, self.stat)
            .map_err(|error| FoundProblem::io(&path, &error))?
            .map_err(|_| FoundProblem::from_stat(&path, &self.stat))?;
        if read.torn {
            return Err(FoundProblem {
                path,
                kind: ProblemKind::Unreadable,
                rule: "file.unreadable",
                message: "it keeps changing while it is read".to_owned(),
                help: "try again when no process writes to it",
            });
        }
        let files = if with_files { Some(self.list_files()?) } else { None };
        Ok(SkillFiles { file_name: self.file_name.clone(), bytes: read.bytes, files })
    }
}
