//! The arguments of `skillhost thread`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum ThreadCommand {
    /// List threads, newest change first
    #[command(visible_alias = "ls")]
    List,
    /// Print a thread as a model receives it
    Show {
        /// Thread id, or the start of one that no other thread has
        id: String,
    },
}
