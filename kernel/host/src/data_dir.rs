//! The private directory of a home, `sandbox/data`: what the kernel and extensions keep there is
//! nobody else's business.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::home::Home;
use crate::journal::create_private_dir;

/// Entries whose permissions are looked at in one start.
const MAX_ENTRIES: usize = 50_000;

/// Makes sure that only its owner can enter `sandbox/data`, and what is in it; makes it where it is
/// missing. Returns notes about what was repaired and what could not be.
///
/// The directory itself and the files directly in the kernel's are looked at in every start.
/// Everything below is looked at where the directory was open to others until now: that is noted.
pub(crate) fn secure_data_dir(home: &Home) -> Vec<String> {
    let folder = home.root().join("sandbox/data");
    let mut notes = Vec::new();
    match fs::metadata(&folder) {
        Ok(found) if !found.is_dir() => return notes,
        Ok(found) => {
            if found.mode() & 0o077 == 0 {
                restrict_tree(&home.data_dir("kernel"), false, &mut notes);
                return notes;
            }
            if restrict(&folder, &found, &mut notes) {
                let repaired = 1 + restrict_tree(&folder, true, &mut notes);
                notes.push(format!(
                    "{}: other users had access to {repaired} files and directories; it was taken \
                     away",
                    folder.display()
                ));
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // A home that cannot be written to still answers.
            let _ = create_private_dir(&folder);
        }
        Err(_) => {}
    }
    notes
}

/// Takes the rights of others away below a directory; returns how often that was needed.
fn restrict_tree(folder: &Path, recursive: bool, notes: &mut Vec<String>) -> usize {
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    let (mut seen, mut repaired) = (0, 0);
    while let Some(folder) = folders.pop() {
        // What is gone meanwhile, or never was there, is open to nobody.
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            seen += 1;
            if seen > MAX_ENTRIES {
                return repaired;
            }
            let path = entry.path();
            let Ok(found) = fs::symlink_metadata(&path) else { continue };
            if found.is_symlink() {
                continue;
            }
            if found.is_dir() && recursive {
                folders.push(path.clone());
            }
            if found.mode() & 0o077 != 0 && restrict(&path, &found, notes) {
                repaired += 1;
            }
        }
    }
    repaired
}

/// Leaves the rights of the owner alone; says where that is not possible.
fn restrict(path: &Path, found: &fs::Metadata, notes: &mut Vec<String>) -> bool {
    let own = fs::set_permissions(path, Permissions::from_mode(found.mode() & 0o700));
    match own {
        Ok(()) => true,
        Err(error) => {
            // One is enough to look at the rest.
            if notes.is_empty() {
                notes.push(format!(
                    "{}: other users have access to it, and that cannot be changed: {error} \
                     (chmod -R go-rwx)",
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
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sandbox")).unwrap();
        let home = Home::open(folder.path(), HomeSource::Argument).unwrap();
        (folder, home)
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
        assert!(notes[0].ends_with("it was taken away"), "{notes:?}");
        for path in ["", "kernel", "kernel/threads", "registry"].into_iter().chain(files) {
            assert_eq!(mode(&data.join(path)), 0o700, "{path}");
        }
        assert_eq!(mode(&outside), before, "links lead elsewhere");
        assert_eq!(secure_data_dir(&home), [""; 0]);
        // What the kernel keeps is looked at in every start.
        let wal = data.join(files[0]);
        fs::set_permissions(&wal, Permissions::from_mode(0o644)).unwrap();
        assert_eq!(secure_data_dir(&home), [""; 0], "nobody could reach it");
        assert_eq!(mode(&wal), 0o600);
    }
}
