//! The settings of contained execution.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::isolation::IsolationLevel;
use crate::layer::PolicyLayer;
use crate::policy_use::PolicyUse;

/// The word that turns containment off.
const OFF: &str = "off";

/// Permissions and limits of foreign code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxSettings {
    /// Whether the setting is `off`: nothing is contained.
    #[serde(skip)]
    #[schemars(skip)]
    pub is_off: bool,
    /// Scripts of skills.
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "layer")]
    pub scripts: PolicyLayer,
    /// Handler programs of skills.
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "layer")]
    pub handlers: PolicyLayer,
    /// Process extensions.
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "layer")]
    pub processes: PolicyLayer,
    /// Builds of extensions.
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "layer")]
    pub builds: PolicyLayer,
    /// Command lines of agents.
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "layer")]
    pub commands: PolicyLayer,
    /// By skill id: statements that take precedence over `scripts` and `handlers`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "layers")]
    pub skills: BTreeMap<String, PolicyLayer>,
    /// By extension id: statements that take precedence over `processes` and `builds`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "layers")]
    pub extensions: BTreeMap<String, PolicyLayer>,
    /// A JSON file of Anthropic's sandbox-runtime, relative to the home. The other keys take
    /// precedence over it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_file: Option<PathBuf>,
    /// By file name extension, such as `.py`: the interpreter of scripts and its arguments.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "interpreters")]
    pub interpreters: BTreeMap<String, Vec<String>>,
    /// Ids of process extensions that are not contained.
    pub unsandboxed: Vec<String>,
}

impl SandboxSettings {
    /// Returns the stated keys and their values, and `unsandboxed`; none if the setting is `off`.
    #[must_use]
    pub fn rows(&self) -> Vec<(String, Value)> {
        if self.is_off {
            return Vec::new();
        }
        // Values that consist of fields are always valid JSON.
        let fields = serde_json::to_value(self).unwrap_or_default();
        fields.as_object().into_iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    /// Returns the operator's exceptions from containment, each as a sentence.
    #[must_use]
    pub fn describe_exceptions(&self) -> Vec<String> {
        if self.is_off {
            let text = "nothing is contained (sandbox: off): process extensions, builds and commands \
                        run with your permissions; scripts and programs of skills do not run";
            return vec![text.to_owned()];
        }
        let ids = self.unsandboxed.iter();
        ids.map(|id| format!("{id} is not contained (sandbox.unsandboxed)")).collect()
    }

    /// Returns the statements for a use.
    pub(crate) fn layer(&self, policy_use: PolicyUse) -> &PolicyLayer {
        match policy_use {
            PolicyUse::Script => &self.scripts,
            PolicyUse::Handler => &self.handlers,
            PolicyUse::Process => &self.processes,
            PolicyUse::Build => &self.builds,
            PolicyUse::Command => &self.commands,
        }
    }
}

/// The layer of an operator.
struct OperatorLayer(PolicyLayer);

impl<'de> Deserialize<'de> for OperatorLayer {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let layer = PolicyLayer::deserialize(from)?;
        if layer.minimum == Some(IsolationLevel::None) {
            let reason = "`minimum: none` is not a level of containment; list process extensions in \
                          `unsandboxed`, or set `sandbox: off`";
            return Err(D::Error::custom(reason));
        }
        Ok(Self(layer))
    }
}

fn layer<'de, D: Deserializer<'de>>(from: D) -> Result<PolicyLayer, D::Error> {
    OperatorLayer::deserialize(from).map(|layer| layer.0)
}

fn layers<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, PolicyLayer>, D::Error> {
    let layers = BTreeMap::<String, OperatorLayer>::deserialize(from)?;
    Ok(layers.into_iter().map(|(id, layer)| (id, layer.0)).collect())
}

fn interpreters<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, Vec<String>>, D::Error> {
    let map = BTreeMap::<String, Vec<String>>::deserialize(from)?;
    for (suffix, command) in &map {
        let is_suffix = suffix.len() > 1 && suffix.starts_with('.') && !suffix.contains('/');
        if !is_suffix {
            let message = format!("`{suffix}` is not a file name extension such as `.py`");
            return Err(D::Error::custom(message));
        }
        if command.first().is_none_or(String::is_empty) {
            return Err(D::Error::custom(format!("`{suffix}` has no program")));
        }
    }
    Ok(map)
}

fn is_empty(layer: &PolicyLayer) -> bool {
    *layer == PolicyLayer::default()
}

/// Writes `off` or the mapping.
///
/// # Errors
/// The error of the serializer.
pub fn serialize_sandbox<S: Serializer>(
    settings: &SandboxSettings,
    to: S,
) -> Result<S::Ok, S::Error> {
    match settings.is_off {
        true => to.serialize_str(OFF),
        false => settings.serialize(to),
    }
}

/// Reads `off` or the mapping. Unlike an untagged enum it keeps the place of an error.
///
/// # Errors
/// The error of the deserializer.
pub fn deserialize_sandbox<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<SandboxSettings, D::Error> {
    from.deserialize_any(SandboxVisitor)
}

struct SandboxVisitor;

impl<'de> Visitor<'de> for SandboxVisitor {
    type Value = SandboxSettings;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`off` or a mapping")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<SandboxSettings, E> {
        match text {
            OFF => Ok(SandboxSettings { is_off: true, ..SandboxSettings::default() }),
            other => Err(E::invalid_value(serde::de::Unexpected::Str(other), &self)),
        }
    }

    fn visit_unit<E: Error>(self) -> Result<SandboxSettings, E> {
        Ok(SandboxSettings::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SandboxSettings, A::Error> {
        SandboxSettings::deserialize(MapAccessDeserializer::new(map))
    }
}

/// Returns the schema of `off` or the mapping.
#[must_use]
pub fn sandbox_schema(generator: &mut SchemaGenerator) -> Schema {
    let mapping = generator.subschema_for::<SandboxSettings>();
    json_schema!({"anyOf": [{"const": OFF}, mapping], "default": {}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> SandboxSettings {
        deserialize_sandbox(&mut serde_json::Deserializer::from_str(text)).unwrap()
    }

    #[test]
    fn rows_have_stated_keys() {
        let settings = parse(r#"{"scripts": {"limits": {"seconds": 5}}}"#);
        let rows: BTreeMap<_, _> = settings.rows().into_iter().collect();
        assert_eq!(rows["scripts"], serde_json::json!({"limits": {"seconds": 5}}));
        assert_eq!(rows.keys().collect::<Vec<_>>(), ["scripts", "unsandboxed"]);
        assert_eq!(parse("\"off\"").rows(), []);
    }

    #[test]
    fn exceptions_are_named() {
        assert_eq!(parse("{}").describe_exceptions(), Vec::<String>::new());
        let listed = parse(r#"{"unsandboxed": ["clock"]}"#).describe_exceptions();
        assert_eq!(listed, ["clock is not contained (sandbox.unsandboxed)"]);
        assert!(parse("\"off\"").describe_exceptions()[0].starts_with("nothing is contained"));
    }
}
