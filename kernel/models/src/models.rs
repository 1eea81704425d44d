//! The source of models, which resolves names by the settings and the keys.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::Url;
use serde::Serialize;
use skillhost_conversation::{
    ModelError, ModelErrorKind, ModelMetadata, ModelProvider, ModelSource,
};
use skillhost_home::{
    ModelDefinition, ModelNameError, ModelsSettings, ProviderProtocol, ProviderSettings,
    suggest_similar,
};
use skillhost_payload::OperatorCommand;

use crate::keys::KeySource;
use crate::retry::{RetryTimer, SystemRetryTimer};
use crate::script::{ChanceDraws, ModelScript, ScriptModel};
use crate::wire::{ProviderEndpoint, ProviderModel, ReasoningCache};

/// The model name of the bundled script in the provider `script`.
const BUNDLED_SCRIPT: &str = "demo";

/// The models of a home according to its settings.
pub struct ModelRegistry {
    settings: ModelsSettings,
    home: PathBuf,
    keys: Arc<dyn KeySource>,
    timer: Arc<dyn RetryTimer>,
    /// The state that the models of a provider share, by provider.
    handles: Mutex<BTreeMap<String, ProviderHandle>>,
    /// The random numbers of the scripts.
    draws: Arc<ChanceDraws>,
}

/// The client of a provider and the reasoning of its models.
#[derive(Clone)]
struct ProviderHandle {
    client: genai::Client,
    reasoning: Arc<ReasoningCache>,
}

/// A provider and its readiness for requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProviderStatus {
    /// The name of the provider.
    pub name: String,
    /// Its protocol; absent if neither the settings nor the name determine it.
    pub wire: Option<ProviderProtocol>,
    /// Its base URL; absent for scripts.
    pub base_url: Option<String>,
    /// The name of its key; absent if it requires none.
    pub key: Option<String>,
    /// `true` if the key is present or none is required.
    pub key_present: bool,
    /// `true` if the settings name the provider.
    pub configured: bool,
    /// The reason for which it cannot be used, apart from a missing key.
    pub problem: Option<String>,
}

/// The defaults of a protocol, which the settings may override.
struct ProtocolDefaults {
    base_url: &'static str,
    key: Option<&'static str>,
}

impl ProtocolDefaults {
    const fn for_protocol(wire: ProviderProtocol) -> Self {
        let (base_url, key) = match wire {
            ProviderProtocol::Openai | ProviderProtocol::OpenaiResponses => {
                ("https://api.openai.com/v1/", Some("OPENAI_API_KEY"))
            }
            ProviderProtocol::Anthropic => {
                ("https://api.anthropic.com/v1/", Some("ANTHROPIC_API_KEY"))
            }
            ProviderProtocol::Gemini => {
                ("https://generativelanguage.googleapis.com/v1beta/", Some("GEMINI_API_KEY"))
            }
            ProviderProtocol::Ollama => ("http://localhost:11434/", None),
            ProviderProtocol::Script => ("", None),
        };
        Self { base_url, key }
    }
}

/// A provider with its protocol, its settings and the name of its key.
struct ResolvedProvider {
    wire: ProviderProtocol,
    settings: ProviderSettings,
    /// The name of the key; `None` if the provider requires none.
    key: Option<String>,
}

impl ModelRegistry {
    /// Creates the registry of a home.
    ///
    /// No file is read and no connection is opened before a model is resolved.
    #[must_use]
    pub fn new(settings: ModelsSettings, home: &Path, keys: Arc<dyn KeySource>) -> Self {
        Self {
            settings,
            home: home.to_owned(),
            keys,
            timer: Arc::new(SystemRetryTimer),
            handles: Mutex::default(),
            draws: Arc::default(),
        }
    }

    /// Replaces the timer between attempts.
    #[must_use]
    pub fn with_retry_timer(self, timer: Arc<dyn RetryTimer>) -> Self {
        Self { timer, ..self }
    }

