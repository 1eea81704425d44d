//! The settings of models.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The model without any settings: the shipped script.
const DEFAULT_MODEL: &str = "script/demo";

/// The models that agents run on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ModelsSettings {
    /// The model of agents that name none, as `provider/model` or as an alias. Its provider also
    /// provides the models that are named without one.
    pub default: String,
    /// By alias: the model, as `provider/model`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub aliases: BTreeMap<String, String>,
    /// By agent id: the model of the agent, which overrides its manifest's.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub agents: BTreeMap<String, String>,
    /// By name: the providers of models. `openai`, `openai_responses`, `anthropic`, `gemini`,
    /// `ollama` and `script` exist without an entry.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub providers: BTreeMap<String, ProviderSettings>,
    /// By `provider/model`: the properties of a model.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub known: BTreeMap<String, ModelDefinition>,
}

/// A provider of models and the connection to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProviderSettings {
    /// The protocol; by default the one of the provider's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wire: Option<ProviderProtocol>,
    /// The base of the protocol's paths, version included, such as `http://127.0.0.1:8000/v1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The name of the secret with the key, never the key itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The file of a scripted model, relative to the home.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<PathBuf>,
    /// Timeout of a connection, in milliseconds; default: 10000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_ms: Option<u64>,
    /// Timeout of silence before and during a reply, in milliseconds; default: 120000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silence_ms: Option<u64>,
    /// Timeout of a complete reply, in milliseconds; default: 600000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Retries of a request that failed for a temporary reason; default: 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// Stream replies; default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
}

/// A protocol of model providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProviderProtocol {
    /// OpenAI's Chat Completions, and every server compatible with it.
    Openai,
    /// OpenAI's Responses.
    OpenaiResponses,
    /// Anthropic's Messages.
    Anthropic,
    /// Gemini's generateContent.
    Gemini,
    /// Ollama's own chat.
    Ollama,
    /// No server: a script contains the model's replies.
    Script,
}

/// The properties of a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ModelDefinition {
    /// The size of the context window: tokens of one request and its reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u32>,
    /// The most tokens of a reply, if the agent's parameters set no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    /// The price of a million tokens, in any currency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<TokenPrice>,
}

/// An error of the resolution of a model name to `provider/model`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelNameError {
    /// The name is empty, or a part before or after its first `/` is.
    #[error("a model name requires the form provider/model")]
    Malformed,
    /// The target of an alias has no provider.
    #[error("target `{target}` of the alias `{alias}` is not of the form provider/model")]
    InvalidAlias {
        /// The alias.
        alias: String,
        /// Its target in the settings.
        target: String,
    },
    /// The name has no provider, and neither has the default model.
    #[error("the default model `{default}` has no provider")]
    NoDefaultProvider {
        /// The default model in the settings.
        default: String,
    },
}

/// Returns the provider of a full name, and the provider's name of the model.
fn split_name(name: &str) -> Option<(&str, &str)> {
    name.split_once('/').filter(|(provider, model)| !provider.is_empty() && !model.is_empty())
}

impl Default for ModelsSettings {
    fn default() -> Self {
        Self {
            default: DEFAULT_MODEL.to_owned(),
            aliases: BTreeMap::new(),
            agents: BTreeMap::new(),
            providers: BTreeMap::new(),
            known: BTreeMap::new(),
        }
    }
}

impl ModelsSettings {
    /// Returns the model of an agent: the settings' choice for it, else its manifest's, else the
    /// default.
    #[must_use]
    pub fn model_for<'a>(&'a self, agent: &str, manifest: Option<&'a str>) -> &'a str {
        self.agents.get(agent).map(String::as_str).or(manifest).unwrap_or(&self.default)
    }

    /// Returns the full name, `provider/model`, of a model: that of its alias, the name itself, or
    /// the name at the provider of the default model.
    ///
    /// # Errors
    /// [`ModelNameError`] if no provider can be determined.
    pub fn resolve_name(&self, name: &str) -> Result<String, ModelNameError> {
        if let Some(target) = self.aliases.get(name) {
            // An alias of an alias could lead to a circle.
            return match split_name(target) {
                Some(_) => Ok(target.clone()),
                None => Err(ModelNameError::InvalidAlias {
                    alias: name.to_owned(),
                    target: target.clone(),
                }),
            };
        }
        if split_name(name).is_some() {
            return Ok(name.to_owned());
        }
        if name.is_empty() || name.contains('/') {
            return Err(ModelNameError::Malformed);
        }
        let default = self.aliases.get(&self.default).unwrap_or(&self.default);
        match split_name(default) {
            Some((provider, _)) => Ok(format!("{provider}/{name}")),
            None => Err(ModelNameError::NoDefaultProvider { default: self.default.clone() }),
        }
    }

