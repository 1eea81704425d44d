//! Secrets: from the environment, else from the home's `.env`.

use std::collections::BTreeMap;
use std::path::Path;

/// The secrets of a home, by name.
#[derive(Default)]
pub struct Secrets {
    from_file: BTreeMap<String, String>,
}

impl Secrets {
    /// Reads `<home>/.env`; a missing file means no secrets there. Returns a note when the file is
    /// there but cannot be read.
    #[must_use]
    pub fn read(home: &Path) -> (Self, Option<String>) {
        let path = home.join(".env");
        if !path.is_file() {
            return (Self::default(), None);
        }
        let mut from_file = BTreeMap::new();
        let entries = match dotenvy::from_path_iter(&path) {
            Ok(entries) => entries,
            Err(error) => return (Self::default(), Some(format!("{}: {error}", path.display()))),
        };
        for entry in entries {
            match entry {
                Ok((name, value)) => drop(from_file.insert(name, value)),
                // The text of the line may hold a secret, so it is not repeated.
                Err(_) => {
                    let note = format!("{}: a line is not NAME=value", path.display());
                    return (Self { from_file }, Some(note));
                }
            }
        }
        (Self { from_file }, None)
    }

    /// Looks a secret up; the environment wins over the file.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().or_else(|| self.from_file.get(name).cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_come_from_the_file_and_a_broken_line_is_not_repeated() {
        let home = tempfile::tempdir().unwrap();
        assert!(Secrets::read(home.path()).1.is_none());
        std::fs::write(home.path().join(".env"), "SKILLHOST_TEST_KEY='s3cret'\n").unwrap();
        let (secrets, note) = Secrets::read(home.path());
        assert_eq!(secrets.get("SKILLHOST_TEST_KEY").as_deref(), Some("s3cret"));
        assert_eq!((secrets.get("SKILLHOST_TEST_OTHER"), note), (None, None));
        std::fs::write(home.path().join(".env"), "hunter2 is my password\n").unwrap();
        let (_, note) = Secrets::read(home.path());
        assert!(note.is_some_and(|note| !note.contains("hunter2")));
    }
}
