//! The arguments of `skillhost backup` and `skillhost restore`.

use std::path::PathBuf;

use clap::Args;

/// The arguments of `skillhost backup`.
#[derive(Debug, Args)]
pub struct BackupArgs {
    /// File to write, such as home.tar.gz
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Include .env, which has secrets
    #[arg(long)]
    pub(crate) secrets: bool,
    /// Replace an existing file
    #[arg(long)]
    pub(crate) force: bool,
}

/// The arguments of `skillhost restore`.
#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// Backup to read
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Directory of the home [default: the home of the working directory]
    #[arg(value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Check every file of the backup and restore none
    #[arg(long, conflicts_with_all = ["dir", "replace", "trust"])]
    pub(crate) check: bool,
    /// Replace the files of a home that is not empty
    #[arg(long)]
    pub(crate) replace: bool,
    /// Trust the restored home, with its extensions and approvals
    #[arg(long)]
    pub(crate) trust: bool,
}
