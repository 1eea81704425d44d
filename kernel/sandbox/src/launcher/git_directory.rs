//! The directories of git repositories, whose settings and hooks make git run programs.
//!
//! Git finds such a directory by its content as well as by its name, and another one through
//! `commondir`. In a repository that a run has created itself, the files that `git init`,
//! `git clone` and `git worktree` write are harmless and remain; everything else is not known to
//! be harmless. A file or link `.git` names a repository elsewhere, which has to be harmless, too.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};

/// The protected names in the directory of a repository.
pub(super) const PROTECTED_GIT_NAMES: [&str; 4] =
    ["hooks", "config", "config.worktree", "commondir"];

/// The maximum length of a harmless file, in bytes.
const MAX_HARMLESS: u64 = 16 << 10;

/// Tests whether git uses a directory with these entries as a repository.
pub(super) fn is_git_directory(path: &Path, names: &BTreeSet<OsString>) -> bool {
    let has = |name: &str| names.contains(std::ffi::OsStr::new(name));
    path.file_name().is_some_and(|name| name == ".git")
        || (has("HEAD") && (has("objects") || has("commondir")))
}

/// Tests whether a protected name of a new repository is without what git would execute or follow.
pub(super) fn is_harmless(path: &Path) -> bool {
    match path.file_name().and_then(|name| name.to_str()) {
        Some("hooks") => has_samples_only(path),
        Some("config") => read_text(path).is_some_and(|text| has_harmless_settings(&text)),
        // That of a work tree, whose directory is two levels below that of the repository.
        Some("commondir") => read_text(path).is_some_and(|text| text.trim_end() == "../.."),
        _ => false,
    }
}

/// Tests whether a file or link `.git` names a repository in which git executes no program.
///
/// `is_repository` tells which directories were found in the writable directories: links lead to
/// none of them.
pub(super) fn links_harmless_repository(
    path: &Path,
    is_repository: &dyn Fn(&Path) -> bool,
) -> bool {
    let target = match fs::read_link(path) {
        Ok(target) => Some(target),
        Err(_) => read_text(path)
            .and_then(|text| Some(PathBuf::from(text.trim_end().strip_prefix("gitdir: ")?))),
    };
    let Some(directory) = target.and_then(|target| resolve(path.parent()?, &target)) else {
        return false;
    };
    let is_absent = |name: &str| directory.join(name).symlink_metadata().is_err();
    // The settings and hooks of a work tree are those of its repository.
    let common = match is_absent("commondir") {
        true => Some(&*directory),
        false if is_harmless(&directory.join("commondir")) => {
            directory.parent().and_then(Path::parent)
        }
        false => None,
    };
    let Some(common) = common else { return false };
    let is_safe = |name: &str| {
        let path = common.join(name);
        path.symlink_metadata().is_err() || is_harmless(&path)
    };
    is_repository(&directory)
        && is_repository(common)
        && is_safe("config")
        && is_safe("hooks")
        && is_absent("config.worktree")
}

/// Returns the path that a path in a directory leads to, if only its begin leads upwards: after a
/// link, `..` would lead elsewhere.
fn resolve(directory: &Path, target: &Path) -> Option<PathBuf> {
    let mut resolved = directory.to_owned();
    let mut descends = false;
    for component in target.components() {
        match component {
            Component::RootDir => resolved = PathBuf::from("/"),
            Component::CurDir => {}
            Component::ParentDir if !descends => {
                resolved.pop();
            }
            Component::Normal(name) => {
                descends = true;
                resolved.push(name);
            }
            _ => return None,
        }
    }
    Some(resolved)
}

/// Git executes no hook with this ending; `git init` creates examples with it.
fn has_samples_only(hooks: &Path) -> bool {
    let is_sample = |entry: fs::DirEntry| {
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        is_file && entry.path().extension().is_some_and(|ending| ending == "sample")
    };
    hooks.symlink_metadata().is_ok_and(|meta| meta.is_dir())
        && fs::read_dir(hooks)
            .is_ok_and(|mut entries| entries.all(|entry| entry.is_ok_and(is_sample)))
}

fn read_text(path: &Path) -> Option<String> {
    if !path.symlink_metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    // It may have been replaced in the meantime.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    file.take(MAX_HARMLESS + 1).read_to_string(&mut text).ok()?;
    (text.len() as u64 <= MAX_HARMLESS).then_some(text)
}

