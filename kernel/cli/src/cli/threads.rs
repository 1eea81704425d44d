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
    /// Delete threads, after a question
    ///
    /// A thread that a kernel or a chat has open is refused with exit code 4, and stays.
    #[command(visible_alias = "rm")]
    Delete {
        /// Thread ids, or the starts of them
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
        /// Delete without a question
        #[arg(long)]
        yes: bool,
    },
}
