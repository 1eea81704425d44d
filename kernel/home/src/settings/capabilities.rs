//! The settings of the capabilities that skills declare.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skillhost_manifest::CapabilityMode;

/// The effect of the security manifests of skills: `off`, `report` or `enforce`. A setting never
/// weakens the `capability_mode` of an agent's manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CapabilitySettings {
    /// For agents whose manifest states none; default: `report`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<CapabilityMode>,
    /// At least this for every agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum: Option<CapabilityMode>,
    /// By agent id: at least this.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub agents: BTreeMap<String, CapabilityMode>,
}

impl CapabilitySettings {
    /// Returns the mode of an agent whose manifest states `own`.
    #[must_use]
    pub fn effective_mode(&self, agent: &str, own: Option<CapabilityMode>) -> CapabilityMode {
        let stated = own.or(self.default).unwrap_or_default();
        let least = self.minimum.into_iter().chain(self.agents.get(agent).copied());
        least.fold(stated, CapabilityMode::max)
    }

    /// Returns whether no key is set.
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use skillhost_manifest::CapabilityMode::{Enforce, Off, Report};

    use super::super::Settings;

    #[test]
    fn settings_only_tighten_a_mode() {
        let mode = |text: &str, own| {
            let text = format!("capability_modes: {text}");
            let settings = Settings::parse(Path::new("skillhost.yaml"), &text).unwrap();
            settings.capability_modes.effective_mode("reader", own)
        };
        assert_eq!(mode("{}", None), Report);
        assert_eq!(mode("{}", Some(Off)), Off);
        assert_eq!(mode("{default: enforce}", None), Enforce);
        assert_eq!(mode("{default: enforce}", Some(Off)), Off);
        assert_eq!(mode("{minimum: report}", Some(Off)), Report);
        assert_eq!(mode("{minimum: off}", Some(Enforce)), Enforce);
        assert_eq!(mode("{agents: {reader: enforce}}", Some(Report)), Enforce);
        assert_eq!(mode("{agents: {other: enforce}}", Some(Report)), Report);
        for text in ["{default: strict}", "{agent: {}}", "report"] {
            let text = format!("capability_modes: {text}");
            assert!(Settings::parse(Path::new("skillhost.yaml"), &text).is_err(), "{text}");
        }
    }
}
