//! The policy of a check.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// A rule profile.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ProfileArg {
    /// The checks of the loader
    Lenient,
    /// The text of the Agent Skills specification
    Spec,
    /// The verdicts of the reference validator, skills-ref 0.1.1
    Reference,
    /// The validation table of SkillsCraft
    Skillscraft,
    /// The checklist of the formal specification
    SeedStrict,
    /// The limits of Anthropic's products
    Anthropic,
}

impl From<ProfileArg> for skill_rules::Profile {
    fn from(profile: ProfileArg) -> Self {
        match profile {
            ProfileArg::Lenient => Self::Lenient,
            ProfileArg::Spec => Self::Spec,
            ProfileArg::Reference => Self::Reference,
            ProfileArg::Skillscraft => Self::Skillscraft,
            ProfileArg::SeedStrict => Self::SeedStrict,
            ProfileArg::Anthropic => Self::Anthropic,
        }
    }
}

/// The profile and the policy of a check.
#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    /// Rule profile to apply [default: that of the policy, else spec]
    #[arg(long, value_enum)]
    pub(crate) profile: Option<ProfileArg>,
    #[command(flatten)]
    pub(crate) file: PolicyFileArgs,
}

/// The file of a policy.
#[derive(Debug, Args)]
pub(crate) struct PolicyFileArgs {
    /// Policy to apply instead of the nearest skillhost-lint.toml
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Apply no policy
    #[arg(long, conflicts_with = "policy")]
    pub(crate) no_policy: bool,
}
