//! The listing of a skill's directory.

use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use cap_fs_ext::DirExt;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use skill_format::{EntryKind, FileEntry};

use skillhost_files::temporary::{is_leftover, is_temporary};

use super::found::FoundProblem;

/// The limit on the listed entries.
const MAX_ENTRIES: usize = 5_000;

/// The limit on the listed depth.
const MAX_DEPTH: usize = 8;

/// Lists the files of a directory, sorted by path. Links are not followed; `.git` and
/// `node_modules` are not entered. Temporary files of this program and of editors are left out. The
/// list is empty beyond 5,000 entries or 8 levels.
pub(super) fn list_files(dir: &Path) -> Result<Vec<FileEntry>, FoundProblem> {
    let open = Dir::open_ambient_dir(dir, ambient_authority())
        .map_err(|error| FoundProblem::io(dir, &error))?;
    let mut entries = Vec::new();
    enter(&open, dir, "", 0, &mut entries);
    entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(entries)
}

fn enter(dir: &Dir, shown: &Path, prefix: &str, depth: usize, entries: &mut Vec<FileEntry>) {
    // An entry that cannot be listed is left out; opening it reports the error.
    let Ok(listing) = dir.entries() else { return };
    for entry in listing.flatten() {
        if entries.len() >= MAX_ENTRIES {
            return;
        }
        let Ok(name) = entry.file_name().into_string() else { continue };
        let Ok(metadata) = dir.symlink_metadata(&name) else { continue };
        if is_temporary(&name) || !metadata.is_dir() && is_leftover(&name) {
            continue;
        }
        let path = format!("{prefix}{name}");
        let kind = if metadata.is_symlink() {
            EntryKind::Symlink { escapes: escapes(shown, &path) }
        } else if metadata.is_dir() {
            EntryKind::Directory
        } else if metadata.is_file() {
            EntryKind::File
        } else {
            EntryKind::Other
        };
        let below = kind == EntryKind::Directory && name != ".git" && name != "node_modules";
        let mode = mode(&metadata);
        entries.push(FileEntry { path: path.clone(), size: metadata.len(), mode, kind });
        if below
            && depth < MAX_DEPTH
            && let Ok(inner) = dir.open_dir_nofollow(&name)
        {
            enter(&inner, shown, &format!("{path}/"), depth + 1, entries);
        }
    }
}

/// Returns whether a link leads out of the directory, even if its target does not exist.
fn escapes(dir: &Path, path: &str) -> bool {
    let link = dir.join(path);
    let (Ok(root), resolved) = (std::fs::canonicalize(dir), std::fs::canonicalize(&link)) else {
        return true;
    };
    match resolved {
        Ok(target) => !target.starts_with(root),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let Ok(target) = std::fs::read_link(&link) else { return true };
            let parent = Path::new(path).parent().unwrap_or(Path::new(""));
            is_outside(&parent.join(target))
        }
        Err(_) => true,
    }
}

/// Returns whether a path relative to a directory leads out of it as text.
fn is_outside(path: &Path) -> bool {
    let mut inside = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => inside.push(name),
            Component::CurDir => {}
            Component::ParentDir if inside.pop() => {}
            _ => return true,
        }
    }
    false
}

#[cfg(unix)]
fn mode(metadata: &cap_std::fs::Metadata) -> u32 {
    use cap_std::fs::MetadataExt;
    metadata.mode() & 0o7777
}

#[cfg(not(unix))]
fn mode(_: &cap_std::fs::Metadata) -> u32 {
    0o644
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_or_root_leave_directory() {
        for (path, out) in [
            ("a/b", false),
            ("a/../b", false),
            ("./a", false),
            ("a/../../b", true),
            ("..", true),
            ("/etc", true),
        ] {
            assert_eq!(is_outside(Path::new(path)), out, "{path}");
        }
    }
}
