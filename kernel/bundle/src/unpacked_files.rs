//! The files of the program on disk: unpacked once per build, compared at every use.
//!
//! Bytes from the program are trusted as it is. Those on disk are used only while they are the same:
//! the directory is the user's own, it has every file of the program, and no other.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::geteuid;
use skillhost_files::{
    DirectoryLock, LockError, TreeError, TreeFile, create_private_dir, read_complete_tree,
    rename_synced, sync_tree, write_tree,
};

// `DIRECTORY`, `FILES` and `COMPRESSED`, from the build script.
include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The time that a program waits for another one that unpacks the same files.
const LOCK_TIMEOUT: Duration = Duration::from_secs(20);

/// The unpacked files.
pub(crate) struct UnpackedFiles {
    /// The directory, like `share/skillhost` of an installation.
    pub(crate) dir: PathBuf,
    /// Files in it had been changed.
    pub(crate) was_changed: bool,
}

/// The reason why the files cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnpackError {
    /// The environment names no directory.
    #[error("neither HOME nor XDG_CACHE_HOME is set")]
    NoCache,
    /// The directory belongs to another user, or others may write to it.
    #[error("{}: other users may write to this directory", .0.display())]
    Shared(PathBuf),
    /// The program is damaged.
    #[error("the program is damaged")]
    Damaged,
    /// A directory cannot be created, or an earlier one not replaced.
    #[error("{}: {source}", path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] TreeError),
    /// Another program is unpacking.
    #[error(transparent)]
    Lock(#[from] LockError),
}

/// The state of a directory of unpacked files.
#[derive(Debug, PartialEq, Eq)]
enum DirectoryState {
    Missing,
    Unchanged,
    Changed,
}

/// Unpacks the files below a cache directory, if they are not there, or not as they should be.
///
/// # Errors
/// [`UnpackError`]; the directory has no files that the program has not written.
pub(crate) fn unpack(cache: &Path) -> Result<UnpackedFiles, UnpackError> {
    let files = own_files().ok_or(UnpackError::Damaged)?;
    let base = cache.join("bundled");
    let dir = base.join(DIRECTORY);
    let done = |was_changed| UnpackedFiles { dir: dir.clone(), was_changed };
    // Without a lock: programs only add a directory, or replace one that is changed.
    if is_private(&base) && inspect(&dir, files) == DirectoryState::Unchanged {
        return Ok(done(false));
    }
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| UnpackError::Io { path, source }
    };
    create_private_dir(&base).map_err(failed(&base))?;
    if !is_private(&base) {
        return Err(UnpackError::Shared(base));
    }
    let _lock = DirectoryLock::acquire(&base, LOCK_TIMEOUT)?;
    let state = inspect(&dir, files);
    if state == DirectoryState::Unchanged {
        return Ok(done(false));
    }
    remove_leftovers(&base);
    let (new, old) = (base.join(".new"), base.join(".old"));
    write_tree(files, &new)?;
    sync_tree(&new).map_err(failed(&new))?;
    if state == DirectoryState::Changed {
        rename_synced(&dir, &old).map_err(failed(&dir))?;
    }
    rename_synced(&new, &dir).map_err(failed(&dir))?;
    remove_leftovers(&base);
    Ok(done(state == DirectoryState::Changed))
}

/// Returns whether the manifests and prompts in an unpacked directory are those of the program.
pub(crate) fn has_own_manifests(dir: &Path) -> bool {
    let is_manifest = |file: &&TreeFile| file.path.starts_with("manifests/");
    let own = own_files().into_iter().flatten().filter(is_manifest);
    let found = read_complete_tree(&dir.join("manifests")).unwrap_or_default();
    let is_same = |(own, found): (&TreeFile, &TreeFile)| {
        own.path.strip_prefix("manifests/") == Some(&found.path) && own.bytes == found.bytes
    };
    own.clone().count() == found.len() && own.zip(&found).all(is_same)
}

/// Returns the files of the program, decompressed once; `None` if the program is damaged.
fn own_files() -> Option<&'static [TreeFile]> {
    static OWN: OnceLock<Option<Vec<TreeFile>>> = OnceLock::new();
    let files = OWN.get_or_init(|| {
        let total = FILES.iter().map(|(_, length, _)| length).sum();
        let all = miniz_oxide::inflate::decompress_to_vec_with_limit(COMPRESSED, total).ok()?;
        let mut rest = &*all;
        let files = FILES.iter().map(|&(path, length, executable)| {
            let (bytes, others) = rest.split_at_checked(length)?;
            rest = others;
            Some(TreeFile { path: path.to_owned(), bytes: bytes.to_vec(), executable })
        });
        files.collect()
    });
    files.as_deref()
}

fn inspect(dir: &Path, files: &[TreeFile]) -> DirectoryState {
    match fs::symlink_metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => DirectoryState::Missing,
        Ok(found) if found.is_dir() && is_private(dir) => match read_complete_tree(dir) {
            Ok(found) if found == files => DirectoryState::Unchanged,
            _ => DirectoryState::Changed,
        },
        _ => DirectoryState::Changed,
    }
}

