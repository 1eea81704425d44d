//! The source of models: settings, keys and names come together here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::Url;
use serde::Serialize;
use skillhost_kernel::{
    ModelDefinition, ModelError, ModelErrorKind, ModelMetadata, ModelProvider, ModelSource,
    ModelsSettings, ProviderProtocol, ProviderSettings, suggest_similar,
};

use crate::keys::KeySource;
use crate::retry::{RetryTimer, SystemRetryTimer};
use crate::script::{ModelScript, ScriptModel};
use crate::wire::{ProviderEndpoint, ProviderModel, ReasoningCache};

/// The name of the script that ships, as a model of the provider `script`.
const SHIPPED_SCRIPT: &str = "demo";

/// Models as the settings of a home have them.
pub struct ModelRegistry {
    settings: ModelsSettings,
    home: PathBuf,
    keys: Arc<dyn KeySource>,
    pause: Arc<dyn RetryTimer>,
    /// By provider: what is kept from one model to the next.
    open: Mutex<BTreeMap<String, ProviderHandle>>,
}

/// A client of a provider, and what its models thought.
#[derive(Clone)]
struct ProviderHandle {
    client: genai::Client,
    thoughts: Arc<ReasoningCache>,
}

/// A provider, and whether it can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProviderStatus {
    /// Its name.
    pub name: String,
    /// Its protocol; absent where the settings do not say and the name does not tell.
    pub wire: Option<ProviderProtocol>,
    /// Where it is; absent for scripts.
    pub base_url: Option<String>,
    /// The name of its key; absent where it needs none.
    pub key: Option<String>,
    /// Whether the key is there; true where none is needed.
    pub key_present: bool,
    /// The settings name it.
    pub configured: bool,
    /// Why it cannot be asked, whatever its key.
    pub problem: Option<String>,
}

/// The facts of a wire that hold until the settings say otherwise.
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

/// A provider as it is asked.
struct ResolvedProvider {
    wire: ProviderProtocol,
    settings: ProviderSettings,
    /// The name of its key.
    key: Option<String>,
}

impl ModelRegistry {
    /// Models of a home. Nothing is read and nobody is asked before a model is wanted.
    #[must_use]
    pub fn new(settings: ModelsSettings, home: &Path, keys: Arc<dyn KeySource>) -> Self {
        Self {
            settings,
            home: home.to_owned(),
            keys,
            pause: Arc::new(SystemRetryTimer),
            open: Mutex::default(),
        }
    }

    /// As it is, with another notion of time between attempts.
    #[must_use]
    pub fn with_retry_timer(self, pause: Arc<dyn RetryTimer>) -> Self {
        Self { pause, ..self }
    }

    /// Every provider, those first that are there without being named.
    #[must_use]
    pub fn providers(&self) -> Vec<ProviderStatus> {
        let named = self.settings.providers.keys().map(String::as_str);
        let other =
            named.filter(|name| ProviderProtocol::ALL.iter().all(|wire| wire.as_str() != *name));
        ProviderProtocol::ALL
            .iter()
            .map(|wire| wire.as_str())
            .chain(other)
            .map(|name| self.state(name))
            .collect()
    }

