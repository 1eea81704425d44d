//! The operator's statements on foreign code: the settings, and the policy file that they name.

use std::io;
use std::path::{Component, Path, PathBuf};

use skillhost_files::{LinkPolicy, read_limited, read_limited_below};
use skillhost_policy::{
    OperatorPolicy, PathProblem, PolicyError, SECRET_NAMES, SandboxSettings, SecretPath,
    UnusableEntry, parse_policy_json,
};

use crate::home::Home;
use crate::settings::{Settings, SettingsError};

#[cfg(test)]
mod tests;

/// The largest policy file that is read, in bytes.
const POLICY_FILE_LIMIT: u64 = 256 * 1024;

/// The names in the kernel's home that stay hidden unless a policy lists exactly their path.
const PRIVATE_NAMES: [&str; 2] = ["sandbox/data", ".env"];

/// Directories that everybody may read, to which links in directories with secrets may lead.
const PUBLIC_DIRECTORIES: [&str; 4] = ["/usr", "/etc/ssl", "/nix/store", "/gnu/store"];

/// The entries of a directory with secrets that are searched for links.
const MAX_SECRETS: usize = 1000;

/// Reads the operator's statements of a home. Called before each run, so that changed settings are in
/// force for the next one.
///
/// # Errors
/// [`SettingsError`] if the settings or their policy file are not valid. Nothing may run then.
pub fn load_operator_policy(home: &Home) -> Result<OperatorPolicy, SettingsError> {
    let settings = Settings::load_home(home)?.settings.sandbox;
    // Without `HOME`, `~` must not name a directory that exists.
    let user_home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let user_home = user_home.map_or_else(|| PathBuf::from("/nonexistent"), PathBuf::from);
    read_policy(settings, home, &user_home)
}

/// Returns the defaults for a run outside of a home: no settings, and the paths with secrets of the
/// user.
#[must_use]
pub fn operator_policy_without_home() -> OperatorPolicy {
    let user_home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let user_home = user_home.map_or_else(|| PathBuf::from("/nonexistent"), PathBuf::from);
    let user_home = std::fs::canonicalize(&user_home).unwrap_or(user_home);
    let secrets = find_secrets(SECRET_NAMES.iter().map(|name| user_home.join(name)));
    OperatorPolicy { user_home, secrets, ..OperatorPolicy::default() }
}

fn read_policy(
    settings: SandboxSettings,
    home: &Home,
    user_home: &Path,
) -> Result<OperatorPolicy, SettingsError> {
    // Paths of a policy must not lead through links.
    let canonical = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let (user_home, kernel_home) = (canonical(user_home), canonical(home.root()));
    let below = SECRET_NAMES.iter().map(|name| user_home.join(name));
    let secrets =
        find_secrets(below.chain(PRIVATE_NAMES.iter().map(|name| kernel_home.join(name))));
    let mut operator = OperatorPolicy { settings, user_home, secrets, ..OperatorPolicy::default() };
    let mut policy_file = PathBuf::new();
    if let Some(name) = &operator.settings.policy_file {
        let path = locate_policy_file(name, home, &operator.user_home);
        let bytes = read_policy_file(name, &path, home)
            .map_err(|source| SettingsError::Io { path: path.clone(), source })?;
        let invalid = |source| SettingsError::PolicyFile { path: path.clone(), source };
        let text = String::from_utf8(bytes).map_err(|_| {
            invalid(PolicyError::Shape { reason: "it is not UTF-8 text".to_owned() })
        })?;
        let parsed = parse_policy_json(&text).map_err(invalid)?;
        let (file, ignored) = (path.display(), parsed.ignored.into_iter());
        operator.notes = ignored
            .map(|key| format!("{file}: `{key}` of sandbox-runtime has no effect here"))
            .collect();
        operator.file_layer = Some(parsed.layer);
        policy_file = path;
    }
    let entries = operator.list_allowed_entries().into_iter();
    operator.unusable = entries
        .filter_map(|entry| {
            let problem = find_path_problem(&entry.path)?;
            let is_setting = entry.section.is_some();
            let file = if is_setting { home.settings_file() } else { policy_file.clone() };
            Some(UnusableEntry { file, entry, problem })
        })
        .collect();
    Ok(operator)
}

/// Returns why no run could use an allowed path. Others than the user may be able to read it.
fn find_path_problem(path: &Path) -> Option<PathProblem> {
    match std::fs::canonicalize(path) {
        Ok(real) => (real != path).then_some(PathProblem::Linked),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(PathProblem::Missing),
        Err(_) => None,
    }
}

/// Returns paths with secrets, and what they or the entries of these directories are links to.
fn find_secrets(paths: impl Iterator<Item = PathBuf>) -> Vec<SecretPath> {
    let mut secrets = Vec::new();
    for path in paths {
        let exists = path.symlink_metadata().is_ok();
        let entries = std::fs::read_dir(&path).into_iter().flatten().flatten().take(MAX_SECRETS);
        let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
        let linked = links.map(|entry| entry.path()).chain([path.clone()]);
        let targets: Vec<_> = linked.filter_map(|link| std::fs::canonicalize(link).ok()).collect();
        secrets.push(SecretPath { path: path.clone(), exists });
        for target in targets {
            // Everybody may read what is installed.
            let is_public = PUBLIC_DIRECTORIES.iter().any(|public| target.starts_with(public));
            // A directory around it, to which a link may lead, is no secret.
            if !is_public && !target.starts_with(&path) && !path.starts_with(&target) {
                secrets.push(SecretPath { path: target, exists: true });
            }
        }
    }
    secrets
}

fn locate_policy_file(name: &Path, home: &Home, user_home: &Path) -> PathBuf {
    match name.strip_prefix("~") {
        Ok(below) => user_home.join(below),
        Err(_) => home.root().join(name),
    }
}

fn read_policy_file(name: &Path, path: &Path, home: &Home) -> io::Result<Vec<u8>> {
    if !home.is_untrusted() {
        return read_limited(path, POLICY_FILE_LIMIT, LinkPolicy::Follow);
    }
    let is_plain = name.components().all(|part| matches!(part, Component::Normal(_)));
    match name.to_str().filter(|name| is_plain && !name.starts_with('~')) {
        Some(name) => read_limited_below(home.root(), name, POLICY_FILE_LIMIT),
        None => {
            let message = "the file is outside of the home, which is not trusted";
            Err(io::Error::new(io::ErrorKind::InvalidInput, message))
        }
    }
}
