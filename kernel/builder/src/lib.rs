//! Checks, builds and installs extensions that agents or operators write.
//!
//! The kernel uses [`CargoExtensionBuilder`]. `files` reads the directory of an extension, `policy`
//! checks its crate, `details` writes the text for a review, and `approve` approves an extension
//! without a build. `compile` builds exactly the reviewed files with cargo, `messages` shortens the
//! compiler's messages, `trial` loads the result in another process, and `install` installs it
//! atomically with respect to crashes. `scaffold` has the templates of new extensions. `docs/building.md` describes the trust model.

mod approve;
mod build_paths;
mod builder;
mod changes;
mod compile;
mod containment;
mod details;
mod error;
mod files;
mod install;
mod installed;
mod manifest;
mod messages;
mod pin;
mod policy;
mod scaffold;
mod trial;

pub use approve::ApprovalPlan;
pub use builder::CargoExtensionBuilder;
pub use error::{BuildError, PolicyViolation};
pub use scaffold::{ExtensionTemplate, ScaffoldError, ScaffoldRequest};
pub use trial::TrialReport;
