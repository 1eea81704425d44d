//! Keys of providers, by name.

use std::path::Path;
use std::sync::Arc;

use skillhost_kernel::SecretStore;

/// Where keys are looked up.
pub trait KeySource: Send + Sync {
    /// Finds the key of a name, such as `OPENAI_API_KEY`.
    fn key(&self, name: &str) -> Option<String>;
}

impl KeySource for SecretStore {
    fn key(&self, name: &str) -> Option<String> {
        self.get(name).map(|key| key.trim().to_owned()).filter(|key| !key.is_empty())
    }
}

/// Several places, asked in order.
struct KeySourceChain(Vec<Box<dyn KeySource>>);

impl KeySource for KeySourceChain {
    fn key(&self, name: &str) -> Option<String> {
        self.0.iter().find_map(|keys| keys.key(name))
    }
}

/// The keys of a home: from the system's keyring (in a program built with the feature `keyring`),
/// else from the environment, else from the home's `.env`. Also returns a note where that file
/// cannot be read.
#[must_use]
pub fn home_keys(home: &Path) -> (Arc<dyn KeySource>, Option<String>) {
    let (secrets, note) = SecretStore::load(home);
    (in_order(secrets), note)
}

/// The keys of the keyring and the environment alone, for a home that is not trusted.
#[must_use]
pub fn keys_of_environment() -> Arc<dyn KeySource> {
    in_order(SecretStore::of_environment())
}

fn in_order(secrets: SecretStore) -> Arc<dyn KeySource> {
    let places: Vec<Box<dyn KeySource>> = vec![
        #[cfg(feature = "keyring")]
        Box::new(system::Keyring),
        Box::new(secrets),
    ];
    Arc::new(KeySourceChain(places))
}

#[cfg(feature = "keyring")]
mod system {
    use super::KeySource;

    /// The service under which keys are kept.
    const SERVICE: &str = "skillhost";

    /// The keyring of the system.
    pub(super) struct SystemKeyring;

    impl KeySource for SystemKeyring {
        fn key(&self, name: &str) -> Option<String> {
            let name = name.to_owned();
            // On a thread of its own: it may wait for a person, and it brings its own runtime.
            let asked = std::thread::spawn(move || {
                let entry = keyring::Entry::new(SERVICE, &name).ok()?;
                entry.get_password().ok()
            });
            // A machine without a keyring is as one whose keyring lacks the key.
            asked.join().ok().flatten().filter(|key| !key.is_empty())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Only(&'static str, &'static str);

    impl KeySource for Only {
        fn key(&self, name: &str) -> Option<String> {
            (name == self.0).then(|| self.1.to_owned())
        }
    }

    #[test]
    fn the_first_place_that_has_a_key_counts() {
        let keys = KeySourceChain(vec![Box::new(Only("A", "1")), Box::new(Only("A", "2"))]);
        assert_eq!(keys.key("A").as_deref(), Some("1"));
        let keys = KeySourceChain(vec![Box::new(Only("B", "1")), Box::new(Only("A", "2"))]);
        assert_eq!((keys.key("A").as_deref(), keys.key("C")), (Some("2"), None));
    }

    #[test]
    fn a_homes_file_has_keys_and_blanks_are_none() {
        let home = tempfile::tempdir().unwrap();
        let text = "MODELS_TEST_KEY=' k1 '\nMODELS_TEST_BLANK=' '\n";
        std::fs::write(home.path().join(".env"), text).unwrap();
        let (keys, note) = home_keys(home.path());
        assert_eq!(note, None);
        assert_eq!(keys.key("MODELS_TEST_KEY").as_deref(), Some("k1"));
        assert_eq!(keys.key("MODELS_TEST_BLANK"), None);
    }
}
