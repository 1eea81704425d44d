//! The paths that a run must not see: secrets in its directories, and what denied links lead to.

use std::fs;
use std::path::{Path, PathBuf};

use skillhost_policy::{FilesystemPolicy, SECRET_NAMES};

use super::error::SetupError;
use super::policy_paths::{path_error, system_paths};
use crate::protocol::LaunchRequest;

/// Completes the denied paths of a request, and checks that its program can start.
///
/// # Errors
/// A denied path is a link that a run could replace, the root directory, or hides the start directory.
pub(super) fn prepare_denied_paths(request: &mut LaunchRequest) -> Result<(), SetupError> {
    let files = &mut request.policy.filesystem;
    let allowed: Vec<PathBuf> =
        files.allow_read.iter().chain(&files.allow_write).cloned().collect();
    complete_denied_paths(files, &allowed)?;
    for denied in &files.deny_read {
        if denied.parent().is_none() {
            return Err(path_error(
                denied,
                "`denyRead` has it, and no program runs without `/usr`",
            ));
        }
        let within = allowed.iter().filter(|path| request.cwd.starts_with(path));
        if request.cwd.starts_with(denied)
            && !within.clone().any(|path| path != denied && path.starts_with(denied))
        {
            let reason =
                format!("the program starts in it, and `denyRead` has {}", denied.display());
            return Err(path_error(&request.cwd, &reason));
        }
    }
    Ok(())
}

/// Denies the secrets directly in the allowed directories, and for each denied path what it leads to.
///
/// # Errors
/// A denied path is a link that a run could replace, or leads to the root directory.
fn complete_denied_paths(
    files: &mut FilesystemPolicy,
    allowed: &[PathBuf],
) -> Result<(), SetupError> {
    for directory in allowed {
        // A file cannot be listed, and a directory that cannot be listed has no readable secrets.
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_secret = is_secret_name(&entry.file_name().to_string_lossy());
            let is_listed = allowed.contains(&path) || files.deny_read.contains(&path);
            // Everybody may read the system: a run must not hide it from the next one with a link.
            if is_secret && !is_listed && !leads_to_system(&path) {
                files.deny_read.push(path);
            }
        }
    }
    for path in &files.deny_write {
        let is_link = path.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
        let mut writable = files.allow_write.iter();
        if is_link && writable.any(|directory| path != directory && path.starts_with(directory)) {
            return Err(path_error(
                path,
                "`denyWrite` has it, and the run could replace this symbolic link",
            ));
        }
    }
    files.deny_read = follow_links(&files.deny_read, allowed);
    files.deny_write = follow_links(&files.deny_write, allowed);
    Ok(())
}

fn is_secret_name(name: &str) -> bool {
    SECRET_NAMES.contains(&name) || (name.starts_with(".env") && !is_example(name))
}

/// Files such as `.env.example` have no secrets and are shared.
fn is_example(name: &str) -> bool {
    [".example", ".sample", ".template"].iter().any(|suffix| name.ends_with(suffix))
}

fn leads_to_system(path: &Path) -> bool {
    fs::canonicalize(path).is_ok_and(|target| {
        target != *path && system_paths().any(|system| target.starts_with(system))
    })
}

/// Returns denied paths without links in their directories, each followed by what it leads to. A path
/// that is allowed itself stays visible.
fn follow_links(denied: &[PathBuf], allowed: &[PathBuf]) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for path in denied {
        let parent = path.parent().and_then(|parent| fs::canonicalize(parent).ok());
        let place = match (parent, path.file_name()) {
            (Some(parent), Some(name)) => parent.join(name),
            _ => path.clone(),
        };
        let target = fs::canonicalize(path).ok();
        let target = target.filter(|target| *target != place && !allowed.contains(target));
        for path in std::iter::once(place).chain(target) {
            if !all.contains(&path) {
                all.push(path);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn denied_link_denies_its_target() {
        let temp = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(temp.path()).unwrap();
        fs::create_dir_all(base.join("real/inner")).unwrap();
        symlink("real", base.join("link")).unwrap();
        symlink("link", base.join("second")).unwrap();
        symlink("/usr/bin", base.join(".env.system")).unwrap();
        symlink("real", base.join(".env")).unwrap();
        let deny = |denied: &str, allowed: &[PathBuf]| {
            let mut files =
                FilesystemPolicy { deny_read: vec![base.join(denied)], ..Default::default() };
            complete_denied_paths(&mut files, allowed).unwrap();
            files.deny_read
        };
        let at = |paths: &[&str]| paths.iter().map(|path| base.join(path)).collect::<Vec<_>>();
        assert_eq!(deny("link", &[]), at(&["link", "real"]));
        assert_eq!(deny("second", &[]), at(&["second", "real"]));
        assert_eq!(deny("link/inner", &[]), at(&["real/inner"]));
        assert_eq!(deny("link/missing", &[]), at(&["real/missing"]));
        assert_eq!(deny("link", &at(&["real"])), at(&["link"]), "it is allowed itself");
        assert_eq!(deny("none", &at(&[""])), at(&["none", ".env", "real"]));
    }
}
