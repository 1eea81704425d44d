//! Parses `manifest.yaml` and plans the load order of extensions.
//!
//! Every extension, agents included, is described by one `manifest.yaml`. This crate parses its
//! text into a [`Manifest`] and turns a set of manifests into a [`plan::LoadPlan`]. It does no I/O:
//! callers read the files and print the errors.
//!
//! ```
//! use skillhost_manifest::parse_manifest;
//!
//! let manifest = parse_manifest("id: echo\nname: Echo\nentrypoint: echo\n")?;
//! assert_eq!(manifest.id.as_str(), "echo");
//!
//! let errors = parse_manifest("id: echo\nname: Echo\nentry_point: echo\n").unwrap_err();
//! assert_eq!(
//!     errors.to_string(),
//!     "3:1: unknown field `entry_point`; did you mean `entrypoint`?"
//! );
//! # Ok::<(), skillhost_manifest::ManifestErrors>(())
//! ```

mod agent;
mod error;
mod id;
mod manifest;
mod nesting;
mod parse;
pub mod plan;
mod read;
mod rules;
mod schema;
mod times;
mod tool_names;
mod yaml;

pub use agent::{
    AgentCatalog, AgentLimits, AgentManifest, AllowedToolsMode, CapabilityMode, IntegrationMode,
    Located,
};
pub use error::{ManifestError, ManifestErrorKind, ManifestErrors, YamlType};
pub use id::{ExtensionId, ExtensionIdError};
pub use manifest::{
    EventDeclaration, EventDeclarations, EventHandler, EventSubscription, ExtensionDependency,
    ExtensionKind, Manifest, McpExports, ScheduleAction, ScheduleSpec,
};
pub use nesting::find_excessive_nesting;
pub use parse::parse_manifest;
pub use schema::manifest_schema;
pub use times::{CronError, CronSchedule};
pub use tool_names::ToolNames;
