//! Secrets: from the environment, else from the home's `.env`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, ErrorKind as Kind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use secrecy::{ExposeSecret as _, SecretString};
use skillhost_files::{LinkPolicy, read_limited, write_private};

/// The longest value that is stored, in bytes.
const MAX_VALUE_BYTES: usize = 8 * 1024;

/// The length from which on a value is recognized in texts, in bytes.
const MIN_KNOWN_BYTES: usize = 8;

/// The largest `.env` that is read, in bytes.
const FILE_LIMIT: u64 = 1024 * 1024;

type SecretValues = BTreeMap<String, String>;

/// The secrets of a home, by name.
#[derive(Default)]
pub struct SecretStore {
    file: PathBuf,
    from_file: ArcSwap<SecretValues>,
    /// Serializes the writes.
    storing: Mutex<()>,
}

/// The reason why a secret was not stored. Never contains its value.
#[derive(Debug, thiserror::Error)]
pub enum SecretStoreError {
    /// The value is empty.
    #[error("it is empty")]
    Empty,
    /// The value exceeds the limit.
    #[error("it has more than {MAX_VALUE_BYTES} bytes")]
    TooLong,
    /// The value has a control character.
    #[error("it has a line break or another control character")]
    Control,
    /// The file is a symbolic link.
    #[error(".env is a symbolic link; a secret is stored only in a regular file of the home")]
    Link,
    /// A line of the file is not an assignment.
    #[error(".env has a line that is not NAME=value")]
    Broken,
    /// The file would have another meaning afterwards.
    #[error(".env cannot take it without changing another secret")]
    Ambiguous,
    /// The file could not be read or written.
    #[error(".env: {0}")]
    Io(#[from] io::Error),
}

impl SecretStore {
    /// Reads `<home>/.env`; a missing file contains no secrets. Returns a note if the file cannot
    /// be read.
    #[must_use]
    pub fn load(home: &Path) -> (Self, Option<String>) {
        let file = home.join(".env");
        let (from_file, note) = match read_limited(&file, FILE_LIMIT, LinkPolicy::Follow) {
            // The text of a line may contain a secret, so it is not repeated.
            Ok(text) => match parse_env(&text) {
                (values, true) => (values, None),
                (values, false) => {
                    let note = format!("{}: a line is not NAME=value", file.display());
                    (values, Some(note))
                }
            },
            // Some programs keep their environments in a directory of that name.
            Err(error) if matches!(error.kind(), Kind::NotFound | Kind::IsADirectory) => {
                (SecretValues::new(), None)
            }
            Err(error) => (SecretValues::new(), Some(format!("{}: {error}", file.display()))),
        };
        (
            Self { file, from_file: ArcSwap::from_pointee(from_file), storing: Mutex::default() },
            note,
        )
    }

    /// Returns the secrets of the environment alone: the `.env` of an untrusted home is not read.
    #[must_use]
    pub fn of_environment() -> Self {
        Self::default()
    }

    /// Returns a secret; the environment takes precedence over the file.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().or_else(|| self.from_file.load().get(name).cloned())
    }

