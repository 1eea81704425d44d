//! The search for the policy of a path.

use std::collections::HashMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use skillhost_files::{LinkPolicy, read_limited};

use crate::policy::{LintPolicy, PolicyScope};
use crate::policy_error::PolicyError;
use crate::policy_file::{parse_policy, parse_settings_policy};
use crate::{POLICY_FILE, SETTINGS_FILE};

/// The maximum size of a policy in bytes.
const MAX_BYTES: u64 = 256 << 10;

/// The maximum size of the settings of a home in bytes, as for the kernel.
const MAX_SETTINGS_BYTES: u64 = 1 << 20;

/// An error that leaves a path without its policy.
#[derive(Debug, thiserror::Error)]
pub enum PolicyFileError {
    /// The file cannot be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The settings and a file of its own in the same directory both have a policy.
    #[error("{} and {POLICY_FILE} next to it both have a policy", path.display())]
    Ambiguous {
        /// The settings.
        path: PathBuf,
    },
    /// The file is not a valid policy.
    #[error("{} is not a valid policy", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Its errors, in the order of the file.
        errors: Vec<PolicyError>,
    },
}

/// Finds policies. Every file is read once.
#[derive(Debug, Default)]
pub struct PolicyFinder {
    /// The directory of the process, without links.
    working_directory: PathBuf,
    /// A file that replaces the search.
    fixed: Option<Rc<LintPolicy>>,
    is_disabled: bool,
    /// The result for each directory that was searched.
    searched: HashMap<PathBuf, SearchedDirectory>,
}

/// The policy that applies below a directory.
#[derive(Clone, Debug, Default)]
struct SearchedDirectory {
    policy: Option<Rc<LintPolicy>>,
    /// Whether the directory is in a repository.
    in_repository: bool,
}

impl PolicyFinder {
    /// Creates a finder for a process with a working directory.
    #[must_use]
    pub fn new(working_directory: &Path) -> Self {
        let working_directory =
            fs::canonicalize(working_directory).unwrap_or_else(|_| working_directory.to_owned());
        Self { working_directory, ..Self::default() }
    }

    /// Creates a finder that finds nothing.
    #[must_use]
    pub fn disabled() -> Self {
        Self { is_disabled: true, ..Self::default() }
    }

    /// Creates a finder that uses one file for every path.
    ///
    /// # Errors
    /// The file cannot be read or is not valid.
    pub fn with_file(path: &Path) -> Result<Self, PolicyFileError> {
        let unreadable =
            |error: io::Error| PolicyFileError::Unreadable { path: path.to_owned(), error };
        let resolved = fs::canonicalize(path).map_err(unreadable)?;
        let is_yaml = path.extension().is_some_and(|it| it == "yaml" || it == "yml");
        let mut policy = match is_yaml {
            false => read_policy(path)?,
            true => read_settings_policy(path)?.ok_or_else(|| PolicyFileError::Invalid {
                path: path.to_owned(),
                errors: vec![missing_policy()],
            })?,
        };
        policy.directory = resolved.parent().unwrap_or(&resolved).to_owned();
        Ok(Self { fixed: Some(Rc::new(policy)), ..Self::default() })
    }

