//! The models of a running kernel, whose settings and keys may change.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use skillhost_conversation::{ModelError, ModelProvider, ModelSource};
use skillhost_home::ModelsSettings;

use crate::keys::home_keys;
use crate::models::ModelRegistry;

/// The models of a home for a process that outlives its settings.
///
/// A model that was resolved keeps the settings and the key of that time.
pub struct LiveModels {
    home: PathBuf,
    current: ArcSwap<ModelRegistry>,
}

impl LiveModels {
    /// Creates the models of a home from those of its settings.
    #[must_use]
    pub fn new(home: PathBuf, registry: ModelRegistry) -> Self {
        Self { home, current: ArcSwap::from_pointee(registry) }
    }
}

impl ModelSource for LiveModels {
    fn resolve_model(
        &self,
        name: Option<&str>,
        agent: &str,
    ) -> Result<Arc<dyn ModelProvider>, ModelError> {
        self.current.load().resolve_model(name, agent)
    }

    fn missing_keys(&self) -> Vec<String> {
        self.current.load().missing_keys()
    }

    fn settings_changed(&self, settings: &ModelsSettings) {
        // A `.env` that cannot be read leaves the previous keys in use.
        let keys = match home_keys(&self.home) {
            (keys, None) => Some(keys),
            (_, Some(_)) => None,
        };
        let next = self.current.load().with_changes(settings.clone(), keys);
        self.current.store(Arc::new(next));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use skillhost_conversation::ModelErrorKind;

    use super::*;

    fn settings(text: &str) -> ModelsSettings {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("skillhost.yaml");
        fs::write(&path, text).unwrap();
        skillhost_home::Settings::load(&path).unwrap().settings.models
    }

    #[test]
    fn changed_settings_and_keys_are_in_force() {
        let home = tempfile::tempdir().unwrap();
        let (keys, _) = home_keys(home.path());
        let registry = ModelRegistry::new(ModelsSettings::default(), home.path(), keys);
        let models = LiveModels::new(home.path().to_owned(), registry);
        let name = |models: &LiveModels| {
            models
                .resolve_model(None, "")
                .map(|model| model.metadata().name.clone())
                .map_err(|e| e.kind)
        };
        assert_eq!(name(&models), Ok("script/demo".to_owned()));
        let lab = settings(
            "models: {default: lab/small, providers: {lab: {wire: openai, \
             base_url: 'http://127.0.0.1:9/v1', key: LIVE_MODELS_TEST_KEY}}}",
        );
        models.settings_changed(&lab);
        assert_eq!(name(&models), Err(ModelErrorKind::Key));
        assert!(models.missing_keys().contains(&"LIVE_MODELS_TEST_KEY".to_owned()));
        fs::write(home.path().join(".env"), "LIVE_MODELS_TEST_KEY=k\n").unwrap();
        models.settings_changed(&lab);
        assert_eq!(name(&models), Ok("lab/small".to_owned()));
        // A file that cannot be read as a whole replaces no key.
        fs::write(home.path().join(".env"), "no assignment\n").unwrap();
        models.settings_changed(&lab);
        assert_eq!(name(&models), Ok("lab/small".to_owned()));
    }
}
