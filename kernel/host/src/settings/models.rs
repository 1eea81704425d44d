//! What the settings say about models.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::TokenPrice;

/// The model without any settings: the script that ships.
pub const DEFAULT_MODEL: &str = "script/demo";

/// The models that agents run on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ModelsSettings {
    /// The model of agents that name none, as `provider/model`.
    pub default: String,
    /// By agent id: the model it runs on, whatever its manifest says.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub agents: BTreeMap<String, String>,
    /// By name: where models are. `openai`, `openai_responses`, `anthropic`, `gemini`, `ollama` and
    /// `script` are there without being named.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub providers: BTreeMap<String, ProviderSettings>,
    /// By `provider/model`: what is known of a model.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub known: BTreeMap<String, ModelDefinition>,
}

/// Where models are and how they are asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProviderSettings {
    /// The protocol; without it, the one that the provider's name is the name of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wire: Option<ProviderProtocol>,
    /// Where the protocol's paths begin, version included, such as `http://127.0.0.1:8000/v1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The name of the secret that is the key, never the key itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The file of a scripted model, relative to the home.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<PathBuf>,
    /// Milliseconds until a connection has to stand; 10000 without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_ms: Option<u64>,
    /// Milliseconds of silence, before an answer and within it; 120000 without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silence_ms: Option<u64>,
    /// Milliseconds for a whole answer; 600000 without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How often a request is made again that failed for a passing reason; 3 without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// Whether answers come piece by piece; true without it.
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
    /// No server: a script says what the model answers.
    Script,
}

/// What is known of a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ModelDefinition {
    /// Tokens that fit into one request and its reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u32>,
    /// Tokens that a reply may have, where the agent's parameters do not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    /// What a million tokens cost, in whatever currency you count in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<TokenPrice>,
}

impl Default for ModelsSettings {
    fn default() -> Self {
        Self {
            default: DEFAULT_MODEL.to_owned(),
            agents: BTreeMap::new(),
            providers: BTreeMap::new(),
            known: BTreeMap::new(),
        }
    }
}

impl ModelsSettings {
    /// The model of an agent: the settings' choice for it, else its manifest's, else the default.
    #[must_use]
    pub fn model_for<'a>(&'a self, agent: &str, manifest: Option<&'a str>) -> &'a str {
        self.agents.get(agent).map(String::as_str).or(manifest).unwrap_or(&self.default)
    }

    /// Every value with its path, which begins with `models`; names of models have dots in them.
    pub(super) fn rows(&self) -> Vec<(Vec<String>, Value)> {
        let path = |keys: &[&str]| {
            std::iter::once(&"models").chain(keys).map(|key| (*key).to_owned()).collect()
        };
        let mut rows = vec![(path(&["default"]), Value::from(self.default.clone()))];
        for (agent, model) in &self.agents {
            rows.push((path(&["agents", agent]), Value::from(model.clone())));
        }
        for (name, provider) in &self.providers {
            // A value made of fields alone is always JSON.
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

    /// Its name in the settings, which is also that of the provider that is there without being
    /// named.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_of_models_are_read_and_listed() {
        let text = "
default: lab/small
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
    fn settings_beat_a_manifest_which_beats_the_default() {
        let text = "{default: a/x, agents: {builder_agent: b/x}}";
        let settings: ModelsSettings = serde_yaml::from_str(text).unwrap();
        assert_eq!(settings.model_for("builder_agent", Some("c/x")), "b/x");
        assert_eq!(settings.model_for("other", Some("c/x")), "c/x");
        assert_eq!(settings.model_for("other", None), "a/x");
    }

    #[test]
    fn what_may_not_stand_there_is_refused() {
        for text in ["providers: {a: {wire: soap}}", "known: {a: {window: 1}}", "model: x"] {
            assert!(serde_yaml::from_str::<ModelsSettings>(text).is_err(), "{text}");
        }
        for wire in ProviderProtocol::ALL {
            assert_eq!(serde_json::to_value(wire).unwrap(), wire.as_str());
        }
    }
}