/// Returns whether a directory is this user's, and no other user may write to it.
fn is_private(dir: &Path) -> bool {
    fs::symlink_metadata(dir).is_ok_and(|found| {
        found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o022 == 0
    })
}

/// Removes directories of programs that were killed, and a replaced one. The caller holds the lock.
fn remove_leftovers(base: &Path) {
    for name in [".new", ".old"] {
        let path = base.join(name);
        // A link in the place of the directory is removed, not followed.
        let _ = match path.is_symlink() || path.is_file() {
            true => fs::remove_file(&path),
            false => fs::remove_dir_all(&path),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn files_are_unpacked_once() {
        let cache = tempfile::tempdir().unwrap();
        fs::create_dir_all(cache.path().join("bundled/0.0.9-0/manifests")).unwrap();
        let mode = fs::Permissions::from_mode(0o700);
        fs::set_permissions(cache.path().join("bundled"), mode).unwrap();
        let first = unpack(cache.path()).unwrap();
        let inode = fs::metadata(&first.dir).unwrap().ino();
        assert_eq!(read_complete_tree(&first.dir).unwrap(), own_files().unwrap());
        assert!(first.dir.join("manifests/skill_registry/manifest.yaml").is_file());
        assert!(first.dir.join("sdk/sdk/Cargo.toml").is_file());
        let second = unpack(cache.path()).unwrap();
        assert_eq!((fs::metadata(&second.dir).unwrap().ino(), second.was_changed), (inode, false));
        // That of another version stays, and is not used.
        assert_eq!(names(&cache.path().join("bundled")), ["0.0.9-0", DIRECTORY, "lock", "turn"]);
    }

    #[test]
    fn changed_directory_is_restored() {
        let cache = tempfile::tempdir().unwrap();
        let dir = unpack(cache.path()).unwrap().dir;
        let evil = dir.join("manifests/target");
        let writable = fs::Permissions::from_mode(0o777);
        let elsewhere = cache.path().join("elsewhere");
        let changes: [(&str, &dyn Fn()); 6] = [
            ("a byte", &|| fs::write(dir.join("manifests/echo/manifest.yaml"), "id: x").unwrap()),
            ("a missing file", &|| fs::remove_file(dir.join("docs/building.md")).unwrap()),
            ("a new manifest", &|| {
                fs::create_dir(&evil).unwrap();
                fs::write(evil.join("manifest.yaml"), "id: target\n").unwrap();
            }),
            ("a mode", &|| fs::set_permissions(&dir, writable.clone()).unwrap()),
            ("a link to a file", &|| {
                let skill = dir.join("skills/code-review/SKILL.md");
                fs::rename(&skill, &elsewhere).unwrap();
                std::os::unix::fs::symlink(&elsewhere, &skill).unwrap();
            }),
            ("a link to a directory", &|| {
                fs::rename(&dir, cache.path().join("moved")).unwrap();
                std::os::unix::fs::symlink(cache.path().join("moved"), &dir).unwrap();
            }),
        ];
        for (what, change) in changes {
            change();
            assert!(unpack(cache.path()).unwrap().was_changed, "{what}");
            assert_eq!(inspect(&dir, own_files().unwrap()), DirectoryState::Unchanged, "{what}");
            assert!(!unpack(cache.path()).unwrap().was_changed, "{what}");
            assert_eq!(names(&cache.path().join("bundled")), [DIRECTORY, "lock", "turn"]);
        }
        // The link was replaced, and its target stays.
        assert!(cache.path().join("moved/manifests").is_dir());
    }

    #[test]
    fn changed_manifests_are_detected() {
        let cache = tempfile::tempdir().unwrap();
        let dir = unpack(cache.path()).unwrap().dir;
        assert!(has_own_manifests(&dir));
        fs::write(dir.join("docs/building.md"), "").unwrap();
        assert!(has_own_manifests(&dir));
        let prompt = dir.join("manifests/builder_agent/prompt.jinja2");
        let text = fs::read_to_string(&prompt).unwrap();
        fs::write(&prompt, text.clone() + "x").unwrap();
        assert!(!has_own_manifests(&dir));
        fs::write(&prompt, text).unwrap();
        assert!(has_own_manifests(&dir));
        fs::create_dir(dir.join("manifests/b")).unwrap();
        fs::write(dir.join("manifests/b/manifest.yaml"), "id: b\n").unwrap();
        assert!(!has_own_manifests(&dir));
        assert!(!has_own_manifests(&cache.path().join("absent")));
    }

    #[test]
    fn directory_of_others_is_refused() {
        let cache = tempfile::tempdir().unwrap();
        let base = cache.path().join("bundled");
        fs::create_dir(&base).unwrap();
        fs::set_permissions(&base, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(unpack(cache.path()), Err(UnpackError::Shared(found)) if found == base));
        assert_eq!(names(&base), Vec::<String>::new());
    }

    #[test]
    fn concurrent_programs_unpack_once() {
        let cache = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| unpack(cache.path()))).collect();
            for thread in threads {
                assert!(!thread.join().unwrap().unwrap().was_changed);
            }
        });
        assert_eq!(names(&cache.path().join("bundled")), [DIRECTORY, "lock", "turn"]);
    }
}
