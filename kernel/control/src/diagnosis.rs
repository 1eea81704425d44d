//! The health of a kernel's extensions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use skillhost_manifest::ExtensionId;
use skillhost_payload::CallError;

use crate::load_report::LoadReport;

/// The state of all extensions and of event delivery.
#[derive(Debug, Serialize, Deserialize)]
pub struct ExtensionDiagnosis {
    /// True if no extension was rejected, every library is healthy and events are delivered.
    pub healthy: bool,
    /// The load report of the start, with later reloads.
    pub report: LoadReport,
    /// The health of each library.
    pub health: BTreeMap<ExtensionId, ExtensionHealth>,
    /// The reason why the running kernel delivers no events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<CallError>,
}

/// The health of a library, as it reports it.
#[derive(Debug, Serialize, Deserialize)]
pub struct ExtensionHealth {
    /// True if the library can work.
    pub ok: bool,
    /// The error of an unhealthy library.
    pub error: Option<CallError>,
}
