//! The arguments of `skillhost inbox`.

use clap::{Args, Subcommand};

/// The commands of `skillhost inbox`.
#[derive(Debug, Subcommand)]
pub enum InboxCommand {
    /// List open questions, oldest first
    #[command(visible_alias = "ls")]
    List,
    /// Print all that a question asks about, and how to decide it
    Show {
        /// Question id, or the start of one that no other question has
        id: String,
    },
    /// Approve a tool call, a proposal or a build
    ///
    /// At a terminal the subject is shown first; elsewhere --digest names what `inbox show` has
    /// shown. Exit code 4 if the question is no longer open, or asks about other bytes.
    Approve(InboxApproveArgs),
    /// Refuse a tool call, a proposal or a build
    ///
    /// Exit code 4 if the question is no longer open.
    Refuse {
        /// Question id, or the start of one
        id: String,
        /// Reason, which the asker is shown
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Answer a question of an agent, or one about an interrupted call
    ///
    /// The answers about an interrupted call are `happened`, `again` and `stop`. Exit code 4 if the
    /// question is no longer open, or asks about other bytes.
    Answer(InboxAnswerArgs),
}

/// The arguments of `skillhost inbox approve`.
#[derive(Debug, Args)]
pub struct InboxApproveArgs {
    /// Question id, or the start of one
    pub(crate) id: String,
    /// Digest of the subject that was inspected, or its first 8 digits or more
    #[arg(long, value_name = "SHA256")]
    pub(crate) digest: Option<String>,
}

/// The arguments of `skillhost inbox answer`.
#[derive(Debug, Args)]
pub struct InboxAnswerArgs {
    /// Question id, or the start of one
    pub(crate) id: String,
    /// Answer: one of the options, or any text without options; `-` reads standard input
    #[arg(value_name = "TEXT")]
    pub(crate) text: String,
    /// Digest of the subject that was inspected, or its first 8 digits or more
    #[arg(long, value_name = "SHA256")]
    pub(crate) digest: Option<String>,
}
