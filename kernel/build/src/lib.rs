//! Checks, builds and installs extensions that agents or operators write.
//!
//! [`MarkdownBuilder`] is what a kernel is given. Where to look: `files` reads an extension's folder,
//! `policy` says what a crate may be, `details` what people are shown, `approve` approves what is
//! there without a build; `compile` has cargo build
//! exactly that, `messages` shortens what the compiler says, `trial` tries the result in another
//! process, `install` puts it in place so that no crash leaves half of it. `docs/building.md` says
//! what is trusted with what.

mod approve;
mod builder;
mod compile;
mod details;
mod error;
mod files;
mod group;
mod install;
mod messages;
mod pin;
mod place;
mod policy;
mod trial;

pub use approve::ApprovalPlan;
pub use builder::CargoExtensionBuilder;
pub use error::{BuildError, PolicyViolation};
pub use trial::TrialReport;
