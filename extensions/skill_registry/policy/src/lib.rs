//! The lint policy of a repository.
//!
//! A file `skillhost-lint.toml`, or the table `lint` in the settings of a home, sets the profile, the levels of rules, further fields, the paths of
//! the skills and findings to ignore. [`PolicyFinder`] finds the file of a path, [`LintPolicy`] is
//! the parsed file, and [`RuleSelection`] is what a command line adds to it.
//!
//! Data flow: path → [`PolicyFinder::find`] → [`PolicyScope`] (the policy and the place of the path
//! in its directory) → [`PolicyScope::rule_set`] for the check → [`PolicyScope::split_findings`]
//! for its findings → [`unused_ignores`] at the end of a run.

mod finder;
mod path_patterns;
mod policy;
mod policy_error;
mod policy_file;
mod policy_tree;
mod selection;

pub use finder::{PolicyFileError, PolicyFinder};
pub use policy::{LintPolicy, PolicyScope, SuppressedFinding, SuppressionOrigin, unused_ignores};
pub use policy_error::PolicyError;
pub use policy_file::{check_policy, check_settings_policy};
pub use selection::{RuleSelection, UnknownRuleError};

/// The name of the file.
pub const POLICY_FILE: &str = "skillhost-lint.toml";

/// The name of the settings of a home, which may have the policy instead.
pub const SETTINGS_FILE: &str = "skillhost.yaml";
