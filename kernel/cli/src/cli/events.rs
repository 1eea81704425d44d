//! The arguments of `skillhost event`.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum EventCommand {
    /// Print the last events, one line each
    Tail(TailArgs),
    /// List dead-lettered deliveries with their subscribers and errors
    #[command(alias = "dead")]
    DeadLetters,
    /// Retry a dead-lettered delivery
    ///
    /// The running kernel of the home retries it within a second; without one, the next kernel does.
    Retry {
        /// Delivery number, as `skillhost event dead-letters` lists it
        #[arg(value_name = "DELIVERY")]
        id: i64,
    },
}

#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    /// Print new events until interrupted
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Only events of this topic or below it
    #[arg(long, value_name = "TOPIC", default_value = "")]
    pub(crate) topic: String,
    /// Number of past events
    #[arg(short = 'n', long = "lines", value_name = "N", default_value_t = 20)]
    pub(crate) lines: u32,
}
