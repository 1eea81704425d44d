//! Directories of skills, and of skills to be created.

use std::path::{Path, PathBuf};

use cap_std::fs::Dir;
use skill_catalog::{Advice, Audience, NextStep, Skill, SkillFile, Snapshot, TrustLevel};
use skill_format::is_valid_name;
use skillhost_files::jail::{self, JailError, RelPath};
use skillhost_files::temporary::{is_leftover_path, is_temporary};

use crate::records::error::{LedgerError, LedgerErrorKind};

/// The directory of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SkillDirectory {
    /// The label of its root.
    pub(crate) root: String,
    pub(crate) root_path: PathBuf,
    /// The path below the root.
    pub(crate) rel: String,
}

impl SkillDirectory {
    /// Returns the directory of an existing skill.
    pub(crate) fn for_skill(skill: &Skill) -> Self {
        let (root, rel) = skill.resolved_location();
        Self { root: root.label.clone(), root_path: root.path.clone(), rel }
    }

    /// Opens the directory; creates it if `make` is set.
    pub(crate) fn open(&self, make: bool) -> Result<Dir, JailError> {
        jail::open_below(&self.root_path, &self.rel, make)
    }

    /// Returns the directory's path, for messages.
    pub(crate) fn path(&self) -> PathBuf {
        self.root_path.join(&self.rel)
    }
}

/// The file that a proposal changes, of an existing or a proposed skill.
#[derive(Clone, Debug)]
pub(crate) struct ProposalTarget {
    pub(crate) skill_id: String,
    pub(crate) place: SkillDirectory,
    pub(crate) path: RelPath,
    /// `true` if the skill exists.
    pub(crate) exists: bool,
}

impl ProposalTarget {
    /// Finds the file of a request; a skill that does not exist yet can only be named by its
    /// SKILL.md.
    pub(crate) fn find(
        snapshot: &Snapshot,
        skill_id: &str,
        path: Option<&str>,
    ) -> Result<Self, LedgerError> {
        let skill = match find_skill(snapshot, skill_id)? {
            Some(skill) => skill,
            None => return Self::new_skill(snapshot, skill_id, path),
        };
        let skill_file = skill.file().name();
        let path = match path {
            // The skill file is meant in any spelling, also where the file system distinguishes
            // case.
            Some(path) if !path.eq_ignore_ascii_case(skill_file) => path,
            _ => skill_file,
        };
        let place = SkillDirectory::for_skill(skill);
        let path = check_writable(path)?;
        Ok(Self { skill_id: skill_id.to_owned(), place, path, exists: true })
    }

    fn new_skill(
        snapshot: &Snapshot,
        skill_id: &str,
        path: Option<&str>,
    ) -> Result<Self, LedgerError> {
        let skill_file = SkillFile::Upper.name();
        // Ids of skills that exist are freer; a new one has to fit every reader.
        if path.is_some_and(|path| path != skill_file) || !is_valid_name(skill_id) {
            return Err(unknown_skill(snapshot, skill_id));
        }
        let place = new_skill_directory(snapshot, skill_id)?;
        match place.open(false) {
            Err(JailError::NotFound) => {}
            // An interrupted creation leaves an empty directory; a new attempt may use it.
            Ok(dir) if is_available(&dir)? => {}
            _ => {
                let problem = snapshot.problems().iter().find(|problem| {
                    problem.skill.as_ref().is_some_and(|id| id.as_str() == skill_id)
                });
                let why = match problem {
                    Some(problem) => format!(": {}", problem.diagnostic.message),
                    None => String::new(),
                };
                return Err(LedgerError::new(
                    LedgerErrorKind::Conflict,
                    format!("{} exists but is not a skill{why}", place.path().display()),
                    "choose another id, or have the operator repair or remove the directory",
                ));
            }
        }
        Ok(Self {
            skill_id: skill_id.to_owned(),
            place,
            path: check_writable(skill_file)?,
            exists: false,
        })
    }

    /// Returns the file's path on the disk, for messages.
    pub(crate) fn location(&self) -> PathBuf {
        self.place.path().join(self.path.as_str())
    }
}

/// Returns the directory of a new skill: in the first root that the operator trusts.
pub(crate) fn new_skill_directory(
    snapshot: &Snapshot,
    skill_id: &str,
) -> Result<SkillDirectory, LedgerError> {
    let root = snapshot.roots().iter().find(|root| root.trust == TrustLevel::Operator);
    let root = root.ok_or_else(|| {
        LedgerError::new(
            LedgerErrorKind::Denied,
            "no trusted root for a new skill found",
            "set `trust: operator` for a root in skillhost.yaml",
        )
    })?;
    Ok(SkillDirectory {
        root: root.label.clone(),
        root_path: root.path.clone(),
        rel: skill_id.to_owned(),
    })
}

