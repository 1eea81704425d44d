//! Policies for foreign code: files, network, limits and the isolation that they require.
//!
//! A [`PolicyLayer`] is the text of one source: settings, a manifest, a skill or a file of
//! Anthropic's sandbox-runtime. A [`SandboxPolicy`] is the result for one run, with absolute paths.
//! Each layer can only narrow it. This crate does no I/O; `skillhost-sandbox` enforces policies.

mod address;
mod domain;
mod isolation;
mod layer;
mod limits;
mod narrowing;
mod paths;
mod policy;

pub use address::is_public_address;
pub use domain::{DomainPattern, InvalidDomain};
pub use isolation::{Guarantee, IsolationLevel, IsolationRequirement};
pub use layer::{
    FilesystemLayer, LimitLayer, NetworkLayer, ParsedLayer, PolicyError, PolicyLayer,
    parse_policy_json,
};
pub use limits::ResourceLimits;
pub use narrowing::PolicyExcess;
pub use paths::PolicyRoots;
pub use policy::{FilesystemPolicy, NetworkPolicy, SandboxPolicy};
