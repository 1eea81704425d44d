//! The settings of channels.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The default number of messages per minute and person.
const DEFAULT_MESSAGES: u32 = 20;

/// The agents of a channel, and its limits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ChannelSettings {
    /// The agent that answers owners; default: `orchestrator_agent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The agents that guests may talk to; the first one answers. A guest who was paired with agents
    /// of their own has those instead.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guests: Vec<String>,
    /// The number of messages per minute that one person may send; default: 20.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_per_minute: Option<NonZeroU32>,
}

impl ChannelSettings {
    /// Returns the number of messages per minute that one person may send.
    #[must_use]
    pub fn message_limit(&self) -> u32 {
        self.messages_per_minute.map_or(DEFAULT_MESSAGES, NonZeroU32::get)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Settings;

    #[test]
    fn keys_of_channels_are_checked() {
        let parse = |text: &str| Settings::parse(Path::new("skillhost.yaml"), text);
        let text = "channels: {telegram: {agent: helper, guests: [guide], messages_per_minute: 3}}";
        let settings = parse(text).unwrap();
        let telegram = &settings.channels["telegram"];
        assert_eq!((telegram.agent.as_deref(), telegram.message_limit()), (Some("helper"), 3));
        assert_eq!(telegram.guests, ["guide"]);
        assert_eq!(parse("channels: {a: {}}").unwrap().channels["a"].message_limit(), 20);
        for text in ["channels: {a: {agents: x}}", "channels: {a: {messages_per_minute: 0}}"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