/// Returns `true` for a directory without entries, except temporary files of an interrupted
/// creation.
fn is_available(dir: &Dir) -> Result<bool, LedgerError> {
    let entries = dir.entries().map_err(|error| jail_error(&error.into(), Path::new(".")))?;
    for entry in entries {
        let name = entry.map(|entry| entry.file_name());
        if !name.is_ok_and(|name| name.to_str().is_some_and(is_temporary)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Looks a skill up by its bare id; returns `None` if it does not exist.
pub(crate) fn find_skill<'s>(
    snapshot: &'s Snapshot,
    skill_id: &str,
) -> Result<Option<&'s Skill>, LedgerError> {
    match snapshot.get(skill_id) {
        Some(skill) if skill.id().as_str() == skill_id => Ok(Some(skill)),
        Some(skill) => Err(LedgerError::new(
            LedgerErrorKind::Argument,
            format!("`{skill_id}` names a root; versions and proposals require the bare id"),
            format!(
                "use `{}`, which refers to the skill of the first root that has it",
                skill.id()
            ),
        )),
        None => Ok(None),
    }
}

/// Looks a skill up by its bare id; returns an error if it does not exist.
pub(crate) fn require_skill<'s>(
    snapshot: &'s Snapshot,
    skill_id: &str,
) -> Result<&'s Skill, LedgerError> {
    find_skill(snapshot, skill_id)?.ok_or_else(|| unknown_skill(snapshot, skill_id))
}

pub(crate) fn unknown_skill(snapshot: &Snapshot, skill_id: &str) -> LedgerError {
    unknown_skill_for(Audience::Operator, snapshot, skill_id)
}

/// Creates the error for a skill that does not exist, with hints for an audience.
pub fn unknown_skill_for(
    audience: Audience<'_>,
    snapshot: &Snapshot,
    skill_id: &str,
) -> LedgerError {
    // Ids come from models and can be arbitrarily long.
    let id: String = skill_id.chars().take(128).collect();
    LedgerError::not_found(
        format!("skill `{id}` not found"),
        snapshot.similar(&id, audience),
        Advice::from(NextStep::ListSkills).with_text(
            " shows the available skills; propose a new skill with its whole SKILL.md and an \
             id of lower-case letters, digits and single hyphens",
        ),
    )
}

/// Checks that a path may be written.
fn check_writable(path: &str) -> Result<RelPath, LedgerError> {
    let refuse = |message: String| {
        let hint = Advice::from("give the path as ")
            .with_step(NextStep::ReadSkill)
            .with_text(" lists it, relative to the skill's directory");
        Err(LedgerError::new(LedgerErrorKind::Denied, message, hint))
    };
    let path = match RelPath::new(path) {
        Ok(path) => path,
        Err(error) => return refuse(error.to_string()),
    };
    // Listings skip these names, so that a file in them would be invisible to a reviewer.
    let hidden =
        |part: &str| [".git", "node_modules"].iter().any(|name| part.eq_ignore_ascii_case(name));
    if path.as_str().split('/').any(hidden) || is_leftover_path(path.as_str()) {
        return refuse(format!("{path} is not part of the skill"));
    }
    Ok(path)
}

/// Creates the error for a file of a skill that cannot be opened.
pub(crate) fn jail_error(error: &JailError, path: &Path) -> LedgerError {
    let location = path.display();
    let denied = |what: &str| {
        let hint = "replace it with a regular file";
        LedgerError::new(LedgerErrorKind::Denied, format!("{location} {what}"), hint)
    };
    match error {
        JailError::NotFound => {
            LedgerError::not_found(format!("{location} not found"), Vec::new(), "restore it")
        }
        JailError::Link => denied("is or passes through a symbolic link"),
        JailError::Directory => denied("is a directory"),
        JailError::NotRegular => denied("is not a regular file"),
        JailError::Io(error) => LedgerError::io("read or written", path, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_outside_skill_are_denied() {
        for path in [
            "..",
            "../x",
            "/x",
            "a/../b",
            ".git/config",
            "a/.GIT/x",
            "node_modules/x",
            ".skillhost-tmp-1",
            ".skillhost-tmp-1/x",
            "SKILL.md~",
            "references/.a.md.swp",
            "",
            "a\\b",
        ] {
            let error = check_writable(path).unwrap_err();
            assert_eq!(error.reason(), LedgerErrorKind::Denied, "{path}");
        }
        for path in ["SKILL.md", "references/a.md", ".gitignore", "a/SKILL.md"] {
            assert_eq!(check_writable(path).map(|path| path.to_string()), Ok(path.to_owned()));
        }
    }
}
