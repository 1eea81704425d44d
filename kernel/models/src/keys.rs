//! The keys of providers, by name.

use std::path::Path;
use std::sync::Arc;

use skillhost_home::SecretStore;

/// A source of keys.
pub trait KeySource: Send + Sync {
    /// Returns the key with a name such as `OPENAI_API_KEY`.
    fn key(&self, name: &str) -> Option<String>;
}

impl KeySource for SecretStore {
    fn key(&self, name: &str) -> Option<String> {
        // A blank value in a file or the environment means that the key is not set.
        self.get(name).map(|key| key.trim().to_owned()).filter(|key| !key.is_empty())
    }
}

/// A chain of sources, of which the first one with a key is used.
struct KeySourceChain(Vec<Box<dyn KeySource>>);

impl KeySource for KeySourceChain {
    fn key(&self, name: &str) -> Option<String> {
        self.0.iter().find_map(|keys| keys.key(name))
    }
}

/// Returns the keys of a home, with a note if its `.env` file cannot be read.
///
/// The sources are the system's keyring (in a program built with the feature `keyring`), then the
/// environment, then the `.env` file of the home.
#[must_use]
pub fn home_keys(home: &Path) -> (Arc<dyn KeySource>, Option<String>) {
    let (secrets, note) = SecretStore::load(home);
    (chain_sources(secrets), note)
}

/// Returns the keys of the keyring and the environment only, for an untrusted home.
#[must_use]
pub fn keys_of_environment() -> Arc<dyn KeySource> {
    chain_sources(SecretStore::of_environment())
}

fn chain_sources(secrets: SecretStore) -> Arc<dyn KeySource> {
    let sources: Vec<Box<dyn KeySource>> = vec![
        #[cfg(feature = "keyring")]
        Box::new(system::SystemKeyring),
        Box::new(secrets),
    ];
    Arc::new(KeySourceChain(sources))
}

#[cfg(feature = "keyring")]
mod system {
    use super::KeySource;

    /// The name of the service that stores the keys.
    const SERVICE: &str = "skillhost";

    /// The keyring of the system.
    pub(super) struct SystemKeyring;

    impl KeySource for SystemKeyring {
        fn key(&self, name: &str) -> Option<String> {
            let name = name.to_owned();
            // On its own thread: the lookup may wait for the user, and it starts its own runtime.
            let lookup = std::thread::spawn(move || {
                let entry = keyring::Entry::new(SERVICE, &name).ok()?;
                entry.get_password().ok()
            });
            // A machine without a keyring is treated like one whose keyring lacks the key.
            lookup.join().ok().flatten().filter(|key| !key.is_empty())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source with one key.
    struct SingleKey(&'static str, &'static str);

    impl KeySource for SingleKey {
        fn key(&self, name: &str) -> Option<String> {
            (name == self.0).then(|| self.1.to_owned())
        }
    }

    #[test]
    fn first_source_with_key_wins() {
        let keys =
            KeySourceChain(vec![Box::new(SingleKey("A", "1")), Box::new(SingleKey("A", "2"))]);
        assert_eq!(keys.key("A").as_deref(), Some("1"));
        let keys =
            KeySourceChain(vec![Box::new(SingleKey("B", "1")), Box::new(SingleKey("A", "2"))]);
        assert_eq!((keys.key("A").as_deref(), keys.key("C")), (Some("2"), None));
    }

    #[test]
    fn blank_key_is_missing() {
        let home = tempfile::tempdir().unwrap();
        let text = "MODELS_TEST_KEY=' k1 '\nMODELS_TEST_BLANK=' '\n";
        std::fs::write(home.path().join(".env"), text).unwrap();
        let (keys, note) = home_keys(home.path());
        assert_eq!(note, None);
        assert_eq!(keys.key("MODELS_TEST_KEY").as_deref(), Some("k1"));
        assert_eq!(keys.key("MODELS_TEST_BLANK"), None);
    }
}
