//! `skillhost export`, as clap reads it.

use clap::Args;

use super::SkillRoots;

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The skills [default: all that models are offered]
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Where they go: `claude` is .claude/skills, `codex` and `gemini` are .agents/skills; else a
    /// folder of skills, which is made if it is written as a path (`./out`)
    #[arg(long, value_name = "claude|codex|gemini|DIR")]
    pub(crate) to: String,
    /// Into the user's folder of that client, not into the working directory's
    #[arg(long)]
    pub(crate) user: bool,
    /// Write links to the skills instead of copies
    #[arg(long)]
    pub(crate) link: bool,
    /// Write nothing, print what differs; exit 1 when something does
    #[arg(long)]
    pub(crate) check: bool,
    /// Export this skill although nobody answers for it; may be given more than once
    #[arg(long, value_name = "ID")]
    pub(crate) allow: Vec<String>,
    #[command(flatten)]
    pub(crate) roots: SkillRoots,
}