    /// Finds the policy of a path: the nearest `skillhost-lint.toml`, or `skillhost.yaml` with a table
    /// `lint`, in its directory or above, up to the root of the repository. Outside of a repository only the directory itself and, of those
    /// above, the ones in the working directory are searched.
    ///
    /// A path that does not exist has no policy.
    ///
    /// # Errors
    /// The file cannot be read or is not valid.
    pub fn find(&mut self, path: &Path) -> Result<PolicyScope, PolicyFileError> {
        let mut directory = path;
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_dir()) {
            directory = path.parent().unwrap_or(path);
        }
        let given = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        if self.is_disabled {
            return Ok(PolicyScope::new(None, given, given));
        }
        let Ok(resolved) = fs::canonicalize(given) else {
            return Ok(PolicyScope::new(None, given, given));
        };
        let policy = match &self.fixed {
            Some(policy) => Some(Rc::clone(policy)),
            None => self.search(&resolved, true)?.policy,
        };
        // Results name a skill in `.` without the dot.
        Ok(PolicyScope::new(policy, given, &resolved))
    }

    /// Reads the policy in a directory, if there is one.
    fn read_directory(&self, directory: &Path) -> Result<Option<LintPolicy>, PolicyFileError> {
        let find = |name: &str| {
            let file = directory.join(name);
            let shown = file.strip_prefix(&self.working_directory).unwrap_or(&file).to_owned();
            file.symlink_metadata().is_ok().then_some((file, shown))
        };
        let mut found = None;
        if let Some((file, shown)) = find(SETTINGS_FILE) {
            let read = read_settings_policy(&file).map_err(|error| error.with_path(&shown))?;
            found = read.map(|policy| LintPolicy { path: shown, ..policy });
        }
        if let Some((file, shown)) = find(POLICY_FILE) {
            // Neither goes before the other: one of them would be ignored without a word.
            if let Some(settings) = found {
                return Err(PolicyFileError::Ambiguous { path: settings.path });
            }
            let policy = read_policy(&file).map_err(|error| error.with_path(&shown))?;
            found = Some(LintPolicy { path: shown, ..policy });
        }
        Ok(found.map(|policy| LintPolicy { directory: directory.to_owned(), ..policy }))
    }

    /// Searches a directory and those above it.
    fn search(
        &mut self,
        directory: &Path,
        is_start: bool,
    ) -> Result<SearchedDirectory, PolicyFileError> {
        if let Some(known) = self.searched.get(directory) {
            return Ok(known.clone());
        }
        let is_root = directory.join(".git").symlink_metadata().is_ok();
        let mut found = SearchedDirectory { policy: None, in_repository: is_root };
        if !is_root && let Some(parent) = directory.parent() {
            found = self.search(parent, false)?;
        }
        let is_trusted = found.in_repository
            || is_start
            || directory.starts_with(&self.working_directory)
                && !self.working_directory.as_os_str().is_empty();
        if is_trusted && let Some(policy) = self.read_directory(directory)? {
            found.policy = Some(Rc::new(policy));
        }
        // Outside of a repository, a directory that was the start is no result for one below it.
        if found.in_repository || !is_start {
            self.searched.insert(directory.to_owned(), found.clone());
        }
        Ok(found)
    }
}

impl PolicyFileError {
    /// Returns the error with the file as messages name it.
    fn with_path(self, shown: &Path) -> Self {
        let path = shown.to_owned();
        match self {
            Self::Unreadable { error, .. } => Self::Unreadable { path, error },
            Self::Ambiguous { .. } => Self::Ambiguous { path },
            Self::Invalid { errors, .. } => Self::Invalid { path, errors },
        }
    }
}

fn read_policy(path: &Path) -> Result<LintPolicy, PolicyFileError> {
    let text = read_text(path, MAX_BYTES)?;
    let policy = parse_policy(&text)
        .map_err(|errors| PolicyFileError::Invalid { path: path.to_owned(), errors })?;
    Ok(LintPolicy { path: path.to_owned(), text, ..policy })
}

/// Reads the policy in the settings of a home; `None` if they have none.
fn read_settings_policy(path: &Path) -> Result<Option<LintPolicy>, PolicyFileError> {
    let text = read_text(path, MAX_SETTINGS_BYTES)?;
    let policy = parse_settings_policy(&text)
        .map_err(|errors| PolicyFileError::Invalid { path: path.to_owned(), errors })?;
    Ok(policy.map(|policy| LintPolicy { path: path.to_owned(), text, ..policy }))
}

fn read_text(path: &Path, limit: u64) -> Result<String, PolicyFileError> {
    let unreadable =
        |error: io::Error| PolicyFileError::Unreadable { path: path.to_owned(), error };
    let bytes = read_limited(path, limit, LinkPolicy::Follow).map_err(unreadable)?;
    String::from_utf8(bytes)
        .map_err(|_| unreadable(io::Error::new(ErrorKind::InvalidData, "the text is not UTF-8")))
}

fn missing_policy() -> PolicyError {
    PolicyError { line: 1, column: 1, message: "`lint` is missing".to_owned(), help: None }
}

#[cfg(test)]
mod tests {
    use skill_rules::Profile;

    use super::*;

    const SPEC: &str = "profile = \"spec\"\n";

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    fn found(dir: &tempfile::TempDir, cwd: &str, path: &str) -> Option<PathBuf> {
        let mut finder = PolicyFinder::new(&dir.path().join(cwd));
        let scope = finder.find(&dir.path().join(path)).unwrap();
        scope.policy().map(|policy| {
            let root = fs::canonicalize(dir.path()).unwrap();
            policy.directory.strip_prefix(root).unwrap().to_owned()
        })
    }

