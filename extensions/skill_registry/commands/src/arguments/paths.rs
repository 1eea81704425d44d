//! The places of skills.

use std::path::PathBuf;

use clap::Args;

/// The roots of the skills of a home.
#[derive(Debug, Default, Args)]
pub struct SkillRoots {
    /// Directory of skills to use instead of the home's roots; may be repeated
    #[arg(long = "root", value_name = "DIR")]
    pub(crate) roots: Vec<PathBuf>,
}

/// The paths of skills on disk, which require no home.
#[derive(Debug, Args)]
pub(crate) struct SkillPaths {
    /// Skill directories, SKILL.md files or directories of skills [default: the working directory]
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// File with more paths, one per line; `-` reads standard input
    #[arg(long, alias = "paths-from", value_name = "FILE")]
    pub(crate) files_from: Option<PathBuf>,
}