    /// Returns the registry with other settings, and with other keys if they are given. Providers
    /// whose settings are the same keep their connections.
    pub(crate) fn with_changes(
        &self,
        settings: ModelsSettings,
        keys: Option<Arc<dyn KeySource>>,
    ) -> Self {
        let is_same =
            |name: &str| self.settings.providers.get(name) == settings.providers.get(name);
        let handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = handles.iter().filter(|(name, _)| is_same(name));
        let handles = kept.map(|(name, handle)| (name.clone(), handle.clone())).collect();
        Self {
            settings,
            home: self.home.clone(),
            keys: keys.unwrap_or_else(|| Arc::clone(&self.keys)),
            timer: Arc::clone(&self.timer),
            handles: Mutex::new(handles),
            draws: Arc::clone(&self.draws),
        }
    }

    /// Returns all providers, first those that exist without settings.
    #[must_use]
    pub fn providers(&self) -> Vec<ProviderStatus> {
        let named = self.settings.providers.keys().map(String::as_str);
        let other =
            named.filter(|name| ProviderProtocol::ALL.iter().all(|wire| wire.as_str() != *name));
        ProviderProtocol::ALL
            .iter()
            .map(|wire| wire.as_str())
            .chain(other)
            .map(|name| self.provider_status(name))
            .collect()
    }

    fn provider_status(&self, name: &str) -> ProviderStatus {
        let configured = self.settings.providers.contains_key(name);
        let mut state = ProviderStatus {
            name: name.to_owned(),
            wire: None,
            base_url: None,
            key: None,
            key_present: true,
            configured,
            problem: None,
        };
        let endpoint = self.provider(name).and_then(|provider| {
            state.wire = Some(provider.wire);
            state.key.clone_from(&provider.key);
            // Set before the endpoint is checked, so that a later error does not hide them.
            state.key_present = self.key_of(&provider).is_some() || provider.key.is_none();
            match provider.wire {
                ProviderProtocol::Script => self.script(name, None, &provider).map(|_| None),
                _ => self.endpoint(&provider).map(|endpoint| Some(endpoint.display_url())),
            }
        });
        match endpoint {
            Ok(base_url) => state.base_url = base_url,
            Err(problem) => state.problem = Some(problem.message),
        }
        state
    }

    /// Returns the names of the models in the settings and of the bundled one, aliases and names
    /// without a provider as the models that they resolve to.
    #[must_use]
    pub fn known_models(&self) -> Vec<String> {
        let settings = &self.settings;
        let shipped = format!("{}/{BUNDLED_SCRIPT}", ProviderProtocol::Script);
        let mut names: Vec<_> = settings.known.keys().chain(settings.agents.values()).collect();
        names.extend([&settings.default, &shipped]);
        names.extend(settings.aliases.values());
        let mut names: Vec<_> = names.into_iter().map(|name| self.full_name(name)).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Returns the `provider/model` that a name resolves to, or the name itself if it resolves to
    /// none.
    #[must_use]
    pub fn full_name(&self, name: &str) -> String {
        self.settings.resolve_name(name).unwrap_or_else(|_| name.to_owned())
    }

    /// Returns the errors of the names that cannot be used: of these, the aliases and the default.
    #[must_use]
    pub fn unresolved_models<'a>(
        &'a self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Vec<ModelError> {
        let own = self.settings.aliases.keys().chain([&self.settings.default]);
        let mut all: BTreeSet<_> = names.into_iter().collect();
        all.extend(own.map(String::as_str));
        all.into_iter().filter_map(|name| self.resolve_model(Some(name), "").err()).collect()
    }

    /// Returns the metadata of a model, by its full name.
    #[must_use]
    pub fn metadata(&self, name: &str) -> ModelMetadata {
        let known = self.settings.known.get(name).cloned().unwrap_or_default();
        let ModelDefinition { context_window, price, .. } = known;
        ModelMetadata { name: name.to_owned(), context_window, price }
    }

