//! Paths of a policy: literal, absolute, without `..`.

use std::path::{Component, Path, PathBuf};

use crate::error::PolicyError;

/// The directories that `~` and `.` name in a layer.
#[derive(Debug, Clone, Copy)]
pub struct PolicyRoots<'a> {
    /// The home directory of the operator.
    pub home: &'a Path,
    /// The work directory of the run.
    pub work: &'a Path,
}

impl PolicyRoots<'_> {
    /// Returns the absolute path that an entry names.
    ///
    /// # Errors
    /// [`PolicyError::Path`] for a pattern, an empty path or one with `..`.
    pub(crate) fn resolve(&self, key: &'static str, text: &str) -> Result<PathBuf, PolicyError> {
        resolve_path(text, self.home, self.work).map_err(|reason| PolicyError::Path {
            key,
            path: text.to_owned(),
            reason,
        })
    }
}

/// Checks a path of a layer before the directories of a run are known.
///
/// # Errors
/// The violated rule.
pub(crate) fn check_path(text: &str) -> Result<(), &'static str> {
    resolve_path(text, Path::new("/"), Path::new("/")).map(|_| ())
}

fn resolve_path(text: &str, home: &Path, work: &Path) -> Result<PathBuf, &'static str> {
    if text.is_empty() || text.contains('\0') {
        return Err("it is empty or contains a NUL");
    }
    if text.contains(['*', '?', '[']) {
        return Err("paths are literal; patterns are not supported");
    }
    let path = match text.strip_prefix('~') {
        Some("") => home.to_owned(),
        Some(rest) => match rest.strip_prefix('/') {
            Some(below) => home.join(below),
            None => return Err("only `~/` names a home directory"),
        },
        None => work.join(text),
    };
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => return Err("`..` is not allowed"),
            Component::CurDir => {}
            other => clean.push(other),
        }
    }
    match clean.is_absolute() {
        true => Ok(clean),
        false => Err("it is not absolute"),
    }
}

/// Returns the paths that both lists allow: of two nested paths the inner one.
pub(crate) fn intersect_paths(wide: &[PathBuf], narrow: &[PathBuf]) -> Vec<PathBuf> {
    let mut both: Vec<PathBuf> = Vec::new();
    for (one, other) in wide.iter().flat_map(|one| narrow.iter().map(move |other| (one, other))) {
        if other.starts_with(one) {
            both.push(other.clone());
        } else if one.starts_with(other) {
            both.push(one.clone());
        }
    }
    both.sort();
    both.dedup();
    both
}

/// Adds the entries of a list that are not in another one.
pub(crate) fn append_missing<T: PartialEq + Clone>(list: &mut Vec<T>, more: &[T]) {
    for entry in more {
        if !list.contains(entry) {
            list.push(entry.clone());
        }
    }
}
