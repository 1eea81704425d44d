//! Policies for foreign code: files, network, limits and the isolation that they require.
//!
//! A [`PolicyLayer`] is the text of one source: settings, a manifest, a skill or a file of
//! Anthropic's sandbox-runtime. A [`SandboxPolicy`] is the result for one run, with absolute paths.
//! [`OperatorPolicy::compose`] makes it: the operator's [`SandboxSettings`] may widen the default of a
//! [`PolicyUse`], every other layer can only narrow the result. This crate
//! does no I/O; `skillhost-sandbox` enforces policies.

mod address;
mod address_policy;
mod allowed_entry;
mod checked_list;
mod composition;
mod declared_limits;
mod domain;
mod error;
mod granted_policy;
mod granting;
mod isolation;
mod layer;
mod limits;
mod narrowing;
mod operator_policy;
mod paths;
mod policy;
mod policy_use;
mod settings;

pub use address::is_public_address;
pub use address_policy::{AddressPolicy, AddressPolicyError};
pub use allowed_entry::{AllowedEntry, PathProblem, UnusableEntry};
pub use composition::{ComposedPolicy, PolicyPermission, PolicySource, SECRET_NAMES, SecretPath};
pub use declared_limits::DeclaredLimits;
pub use domain::{DomainError, DomainPattern};
pub use error::PolicyError;
pub use granted_policy::{GrantedPolicy, PolicyChange};
pub use isolation::{Guarantee, IsolationLevel, IsolationRequirement};
pub use layer::{
    FilesystemLayer, LimitLayer, NetworkLayer, ParsedLayer, PolicyLayer, parse_policy_json,
};
pub use limits::ResourceLimits;
pub use narrowing::PolicyExcess;
pub use operator_policy::{OperatorPolicy, PolicyRequest, RequestedLayer};
pub use paths::PolicyRoots;
pub use policy::{FilesystemPolicy, NetworkPolicy, SandboxPolicy};
pub use policy_use::PolicyUse;
pub use settings::{SandboxSettings, deserialize_sandbox, sandbox_schema, serialize_sandbox};