    /// Returns the values of all secrets that are known: those of the file, and those of variables
    /// whose names end as those of secrets do. Short values are left out, as every text has them.
    #[must_use]
    pub fn known_values(&self) -> Vec<SecretString> {
        let is_secret = |name: &str| {
            ["_KEY", "_TOKEN", "_SECRET", "_PASSWORD"].iter().any(|suffix| name.ends_with(suffix))
        };
        let from_file = self.from_file.load();
        // Values that are not Unicode cannot be in a text.
        let from_environment = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            (is_secret(&name) || from_file.contains_key(&name)).then(|| value.into_string().ok())?
        });
        let values = from_file.values().cloned().chain(from_environment);
        values.filter(|value| value.len() >= MIN_KNOWN_BYTES).map(SecretString::from).collect()
    }

    /// Reads `.env` again; returns the names of the secrets in it that have changed.
    ///
    /// # Errors
    /// [`SecretStoreError::Broken`] and [`SecretStoreError::Io`]; the values known before stay in
    /// use.
    pub fn reload(&self) -> Result<BTreeSet<String>, SecretStoreError> {
        // A store in progress would be taken for a change by others.
        let _guard = self.storing.lock().unwrap_or_else(PoisonError::into_inner);
        let (after, is_complete) = match read_limited(&self.file, FILE_LIMIT, LinkPolicy::Follow) {
            Ok(text) => parse_env(&text),
            Err(error) if matches!(error.kind(), Kind::NotFound | Kind::IsADirectory) => {
                (SecretValues::new(), true)
            }
            Err(error) => return Err(error.into()),
        };
        if !is_complete {
            return Err(SecretStoreError::Broken);
        }
        let before = self.from_file.swap(Arc::new(after.clone()));
        let names = before.keys().chain(after.keys());
        Ok(names.filter(|name| before.get(*name) != after.get(*name)).cloned().collect())
    }

    /// Stores a secret in `.env`, readable only for its owner, in place of its previous value;
    /// [`SecretStore::get`] then returns it. Every other line is unchanged.
    ///
    /// # Errors
    /// [`SecretStoreError`]; the file then is unchanged.
    pub fn store(&self, name: &str, value: &SecretString) -> Result<(), SecretStoreError> {
        let value = value.expose_secret();
        if value.is_empty() {
            return Err(SecretStoreError::Empty);
        }
        if value.len() > MAX_VALUE_BYTES {
            return Err(SecretStoreError::TooLong);
        }
        if value.chars().any(char::is_control) {
            return Err(SecretStoreError::Control);
        }
        // Two writers would each drop the other's secret.
        let _guard = self.storing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match fs::symlink_metadata(&self.file) {
            Ok(found) if found.is_symlink() => return Err(SecretStoreError::Link),
            Ok(_) => read_limited(&self.file, FILE_LIMIT, LinkPolicy::Refuse)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let (mut expected, is_complete) = parse_env(&before);
        if !is_complete {
            return Err(SecretStoreError::Broken);
        }
        let after = replace_value(&before, name, value);
        expected.insert(name.to_owned(), value.to_owned());
        // The format has quotes and multi-line values; the parser decides whether the result is
        // correct.
        if parse_env(&after) != (expected.clone(), true) {
            return Err(SecretStoreError::Ambiguous);
        }
        write_private(&self.file, &after)?;
        self.from_file.store(expected.into());
        Ok(())
    }
}

/// Returns the values of a `.env`, and whether all of it could be read.
fn parse_env(text: &[u8]) -> (SecretValues, bool) {
    let mut values = SecretValues::new();
    for entry in dotenvy::from_read_iter(text) {
        match entry {
            Ok((name, value)) => drop(values.insert(name, value)),
            Err(_) => return (values, false),
        }
    }
    (values, true)
}

/// Returns the text with a secret in place of its previous lines, or at the end.
fn replace_value(before: &[u8], name: &str, value: &str) -> Vec<u8> {
    let mut after = Vec::new();
    for line in before.split_inclusive(|byte| *byte == b'\n') {
        if !defines_name(line, name) {
            after.extend_from_slice(line);
        }
    }
    if after.last().is_some_and(|last| *last != b'\n') {
        after.push(b'\n');
    }
    after.extend_from_slice(format!("{name}={}\n", quote_value(value)).as_bytes());
    after
}

fn defines_name(line: &[u8], name: &str) -> bool {
    let line = line.trim_ascii_start();
    let line = line.strip_prefix(b"export ").map_or(line, <[u8]>::trim_ascii_start);
    let rest = line.strip_prefix(name.as_bytes()).map(<[u8]>::trim_ascii_start);
    rest.is_some_and(|rest| rest.first() == Some(&b'='))
}