    /// Resolves a provider by its name.
    fn provider(&self, name: &str) -> Result<ResolvedProvider, ModelLookupError> {
        let settings = self.settings.providers.get(name);
        let named = ProviderProtocol::ALL.into_iter().find(|wire| wire.as_str() == name);
        let wire = settings.and_then(|settings| settings.wire).or(named);
        let Some(wire) = wire else {
            return Err(match settings {
                Some(_) => ModelLookupError::new(
                    format!("provider `{name}` requires a `wire`"),
                    format!("set `wire: openai`, or another one, in `models.providers.{name}`"),
                ),
                None => {
                    let known = self.settings.providers.keys().map(String::as_str);
                    let known = known.chain(ProviderProtocol::ALL.iter().map(|wire| wire.as_str()));
                    let near = suggest_similar(name, known);
                    let near = near.first().map(|near| format!("did you mean `{near}`? "));
                    ModelLookupError::new(
                        format!("provider `{name}` not found"),
                        format!(
                            "{}see {}, or add the provider to the settings",
                            near.unwrap_or_default(),
                            OperatorCommand::ListModels
                        ),
                    )
                }
            });
        };
        let settings = settings.cloned().unwrap_or_default();
        // A custom server must not receive the key of a public provider by default.
        let usual = ProtocolDefaults::for_protocol(wire).key.filter(|_| named == Some(wire));
        let key = settings.key.clone().or_else(|| usual.map(str::to_owned));
        Ok(ResolvedProvider { wire, settings, key: key.filter(|key| !key.is_empty()) })
    }

    fn key_of(&self, provider: &ResolvedProvider) -> Option<String> {
        provider.key.as_ref().and_then(|name| self.keys.key(name))
    }

    fn endpoint(&self, provider: &ResolvedProvider) -> Result<ProviderEndpoint, ModelLookupError> {
        let settings = &provider.settings;
        let text = settings
            .base_url
            .as_deref()
            .unwrap_or(ProtocolDefaults::for_protocol(provider.wire).base_url);
        let mut base_url = Url::parse(text)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| {
                ModelLookupError::new(
                    "base_url of the provider is not a valid http or https address",
                    "use an address such as http://127.0.0.1:8000/v1",
                )
            })?;
        // A relative path would replace the last segment of a base without a final slash.
        if !base_url.path().ends_with('/') {
            base_url.set_path(&format!("{}/", base_url.path()));
        }
        let millis = |given: Option<u64>, usual| Duration::from_millis(given.unwrap_or(usual));
        Ok(ProviderEndpoint {
            wire: provider.wire,
            base_url,
            key: self.key_of(provider),
            key_name: provider.key.clone(),
            connect: millis(settings.connect_ms, 10_000),
            idle: millis(settings.silence_ms, 120_000),
            total: millis(settings.timeout_ms, 600_000),
            retries: settings.retries.unwrap_or(3),
            stream: settings.stream.unwrap_or(true),
        })
    }

    /// Returns the script of a provider.
    ///
    /// # Errors
    /// [`ModelLookupError`] for an invalid script and for a `model` that the provider lacks.
    fn script(
        &self,
        name: &str,
        model: Option<&str>,
        provider: &ResolvedProvider,
    ) -> Result<ModelScript, ModelLookupError> {
        match &provider.settings.script {
            Some(file) => ModelScript::load(&self.home.join(file)).map_err(|error| {
                ModelLookupError::new(
                    error.to_string(),
                    "see docs/models.md for the format of scripts",
                )
            }),
            None if model.is_some_and(|model| model != BUNDLED_SCRIPT) => {
                Err(ModelLookupError::new(
                    format!("provider `{name}` has only the model `{BUNDLED_SCRIPT}`"),
                    "add a provider with `wire: script` and `script: FILE` for another script",
                ))
            }
            None => Ok(ModelScript::bundled()),
        }
    }

    fn find(&self, name: &str) -> Result<Arc<dyn ModelProvider>, ModelLookupError> {
        let full = self.settings.resolve_name(name).map_err(|error| to_lookup_error(&error))?;
        let (provider_name, model) = full.split_once('/').unwrap_or(("", &full));
        let provider = self.provider(provider_name)?;
        let metadata = self.metadata(&full);
        if provider.wire == ProviderProtocol::Script {
            // A hint about scripts does not help where the name of another provider's model is given.
            let is_bare = !name.contains('/') && !self.settings.aliases.contains_key(name);
            if is_bare && provider.settings.script.is_none() && model != BUNDLED_SCRIPT {
                return Err(self.missing_alias_error(name, provider_name));
            }
            let script = self.script(provider_name, Some(model), &provider)?;
            return Ok(Arc::new(ScriptModel::new(script, metadata, Arc::clone(&self.draws))));
        }
        let endpoint = self.endpoint(&provider)?;
        // Reported here, before a request would fail with a less specific error of the provider.
        if let (Some(key), None) = (&provider.key, &endpoint.key) {
            return Err(ModelLookupError {
                kind: ModelErrorKind::Key,
                ..ModelLookupError::new(
                    format!("key {key} of provider `{provider_name}` not found"),
                    format!(
                        "set {key} in the environment or in {}, or run script/demo, which needs none",
                        self.home.join(".env").display()
                    ),
                )
            });
        }
        let ProviderHandle { client, reasoning } =
            self.provider_handle(provider_name, &endpoint)?;
        Ok(Arc::new(ProviderModel {
            metadata,
            model: model.to_owned(),
            max_output_tokens: self.settings.known.get(&full).and_then(|it| it.max_output_tokens),
            endpoint,
            client,
            timer: Arc::clone(&self.timer),
            reasoning,
        }))
    }

    /// Returns the error for a name without provider, of which the default provider has no model.
    fn missing_alias_error(&self, name: &str, provider: &str) -> ModelLookupError {
        let near = suggest_similar(name, self.settings.aliases.keys().map(String::as_str));
        let near = near.first().map(|near| format!("did you mean `{near}`? "));
        ModelLookupError::new(
            format!("`{name}` is not an alias, and the default provider `{provider}` lacks it"),
            format!(
                "{}add `{name}: provider/model` to `models.aliases` in skillhost.yaml, or set \
                 `models.default` to a model of its provider",
                near.unwrap_or_default()
            ),
        )
    }

    fn provider_handle(
        &self,
        provider: &str,
        endpoint: &ProviderEndpoint,
    ) -> Result<ProviderHandle, ModelLookupError> {
        // Shared by all models of the provider: connections are reused, and the reasoning of a call
        // must be found by the next run.
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = handles.get(provider) {
            return Ok(handle.clone());
        }
        let client = endpoint.client().map_err(|words| ModelLookupError {
            kind: ModelErrorKind::Network,
            ..ModelLookupError::new(
                format!("TLS is not available for {}: {words}", endpoint.display_url()),
                "install the certificates of the system (often a package ca-certificates)",
            )
        })?;
        let handle = ProviderHandle { client, reasoning: Arc::default() };
        handles.insert(provider.to_owned(), handle.clone());
        Ok(handle)
    }
}

