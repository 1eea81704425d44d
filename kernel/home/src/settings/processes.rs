//! The settings of process extensions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Limits of process extensions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProcessSettings {
    /// Memory limit of all processes of an extension together in mebibytes (Linux).
    #[schemars(range(min = 1))]
    pub memory_limit_mib: u64,
}

impl Default for ProcessSettings {
    fn default() -> Self {
        Self { memory_limit_mib: 1024 }
    }
}