    fn state(&self, name: &str) -> ProviderStatus {
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

    /// The names of models that the settings mention, and the one that ships.
    #[must_use]
    pub fn known_models(&self) -> Vec<String> {
        let settings = &self.settings;
        let shipped = format!("{}/{SHIPPED_SCRIPT}", ProviderProtocol::Script);
        let mut names: Vec<_> = settings.known.keys().chain(settings.agents.values()).collect();
        names.extend([&settings.default, &shipped]);
        names.sort();
        names.dedup();
        names.into_iter().cloned().collect()
    }

    /// What is known of a model.
    #[must_use]
    pub fn metadata(&self, name: &str) -> ModelMetadata {
        let known = self.settings.known.get(name).cloned().unwrap_or_default();
        let ModelDefinition { context_window, price, .. } = known;
        ModelMetadata { name: name.to_owned(), context_window, price }
    }

    /// The provider of a name.
    fn provider(&self, name: &str) -> Result<ResolvedProvider, ModelLookupError> {
        let settings = self.settings.providers.get(name);
        let named = ProviderProtocol::ALL.into_iter().find(|wire| wire.as_str() == name);
        let wire = settings.and_then(|settings| settings.wire).or(named);
        let Some(wire) = wire else {
            return Err(match settings {
                Some(_) => ModelLookupError::new(
                    format!("the provider `{name}` names no wire"),
                    format!("say `wire: openai`, or another one, for `models.providers.{name}`"),
                ),
                None => {
                    let known = self.settings.providers.keys().map(String::as_str);
                    let known = known.chain(ProviderProtocol::ALL.iter().map(|wire| wire.as_str()));
                    let near = suggest_similar(name, known);
                    let near = near.first().map(|near| format!("did you mean `{near}`? "));
                    ModelLookupError::new(
                        format!("there is no provider `{name}`"),
                        format!(
                            "{}skillhost models list shows the providers; settings add others",
                            near.unwrap_or_default()
                        ),
                    )
                }
            });
        };
        let settings = settings.cloned().unwrap_or_default();
        // A server of one's own wants the keys of nobody else.
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
                    "the provider's base_url is not an http or https address",
                    "such as http://127.0.0.1:8000/v1",
                )
            })?;
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
            silence: millis(settings.silence_ms, 120_000),
            whole: millis(settings.timeout_ms, 600_000),
            retries: settings.retries.unwrap_or(3),
            stream: settings.stream.unwrap_or(true),
        })
    }

    /// The script of a provider; `model` is wanted of it.
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
                    "docs/models.md says what a script may say",
                )
            }),
            None if model.is_some_and(|model| model != SHIPPED_SCRIPT) => {
                Err(ModelLookupError::new(
                    format!("the provider `{name}` has the model `{SHIPPED_SCRIPT}` alone"),
                    "a provider with `wire: script` and `script: FILE` plays another script",
                ))
            }
            None => Ok(ModelScript::bundled()),
        }
    }

    fn find(&self, name: &str) -> Result<Arc<dyn ModelProvider>, ModelLookupError> {
        let Some((provider_name, model)) = name
            .split_once('/')
            .filter(|(provider, model)| !provider.is_empty() && !model.is_empty())
        else {
            return Err(ModelLookupError::new(
                "a model is named as provider/model",
                "such as openai/gpt-5, anthropic/claude-sonnet-4-5 or script/demo",
            ));
        };
        let provider = self.provider(provider_name)?;
        let facts = self.metadata(name);
        if provider.wire == ProviderProtocol::Script {
            let script = self.script(provider_name, Some(model), &provider)?;
            return Ok(Arc::new(ScriptModel::new(script, facts)));
        }
        let endpoint = self.endpoint(&provider)?;
        if let (Some(key), None) = (&provider.key, &endpoint.key) {
            return Err(ModelLookupError {
                kind: ModelErrorKind::Key,
                ..ModelLookupError::new(
                    format!("the key {key} of the provider `{provider_name}` is not there"),
                    format!(
                        "set {key} in the environment or in {}, or run script/demo, which needs none",
                        self.home.join(".env").display()
                    ),
                )
            });
        }
        let ProviderHandle { client, thoughts } = self.opened(provider_name, &endpoint)?;
        Ok(Arc::new(ProviderModel {
            facts,
            model: model.to_owned(),
            max_output_tokens: self.settings.known.get(name).and_then(|it| it.max_output_tokens),
            endpoint,
            client,
            pause: Arc::clone(&self.pause),
            thoughts,
        }))
    }

    fn opened(
        &self,
        provider: &str,
        endpoint: &ProviderEndpoint,
    ) -> Result<ProviderHandle, ModelLookupError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = open.get(provider) {
            return Ok(open.clone());
        }
        let client = endpoint.client().map_err(|words| ModelLookupError {
            kind: ModelErrorKind::Network,
            ..ModelLookupError::new(
                format!("no TLS for {}: {words}", endpoint.display_url()),
                "install the certificates of the system (often a package ca-certificates)",
            )
        })?;
        let new = ProviderHandle { client, thoughts: Arc::default() };
        open.insert(provider.to_owned(), new.clone());
        Ok(new)
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
}

/// Why there is no such model.
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