    /// Lists every value with its path, which begins with `models`; model names contain dots.
    pub(super) fn rows(&self) -> Vec<(Vec<String>, Value)> {
        let path = |keys: &[&str]| {
            std::iter::once(&"models").chain(keys).map(|key| (*key).to_owned()).collect()
        };
        let mut rows = vec![(path(&["default"]), Value::from(self.default.clone()))];
        for (alias, model) in &self.aliases {
            rows.push((path(&["aliases", alias]), Value::from(model.clone())));
        }
        for (agent, model) in &self.agents {
            rows.push((path(&["agents", agent]), Value::from(model.clone())));
        }
        for (name, provider) in &self.providers {
            // A value that consists of fields is always valid JSON.
            let mut provider = serde_json::to_value(provider).unwrap_or_default();
            provider.sort_all_objects();
            for (key, value) in provider.as_object().into_iter().flatten() {
                rows.push((path(&["providers", name, key]), value.clone()));
            }
        }
        for (name, known) in &self.known {
            let mut known = serde_json::to_value(known).unwrap_or_default();
            known.sort_all_objects();
            rows.push((path(&["known", name]), known));
        }
        rows
    }
}

impl ProviderProtocol {
    /// Every protocol.
    pub const ALL: [Self; 6] = [
        Self::Openai,
        Self::OpenaiResponses,
        Self::Anthropic,
        Self::Gemini,
        Self::Ollama,
        Self::Script,
    ];

    /// Returns its name in the settings, which is also the name of its predefined provider.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::OpenaiResponses => "openai_responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
            Self::Script => "script",
        }
    }
}

impl fmt::Display for ProviderProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The price of a million tokens, in the currency of the settings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenPrice {
    /// Price of input tokens.
    pub input: f64,
    /// Price of output tokens.
    pub output: f64,
    /// Price of input tokens cached by the provider; defaults to `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<f64>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn model_settings_are_read_and_listed() {
        let text = "
default: lab/small
aliases: {fast: lab/small}
agents: {builder_agent: openai/gpt-5}
providers:
  lab: {wire: openai, base_url: 'http://127.0.0.1:8000/v1', key: LAB_KEY, retries: 0}
  demo: {wire: script, script: scripts/demo.yaml}
known:
  lab/small: {context_window: 8000, price: {input: 1, output: 2}}
";
        let settings: ModelsSettings = serde_yaml::from_str(text).unwrap();
        assert_eq!(settings.providers["lab"].wire, Some(ProviderProtocol::Openai));
        let rows = settings.rows().into_iter().map(|(path, value)| (path.join("."), value));
        let rows: Vec<_> = rows.collect();
        let expected = [
            ("models.default", json!("lab/small")),
            ("models.aliases.fast", json!("lab/small")),
            ("models.agents.builder_agent", json!("openai/gpt-5")),
            ("models.providers.demo.script", json!("scripts/demo.yaml")),
            ("models.providers.demo.wire", json!("script")),
            ("models.providers.lab.base_url", json!("http://127.0.0.1:8000/v1")),
            ("models.providers.lab.key", json!("LAB_KEY")),
            ("models.providers.lab.retries", json!(0)),
            ("models.providers.lab.wire", json!("openai")),
            (
                "models.known.lab/small",
                json!({"context_window": 8000, "price": {"input": 1.0, "output": 2.0}}),
            ),
        ]
        .map(|(key, value)| (key.to_owned(), value));
        assert_eq!(rows, expected);
    }

    #[test]
    fn settings_beat_manifest_model() {
        let text = "{default: a/x, agents: {builder_agent: b/x}}";
        let settings: ModelsSettings = serde_yaml::from_str(text).unwrap();
        assert_eq!(settings.model_for("builder_agent", Some("c/x")), "b/x");
        assert_eq!(settings.model_for("other", Some("c/x")), "c/x");
        assert_eq!(settings.model_for("other", None), "a/x");
    }

    #[test]
    fn names_resolve_by_alias_and_default_provider() {
        let read = |text| serde_yaml::from_str::<ModelsSettings>(text).unwrap();
        let settings = read("{default: fast, aliases: {fast: lab/small, a/b: c/d, odd: fast}}");
        let name = |name: &str| settings.resolve_name(name);
        assert_eq!(name("fast").as_deref(), Ok("lab/small"));
        assert_eq!(name("gpt-5.2-codex").as_deref(), Ok("lab/gpt-5.2-codex"));
        assert_eq!(name("openai/gpt-5").as_deref(), Ok("openai/gpt-5"));
        assert_eq!(name("router/meta/llama").as_deref(), Ok("router/meta/llama"));
        assert_eq!(name("a/b").as_deref(), Ok("c/d"));
        for malformed in ["", "/", "a/", "/b"] {
            assert_eq!(name(malformed), Err(ModelNameError::Malformed), "{malformed}");
        }
        let (alias, target) = ("odd".to_owned(), "fast".to_owned());
        assert_eq!(name("odd"), Err(ModelNameError::InvalidAlias { alias, target }));
        let default = "small".to_owned();
        let missing = Err(ModelNameError::NoDefaultProvider { default });
        assert_eq!(read("default: small").resolve_name("small"), missing);
    }

    #[test]
    fn invalid_entries_are_rejected() {
        for text in ["providers: {a: {wire: soap}}", "known: {a: {window: 1}}", "model: x"] {
            assert!(serde_yaml::from_str::<ModelsSettings>(text).is_err(), "{text}");
        }
        for wire in ProviderProtocol::ALL {
            assert_eq!(serde_json::to_value(wire).unwrap(), wire.as_str());
        }
    }
}
