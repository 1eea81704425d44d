//! Where a skill lies or is going to lie.

use std::path::{Path, PathBuf};

use cap_std::fs::Dir;

use crate::jail::{self, JailError, RelPath};
use crate::ledger::error::{LedgerError, LedgerErrorKind};
use crate::options::TrustLevel;
use crate::scope::Audience;
use crate::skill::{Skill, SkillFile};
use crate::snapshot::Snapshot;
use crate::temporary::{is_leftover_path, is_temporary};

/// A skill's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SkillDirectory {
    /// The label of its root.
    pub(super) root: String,
    pub(super) root_path: PathBuf,
    /// The path below the root.
    pub(super) rel: String,
}

impl SkillDirectory {
    /// The directory of a skill that exists.
    pub(super) fn for_skill(skill: &Skill) -> Self {
        let (root, rel) = skill.resolved_location();
        Self { root: root.label.clone(), root_path: root.path.clone(), rel }
    }

    /// Opens the directory; makes it if told to.
    pub(super) fn open(&self, make: bool) -> Result<Dir, JailError> {
        jail::open_below(&self.root_path, &self.rel, make)
    }

    /// Returns the directory's path, for messages.
    pub(super) fn path(&self) -> PathBuf {
        self.root_path.join(&self.rel)
    }
}

/// A file of a skill that exists or is proposed.
#[derive(Clone, Debug)]
pub(super) struct ProposalTarget {
    pub(super) skill_id: String,
    pub(super) place: SkillDirectory,
    pub(super) path: RelPath,
    /// Whether the skill exists.
    pub(super) exists: bool,
}

impl ProposalTarget {
    /// Finds the file that is named; a skill that does not exist yet may be named by its SKILL.md.
    pub(super) fn find(
        snapshot: &Snapshot,
        skill_id: &str,
        path: Option<&str>,
    ) -> Result<Self, LedgerError> {
        let skill = match find_skill(snapshot, skill_id)? {
            Some(skill) => skill,
            None => return Self::new_skill(snapshot, skill_id, path),
        };
        let own = skill.file.name();
        let path = match path {
            Some(path) if !path.eq_ignore_ascii_case(own) => path,
            _ => own,
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
        let own = SkillFile::Upper.name();
        if path.is_some_and(|path| path != own) || !is_new_id(skill_id) {
            return Err(unknown_skill(snapshot, skill_id));
        }
        let place = new_skill_directory(snapshot, skill_id)?;
        match place.open(false) {
            Err(JailError::NotFound) => {}
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
                    format!("{} exists and is not a skill{why}", place.path().display()),
                    "choose another id, or have the operator repair or remove the directory",
                ));
            }
        }
        Ok(Self { skill_id: skill_id.to_owned(), place, path: check_writable(own)?, exists: false })
    }

    /// Returns the file's path on the disk, for messages.
    pub(super) fn location(&self) -> PathBuf {
        self.place.path().join(self.path.as_str())
    }
}

/// Where a new skill goes: the first root the operator answers for.
pub(super) fn new_skill_directory(
    snapshot: &Snapshot,
    skill_id: &str,
) -> Result<SkillDirectory, LedgerError> {
    let root = snapshot.roots().iter().find(|root| root.trust == TrustLevel::Operator);
    let root = root.ok_or_else(|| {
        LedgerError::new(
            LedgerErrorKind::Denied,
            "there is no trusted root a new skill could lie in",
            "set `trust: operator` for a root in skillhost.yaml",
        )
    })?;
    Ok(SkillDirectory {
        root: root.label.clone(),
        root_path: root.path.clone(),
        rel: skill_id.to_owned(),
    })
}

/// An empty directory is what an interrupted creation leaves.
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

/// Looks a skill up by its own id; nothing if there is none.
pub(super) fn find_skill<'s>(
    snapshot: &'s Snapshot,
    skill_id: &str,
) -> Result<Option<&'s Skill>, LedgerError> {
    match snapshot.get(skill_id) {
        Some(skill) if skill.id.as_str() == skill_id => Ok(Some(skill)),
        Some(skill) => Err(LedgerError::new(
            LedgerErrorKind::Argument,
            format!("`{skill_id}` names a root; versions and proposals go by the bare id"),
            format!("use `{}`, which stands for the skill of the first root that has it", skill.id),
        )),
        None => Ok(None),
    }
}

/// Looks a skill up that has to exist.
pub(super) fn require_skill<'s>(
    snapshot: &'s Snapshot,
    skill_id: &str,
) -> Result<&'s Skill, LedgerError> {
    find_skill(snapshot, skill_id)?.ok_or_else(|| unknown_skill(snapshot, skill_id))
}

pub(super) fn unknown_skill(snapshot: &Snapshot, skill_id: &str) -> LedgerError {
    unknown_skill_for(Audience::Operator, snapshot, skill_id)
}

/// Makes the error about a skill that does not exist, with hints for an audience.
pub(crate) fn unknown_skill_for(
    audience: Audience<'_>,
    snapshot: &Snapshot,
    skill_id: &str,
) -> LedgerError {
    let shown: String = skill_id.chars().take(128).collect();
    LedgerError::not_found(
        format!("there is no skill `{shown}`"),
        snapshot.similar(&shown, audience),
        "list_skills shows what there is; a new skill is proposed with its whole SKILL.md and an id \
         of lower-case letters, digits and single hyphens",
    )
}

/// Agent Skills specification, `name`.
fn is_new_id(id: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !id.is_empty()
        && id.len() <= 64
        && id.chars().all(allowed)
        && !id.starts_with('-')
        && !id.ends_with('-')
        && !id.contains("--")
}

/// Checks that a path may be written.
fn check_writable(path: &str) -> Result<RelPath, LedgerError> {
    let refuse = |message: String| {
        let hint = "give the path as read_skill lists it, relative to the skill's directory";
        Err(LedgerError::new(LedgerErrorKind::Denied, message, hint))
    };
    let path = match RelPath::new(path) {
        Ok(path) => path,
        Err(error) => return refuse(error.to_string()),
    };
    let hidden =
        |part: &str| [".git", "node_modules"].iter().any(|name| part.eq_ignore_ascii_case(name));
    if path.as_str().split('/').any(hidden) || is_leftover_path(path.as_str()) {
        return refuse(format!("{path} is not part of the skill"));
    }
    Ok(path)
}

/// Says why a file of a skill cannot be reached.
pub(super) fn jail_error(error: &JailError, path: &Path) -> LedgerError {
    let shown = path.display();
    let refused = |what: &str| {
        let hint = "replace it with a regular file";
        LedgerError::new(LedgerErrorKind::Denied, format!("{shown} {what}"), hint)
    };
    match error {
        JailError::NotFound => {
            LedgerError::not_found(format!("{shown} is gone"), Vec::new(), "restore it")
        }
        JailError::Link => refused("is or passes through a symbolic link"),
        JailError::Directory => refused("is a directory"),
        JailError::NotRegular => refused("is not a regular file"),
        JailError::Io(error) => LedgerError::io("read or written", path, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_ids_are_those_of_the_specification() {
        for id in ["a", "a-b", "pdf2", &"x".repeat(64)] {
            assert!(is_new_id(id), "{id}");
        }
        for id in ["", "A", "a--b", "-a", "a-", "a_b", "..", "a/b", "é", &"x".repeat(65)] {
            assert!(!is_new_id(id), "{id}");
        }
    }

    #[test]
    fn paths_that_are_not_the_skill_are_refused() {
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
