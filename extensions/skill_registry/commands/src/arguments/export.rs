//! The arguments of `skillhost skill export`.

use clap::{Args, ValueEnum};

use super::paths::SkillRoots;

/// The arguments of `skillhost skill export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Skills to export [default: all that models are offered]
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Target: `claude` is .claude/skills, `codex` and `gemini` are .agents/skills; otherwise a
    /// directory of skills, created if it is written as a path (`./out`)
    #[arg(long, value_name = "claude|codex|gemini|DIR")]
    pub(crate) to: String,
    /// Directory of the client to export to
    #[arg(long, value_enum, default_value_t = ExportScope::Project)]
    scope: ExportScope,
    /// The earlier spelling of `--scope user`
    #[arg(long, hide = true, conflicts_with = "scope")]
    user: bool,
    /// Write symbolic links to the skills instead of copies
    #[arg(long, alias = "link")]
    pub(crate) symlink: bool,
    /// Write nothing and print the differences; exit 1 if there are any
    #[arg(long)]
    pub(crate) check: bool,
    /// Export this skill even though it is untrusted or unapproved; may be repeated
    #[arg(long, alias = "allow", value_name = "ID")]
    pub(crate) allow_untrusted: Vec<String>,
    #[command(flatten)]
    pub(crate) roots: SkillRoots,
}

impl ExportArgs {
    /// Returns `true` if the skills go to the user's directory of the client.
    pub(crate) fn is_user_scope(&self) -> bool {
        self.user || self.scope == ExportScope::User
    }
}

/// A directory of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportScope {
    /// The client's directory in the working directory
    Project,
    /// The client's directory of the user
    User,
}
