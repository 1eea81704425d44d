//! The settings of event delivery.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Delivery of events.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EventsSettings {
    /// Milliseconds to wait after each failed attempt to handle an event, except the last; default:
    /// 1,000, 5,000 and 25,000. An empty list disables retries.
    #[schemars(length(max = 10))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_ms: Option<Vec<u64>>,
}