impl ModelSource for ModelRegistry {
    fn resolve_model(
        &self,
        name: Option<&str>,
        agent: &str,
    ) -> Result<Arc<dyn ModelProvider>, ModelError> {
        let name = name.unwrap_or_else(|| self.settings.model_for(agent, None));
        self.find(name).map_err(|ModelLookupError { message, hint, kind }| ModelError {
            kind,
            model: name.to_owned(),
            message,
            hint,
        })
    }

    fn missing_keys(&self) -> Vec<String> {
        let known = ProviderProtocol::ALL.iter().map(|wire| wire.as_str());
        let names: BTreeSet<_> =
            known.chain(self.settings.providers.keys().map(String::as_str)).collect();
        let providers = names.into_iter().filter_map(|name| self.provider(name).ok());
        let missing = providers.filter(|provider| self.key_of(provider).is_none());
        let keys: BTreeSet<_> = missing.filter_map(|provider| provider.key).collect();
        keys.into_iter().collect()
    }
}

/// An error of the resolution of a model name.
struct ModelLookupError {
    message: String,
    hint: String,
    kind: ModelErrorKind,
}

impl ModelLookupError {
    fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into(), kind: ModelErrorKind::Unknown }
    }
}

/// Adds the next step to an error of the resolution of a name.
fn to_lookup_error(error: &ModelNameError) -> ModelLookupError {
    let hint = match error {
        ModelNameError::Malformed => {
            "use a name such as openai/gpt-5, anthropic/claude-sonnet-4-5 or script/demo".into()
        }
        ModelNameError::InvalidAlias { alias, .. } => {
            format!("set `models.aliases.{alias}` in skillhost.yaml to provider/model")
        }
        ModelNameError::NoDefaultProvider { .. } => {
            "set `models.default` in skillhost.yaml to provider/model".into()
        }
    };
    ModelLookupError::new(error.to_string(), hint)
}