/// Tests whether all settings are among those that are known to be harmless.
fn has_harmless_settings(text: &str) -> bool {
    let mut section = String::new();
    text.lines().map(str::trim).all(|line| {
        if line.is_empty() || line.starts_with(['#', ';']) {
            return true;
        }
        // Continued lines, quotes and escapes are read differently by git.
        if line.contains('\\') || line.chars().any(char::is_control) {
            return false;
        }
        if let Some(name) = line.strip_prefix('[') {
            let Some(name) = name.strip_suffix(']') else { return false };
            let (name, rest) = name.split_once(' ').unwrap_or((name, "\"\""));
            section = name.to_ascii_lowercase();
            let sub = rest.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            return sub.is_some_and(|sub| !sub.contains(['"', ']']));
        }
        let Some((key, value)) = line.split_once('=') else { return false };
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        !value.contains('"') && is_harmless_setting(&section, &key, value)
    })
}

fn is_harmless_setting(section: &str, key: &str, value: &str) -> bool {
    let is_plain = || value.chars().all(|c| c.is_ascii_alphanumeric());
    match (section, key) {
        (
            "core",
            "repositoryformatversion"
            | "filemode"
            | "bare"
            | "logallrefupdates"
            | "ignorecase"
            | "precomposeunicode"
            | "symlinks",
        )
        | ("extensions", "objectformat" | "refstorage")
        | ("branch", "rebase") => is_plain(),
        ("user", "name" | "email")
        | ("init", "defaultbranch")
        | ("branch", "remote" | "merge")
        | ("remote", "fetch") => true,
        ("remote", "url") => is_harmless_address(value),
        _ => false,
    }
}

/// Addresses such as `ext::COMMAND` start a program.
fn is_harmless_address(address: &str) -> bool {
    let known = ["https://", "http://", "ssh://", "git://", "git@", "/", "./", "../"];
    known.iter().any(|begin| address.starts_with(begin))
        && !address.contains("::")
        // An option of ssh.
        && !address.contains("://-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_init_and_clone_are_harmless() {
        for text in [
            "",
            "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n",
            "# a\n[remote \"origin\"]\n\turl = https://example.org/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n",
            "[user]\n\tname = A B\n\temail = a@b\n",
            "[remote \"o\"]\nurl = git@example.org:a/b.git",
        ] {
            assert!(has_harmless_settings(text), "{text}");
        }
    }

    #[test]
    fn settings_that_start_programs_are_not_harmless() {
        for text in [
            "[core]\n\tfsmonitor = evil",
            "[core]\n\thooksPath = x",
            "[Core]\n\tSSHCommand = x",
            "[core]\n\tbare = \\\nfalse",
            "[core] fsmonitor = evil",
            "[core]\nbare = false\n\t[core]fsmonitor = evil",
            "[include]\n\tpath = ../evil",
            "[includeIf \"gitdir:/\"]\n\tpath = evil",
            "[alias]\n\tst = !evil",
            "[filter \"a\"]\n\tclean = evil",
            "[remote \"o\"]\n\turl = ext::sh -c evil",
            "[remote \"o\"]\n\turl = ssh://-oProxyCommand=evil/",
            "[remote \"o\"]\n\tuploadpack = evil",
            "[remote \"o]\"]\n\tfetch = x",
            "[branch \"a\"]\n\trebase = !x",
            "[core]\n\tbare",
            "[core]\n\tbare = \"false\"",
            "fsmonitor = evil",
            "\u{feff}[core]\nbare = false",
        ] {
            assert!(!has_harmless_settings(text), "{text}");
        }
    }

    #[test]
    fn repositories_are_recognised_by_content() {
        let is = |path: &str, names: &[&str]| {
            is_git_directory(Path::new(path), &names.iter().map(OsString::from).collect())
        };
        assert!(is("/a/.git", &[]) && is("/a/b", &["HEAD", "objects", "refs"]));
        assert!(is("/a/.git/worktrees/b", &["HEAD", "commondir"]));
        assert!(!is("/a/b", &["HEAD"]) && !is("/a/b", &["objects", "config"]));
    }
}
