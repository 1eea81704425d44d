//! Workspaces: directories of the user, outside of the home, that agents may work in.
//!
//! The settings of a trusted home and the operator's command line name them.
//! [`resolve_workspaces`] decides which of them a run may use, [`append_workspaces`] names them to a
//! model, and [`classify_effect`] decides which approval a change requires.

mod effect_scope;
mod error;
mod identity;
mod prompt;
mod resolve;

pub use effect_scope::{EffectScope, classify_effect};
pub use error::WorkspaceError;
pub use prompt::append_workspaces;
pub use resolve::{
    ResolvedWorkspace, WorkspaceResolution, derive_label, merge_workspaces, resolve_workspace,
    resolve_workspaces,
};
