//! The private directory of a home, `sandbox/data`: only the owner may read its files.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use skillhost_files::create_private_dir;

use crate::home::Home;

/// The most entries whose permissions are checked at one start.
const MAX_ENTRIES: usize = 50_000;

/// Restricts `sandbox/data` and its entries to the owner; creates the directory if it is missing.
/// Returns notes about repaired and unrepairable entries.
///
/// Each start checks the directory itself and the files directly in the kernel's. Everything below
/// is checked only after the directory was open to other users, and then a note is returned.
pub fn secure_data_dir(home: &Home) -> Vec<String> {
    let dir = home.root().join("sandbox/data");
    let mut notes = Vec::new();
    match fs::metadata(&dir) {
        Ok(found) if !found.is_dir() => return notes,
        Ok(found) => {
            if found.mode() & 0o077 == 0 {
                restrict_tree(&home.data_dir("kernel"), false, &mut notes);
                return notes;
            }
            if restrict(&dir, &found, &mut notes) {
                let repaired = 1 + restrict_tree(&dir, true, &mut notes);
                notes.push(format!(
                    "{}: removed the access of other users to {repaired} files and directories",
                    dir.display()
                ));
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // A home that is not writable can still be used.
            let _ = create_private_dir(&dir);
        }
        Err(_) => {}
    }
    notes
}

/// Removes the rights of other users below a directory; returns the number of repaired entries.
fn restrict_tree(dir: &Path, recursive: bool, notes: &mut Vec<String>) -> usize {
    let mut dirs: Vec<PathBuf> = vec![dir.to_owned()];
    let (mut seen, mut repaired) = (0, 0);
    while let Some(dir) = dirs.pop() {
        // A directory that is missing, or removed in between, is not open to other users.
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        for entry in entries.flatten() {
            seen += 1;
            if seen > MAX_ENTRIES {
                // A huge directory must not delay the start.
                return repaired;
            }
            let path = entry.path();
            let Ok(found) = fs::symlink_metadata(&path) else { continue };
            // A change of mode would apply to the target of the link.
            if found.is_symlink() {
                continue;
            }
            if found.is_dir() && recursive {
                dirs.push(path.clone());
            }
            if found.mode() & 0o077 != 0 && restrict(&path, &found, notes) {
                repaired += 1;
            }
        }
    }
    repaired
}

/// Removes the rights of other users from an entry; notes a failure.
fn restrict(path: &Path, found: &fs::Metadata, notes: &mut Vec<String>) -> bool {
    let own = fs::set_permissions(path, Permissions::from_mode(found.mode() & 0o700));
    match own {
        Ok(()) => true,
        Err(error) => {
            // One note is enough for the operator to check the rest.
            if notes.is_empty() {
                notes.push(format!(
                    "{}: the access of other users could not be removed: {error} (chmod -R go-rwx)",
                    path.display()
                ));
            }
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::HomeSource;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn home() -> (tempfile::TempDir, Home) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sandbox")).unwrap();
        let home = Home::open(dir.path(), HomeSource::Argument).unwrap();
        (dir, home)
    }

    #[test]
    fn missing_directory_is_made_private() {
        let (_folder, home) = home();
        assert_eq!(secure_data_dir(&home), [""; 0]);
        assert_eq!(mode(&home.root().join("sandbox/data")), 0o700);
    }

    #[test]
    fn open_directory_is_repaired_with_contents() {
        let (_folder, home) = home();
        let data = home.root().join("sandbox/data");
        let files = ["kernel/events.db-wal", "kernel/threads/t.jsonl", "registry/generation"];
        for file in files {
            let path = data.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "x").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        }
        let outside = home.root().join("outside");
        fs::write(&outside, "x").unwrap();
        std::os::unix::fs::symlink(&outside, data.join("link")).unwrap();
        let before = mode(&outside);
        fs::set_permissions(&data, Permissions::from_mode(0o755)).unwrap();
        let notes = secure_data_dir(&home);
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].ends_with("files and directories"), "{notes:?}");
        for path in ["", "kernel", "kernel/threads", "registry"].into_iter().chain(files) {
            assert_eq!(mode(&data.join(path)), 0o700, "{path}");
        }
        assert_eq!(mode(&outside), before, "links lead elsewhere");
        assert_eq!(secure_data_dir(&home), [""; 0]);
        // Each start checks the kernel's own files.
        let wal = data.join(files[0]);
        fs::set_permissions(&wal, Permissions::from_mode(0o644)).unwrap();
        assert_eq!(secure_data_dir(&home), [""; 0], "no other user could reach it");
        assert_eq!(mode(&wal), 0o600);
    }
}