/// Quotes a value, so that none of its characters has a special meaning.
fn quote_value(value: &str) -> String {
    if !value.contains(['\'', '\\']) {
        return format!("'{value}'");
    }
    let mut text = String::from('"');
    for c in value.chars() {
        if matches!(c, '"' | '\\' | '$') {
            text.push('\\');
        }
        text.push(c);
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    #[test]
    fn invalid_line_is_not_repeated() {
        let home = tempfile::tempdir().unwrap();
        assert!(SecretStore::load(home.path()).1.is_none());
        fs::write(home.path().join(".env"), "SKILLHOST_TEST_KEY='s3cret'\n").unwrap();
        let (secrets, note) = SecretStore::load(home.path());
        assert_eq!(secrets.get("SKILLHOST_TEST_KEY").as_deref(), Some("s3cret"));
        assert_eq!((secrets.get("SKILLHOST_TEST_OTHER"), note), (None, None));
        fs::write(home.path().join(".env"), "hunter2 is my password\n").unwrap();
        let (_, note) = SecretStore::load(home.path());
        assert!(note.is_some_and(|note| !note.contains("hunter2")));
    }

    #[test]
    fn stored_secret_keeps_other_lines() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(".env");
        let (secrets, _) = SecretStore::load(home.path());
        secrets.store("SKILLHOST_TEST_A", &"one".into()).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "SKILLHOST_TEST_A='one'\n");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let text = "# mine\nexport SKILLHOST_TEST_A=\"x\"\nSKILLHOST_TEST_AB=2 # two";
        fs::write(&file, text).unwrap();
        secrets.store("SKILLHOST_TEST_A", &"it's $5".into()).unwrap();
        let after = "# mine\nSKILLHOST_TEST_AB=2 # two\nSKILLHOST_TEST_A=\"it's \\$5\"\n";
        assert_eq!(fs::read_to_string(&file).unwrap(), after);
        assert_eq!(secrets.get("SKILLHOST_TEST_A").as_deref(), Some("it's $5"));
        assert_eq!(secrets.get("SKILLHOST_TEST_AB").as_deref(), Some("2"));
    }

    #[test]
    fn changed_file_replaces_secrets() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(".env");
        fs::write(&file, "SKILLHOST_TEST_C=1\nSKILLHOST_TEST_D=2\n").unwrap();
        let (secrets, _) = SecretStore::load(home.path());
        assert_eq!(secrets.reload().unwrap(), BTreeSet::new());
        fs::write(&file, "SKILLHOST_TEST_C=1\nSKILLHOST_TEST_E=3\n").unwrap();
        let changed: Vec<_> = secrets.reload().unwrap().into_iter().collect();
        assert_eq!(changed, ["SKILLHOST_TEST_D", "SKILLHOST_TEST_E"]);
        assert_eq!(secrets.get("SKILLHOST_TEST_D"), None);
        // A file that cannot be read as a whole changes no secret.
        fs::write(&file, "SKILLHOST_TEST_C=9\nno assignment\n").unwrap();
        assert!(matches!(secrets.reload(), Err(SecretStoreError::Broken)));
        assert_eq!(secrets.get("SKILLHOST_TEST_C").as_deref(), Some("1"));
    }

    #[test]
    fn invalid_secret_changes_no_file() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(".env");
        let text = "SKILLHOST_TEST_B=1\n";
        fs::write(&file, text).unwrap();
        let (secrets, _) = SecretStore::load(home.path());
        let long = "hunter2".repeat(2000);
        for value in ["", "hunter2\nX=1", "hunter2\u{1b}[2J", &long] {
            let error = secrets.store("SKILLHOST_TEST_B", &value.into()).unwrap_err();
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        assert_eq!(secrets.get("SKILLHOST_TEST_B").as_deref(), Some("1"));
        fs::write(&file, "hunter2 is my password\n").unwrap();
        let error = secrets.store("SKILLHOST_TEST_B", &"x".into()).unwrap_err();
        assert_eq!(error.to_string(), ".env has a line that is not NAME=value");
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            rng_seed: RngSeed::Fixed(3),
            failure_persistence: None,
            ..ProptestConfig::with_cases(200)
        })]

        #[test]
        fn stored_secrets_are_read_back(
            value in "[ -~é]{1,40}",
            before in "(# x\n|SKILLHOST_TEST_D='a b'\n|SKILLHOST_TEST_C=old\n|\n){0,5}",
        ) {
            let home = tempfile::tempdir().unwrap();
            fs::write(home.path().join(".env"), &before).unwrap();
            let (secrets, _) = SecretStore::load(home.path());
            let other = secrets.get("SKILLHOST_TEST_D");
            secrets.store("SKILLHOST_TEST_C", &value.as_str().into()).unwrap();
            let (again, note) = SecretStore::load(home.path());
            prop_assert_eq!(again.get("SKILLHOST_TEST_C"), Some(value));
            prop_assert_eq!((again.get("SKILLHOST_TEST_D"), note), (other, None));
        }
    }
}