    #[test]
    fn nearest_file_in_repository_is_found() {
        let dir = tree(&[
            (POLICY_FILE, SPEC),
            ("repo/.git/HEAD", ""),
            ("repo/skillhost-lint.toml", SPEC),
            ("repo/team/skillhost-lint.toml", SPEC),
            ("repo/team/a/SKILL.md", ""),
            ("repo/b/SKILL.md", ""),
            ("bare/.git", ""),
            ("bare/c/SKILL.md", ""),
            ("loose/d/SKILL.md", ""),
        ]);
        for (cwd, path, expected) in [
            ("b", "repo/team/a/SKILL.md", Some("repo/team")),
            ("b", "repo/b", Some("repo")),
            ("b", "repo/b/SKILL.md", Some("repo")),
            // The search ends at the root of a repository.
            ("", "bare/c", None),
            // Outside of a repository, files above the working directory do not count.
            ("", "loose/d", Some("")),
            ("loose", "loose/d", None),
            ("loose", "", Some("")),
            ("", "missing", None),
        ] {
            let found = found(&dir, cwd, path);
            assert_eq!(found.as_deref(), expected.map(Path::new), "{cwd} {path}");
        }
    }

    #[test]
    fn settings_have_policy_like_file() {
        let yaml = "models: {}\nlint:\n  profile: anthropic\n";
        let dir = tree(&[
            ("home/.git", ""),
            ("home/skillhost.yaml", yaml),
            ("home/skills/a/SKILL.md", ""),
            ("home/skills/skillhost.yaml", "models: {} # no lint\n"),
            ("home/team/skillhost-lint.toml", SPEC),
            ("both/skillhost-lint.toml", SPEC),
            ("both/skillhost.yaml", yaml),
            ("broken/skillhost.yaml", "models: [ # of lint\n"),
            ("wrong/skillhost.yaml", "lint: {profil: spec}\n"),
        ]);
        assert_eq!(found(&dir, "", "home/skills/a").as_deref(), Some(Path::new("home")));
        assert_eq!(found(&dir, "", "home/team").as_deref(), Some(Path::new("home/team")));
        assert_eq!(found(&dir, "", "broken"), None);
        let mut finder = PolicyFinder::new(dir.path());
        let policy = finder.find(&dir.path().join("home/skills")).unwrap();
        let policy = policy.policy().unwrap();
        assert_eq!(policy.path(), Path::new("home/skillhost.yaml"));
        assert_eq!((policy.profile(), policy.text()), (Some(Profile::Anthropic), yaml));
        let error = finder.find(&dir.path().join("both")).unwrap_err().to_string();
        assert_eq!(
            error,
            "both/skillhost.yaml and skillhost-lint.toml next to it both have a policy"
        );
        let error = finder.find(&dir.path().join("wrong")).unwrap_err().to_string();
        assert_eq!(error, "wrong/skillhost.yaml is not a valid policy");
        let named = |name: &str| PolicyFinder::with_file(&dir.path().join(name));
        assert!(named("home/skillhost.yaml").is_ok());
        let error = named("broken/skillhost.yaml").unwrap_err();
        assert!(matches!(error, PolicyFileError::Invalid { .. }), "{error}");
    }

    #[test]
    fn file_is_read_once() {
        let dir = tree(&[("x/.git", ""), ("x/skillhost-lint.toml", SPEC), ("x/a/b/c", "")]);
        let mut finder = PolicyFinder::new(dir.path());
        let first = finder.find(&dir.path().join("x/a")).unwrap();
        fs::write(dir.path().join("x/skillhost-lint.toml"), "?").unwrap();
        let second = finder.find(&dir.path().join("x/a/b/c")).unwrap();
        assert!(Rc::ptr_eq(first.policy().unwrap(), second.policy().unwrap()));
        assert!(finder.find(&dir.path().join("x")).unwrap().policy().is_some());
    }

    #[test]
    fn unusable_files_are_errors() {
        let dir = tree(&[("a/skillhost-lint.toml", "x = 1"), ("b/skillhost-lint.toml/f", "")]);
        let long = "#".repeat((256 << 10) + 1);
        fs::create_dir(dir.path().join("c")).unwrap();
        fs::write(dir.path().join("c/skillhost-lint.toml"), long).unwrap();
        fs::create_dir(dir.path().join("d")).unwrap();
        fs::write(dir.path().join("d/skillhost-lint.toml"), b"\xFF").unwrap();
        let mut finder = PolicyFinder::new(dir.path());
        for (name, expected) in [
            ("a", "a/skillhost-lint.toml is not a valid policy"),
            ("b", "b/skillhost-lint.toml: "),
            ("c", "c/skillhost-lint.toml: "),
            ("d", "d/skillhost-lint.toml: the text is not UTF-8"),
        ] {
            let error = finder.find(&dir.path().join(name)).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        assert!(PolicyFinder::with_file(&dir.path().join("none")).is_err());
        assert!(PolicyFinder::disabled().find(&dir.path().join("a")).unwrap().policy().is_none());
    }
}
