//! The arguments of `skillhost channel`.

use clap::{Args, Subcommand, ValueEnum};
use skillhost_control::ChannelRole;

/// The commands of `skillhost channel`.
#[derive(Debug, Subcommand)]
pub enum ChannelCommand {
    /// List channels with their agents and the number of people
    #[command(visible_alias = "ls")]
    List,
    /// Print a code that pairs a person with a channel
    ///
    /// The person sends the code to the channel within ten minutes, in a direct conversation. It is
    /// valid once.
    Pair(ChannelPairArgs),
    /// List the people who may write on channels
    Peers {
        /// Channel id; all channels if absent
        #[arg(value_name = "CHANNEL")]
        id: Option<String>,
    },
    /// Remove a person from a channel
    ///
    /// From then on the person gets no answer, and the buttons that were shown to the person decide
    /// nothing. Exit code 3 if the channel has no such person.
    Revoke {
        /// Channel id
        #[arg(value_name = "CHANNEL")]
        id: String,
        /// Id of the person, as `channel peers` lists it
        peer: String,
    },
    /// Send a text to the owners of a channel
    ///
    /// Waits until the platform has it if a kernel runs; else the next kernel sends it. Exit code 1 if
    /// it could not be sent.
    Test {
        /// Channel id
        #[arg(value_name = "CHANNEL")]
        id: String,
        /// Text
        #[arg(default_value = "A test of the channel. It works.")]
        text: String,
    },
}

/// The arguments of `skillhost channel pair`.
#[derive(Debug, Args)]
pub struct ChannelPairArgs {
    /// Channel id
    #[arg(value_name = "CHANNEL")]
    pub(crate) id: String,
    /// Role: an owner also decides about questions
    #[arg(long, value_enum, value_name = "ROLE", default_value_t = ChannelRoleArg::Owner)]
    pub(crate) role: ChannelRoleArg,
    /// Agents that this guest may talk to [default: those of the settings]
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Vec<String>,
}

/// The role of a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChannelRoleArg {
    /// Talks to the agent and decides about questions
    Owner,
    /// Only talks to the agents that are listed for guests
    Guest,
}

impl From<ChannelRoleArg> for ChannelRole {
    fn from(role: ChannelRoleArg) -> Self {
        match role {
            ChannelRoleArg::Owner => Self::Owner,
            ChannelRoleArg::Guest => Self::Guest,
        }
    }
}
