//! Keys of providers, by name.

use std::path::Path;
use std::sync::Arc;

use skillhost_kernel::Secrets;

/// Where keys are looked up.
pub trait Keys: Send + Sync {
    /// Finds the key of a name, such as `OPENAI_API_KEY`.
    fn key(&self, name: &str) -> Option<String>;
}

impl Keys for Secrets {
    fn key(&self, name: &str) -> Option<String> {
        self.get(name).map(|key| key.trim().to_owned()).filter(|key| !key.is_empty())
    }
}

/// The keys of a home: from the environment, else from the home's `.env`. Also returns a note where
/// that file cannot be read.
#[must_use]
pub fn keys_of(home: &Path) -> (Arc<dyn Keys>, Option<String>) {
    let (secrets, note) = Secrets::read(home);
    (Arc::new(secrets), note)
}
