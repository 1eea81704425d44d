//! The home: its directories, the settings, secrets and manifests in it, and a person's approvals of
//! the code that agents have written.
//!
//! [`Home::find`] finds it and [`trust()`] records that it may be used; [`Settings`] reads
//! `skillhost.yaml`, [`discover_manifests`] the manifests, [`Approvals`] the decisions of a person.
//! Nothing here runs code of an extension.

mod admission;
mod approvals;
mod data_dir;
mod discovered;
mod discovery;
mod environment;
mod error;
mod home;
mod installation;
mod operator_policy;
mod private_directory;
mod process_policy;
mod rejection;
mod reserved_ids;
mod secrets;
mod settings;
mod similar_names;
mod timestamp;
mod trust;

pub use admission::approval_hint;
pub use approvals::{
    AgentFacts, ApprovalAction, ApprovalDetails, ApprovalKind, ApprovalRecord, ApprovalSurface,
    Approvals, ApprovalsError, ApprovedFile, Approver, GrantStatus, MANIFEST, ScriptGrant,
    ScriptGrants, approval_details, changed_files, changed_tools, pin_digest, read_extension_files,
    retire_installed_record,
};
pub use data_dir::secure_data_dir;
pub use discovered::DiscoveredManifest;
pub use discovery::{
    DiscoveryResult, discover_admitted, discover_manifests, find_in_sandbox, read_manifest_text,
};
pub use environment::Environment;
pub use error::{HomeChange, HomeError};
pub use home::{Home, HomeSource};
pub use installation::{FilesCheck, Installation, InstallationSearch, library_file_name};
pub use operator_policy::{load_operator_policy, operator_policy_without_home};
pub use private_directory::{PrivateDirectory, copies_of};
pub use process_policy::{ProcessPaths, ProcessPolicy, compose_process_policy, without_links};
pub use rejection::{LoadPhase, LoadRejection};
pub use reserved_ids::{ADDED, KERNEL_OWNER, OPERATOR_SOURCE, RESERVED_IDS};
pub use secrets::{SecretStore, SecretStoreError};
pub use settings::{
    BuildSettings, ChannelSettings, ConfigOverrides, EventsSettings, GenAiConventions,
    LoadedSettings, McpCatalog, McpCatalogGlobs, McpCatalogKeyword, McpReviewMode, McpSettings,
    ModelDefinition, ModelNameError, ModelsSettings, ProcessSettings, ProviderProtocol,
    ProviderSettings, SettingProvenance, Settings, SettingsError, SupervisorSettings,
    TelemetrySettings, TokenPrice, WorkspaceSettings, add_default_rows, load_overrides,
    overrides_path, store_overrides,
};
pub use similar_names::suggest_similar;
pub use timestamp::now_ms;
pub use trust::{DirectoryIdentity, TrustedHome, trust, trusted_homes, untrust};
