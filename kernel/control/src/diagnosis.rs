//! The health of a kernel's extensions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use skillhost_manifest::ExtensionId;
use skillhost_payload::CallError;

use crate::load_report::LoadReport;
use crate::status::PendingChange;

/// The state of all extensions and of event delivery.
#[derive(Debug, Serialize, Deserialize)]
pub struct ExtensionDiagnosis {
    /// True if no extension was rejected, every library is healthy, events are delivered, every
    /// agent has a model, contained programs can run and no change is pending.
    pub healthy: bool,
    /// The load report of the start, with later reloads.
    pub report: LoadReport,
    /// The health of each library.
    pub health: BTreeMap<ExtensionId, ExtensionHealth>,
    /// The changes on disk that the running kernel has not applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<PendingChange>,
    /// The reason why the running kernel delivers no events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<CallError>,
    /// The reasons why contained programs, or some of them, cannot run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containment: Vec<CallError>,
    /// The agents whose models cannot be used, in the order of their ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<UnresolvedModel>,
}

/// An agent whose model is unknown or lacks its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnresolvedModel {
    /// The id of the agent.
    pub agent: ExtensionId,
    /// The name of the model, as the settings or the manifest have it.
    pub model: String,
    /// The error.
    pub message: String,
    /// The next step.
    pub hint: String,
}

/// The health of a library, as it reports it.
#[derive(Debug, Serialize, Deserialize)]
pub struct ExtensionHealth {
    /// True if the library can work.
    pub ok: bool,
    /// The error of an unhealthy library.
    pub error: Option<CallError>,
}
