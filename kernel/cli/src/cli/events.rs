//! `skillhost events`, as clap reads it.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum EventsCommand {
    /// Print the last events, one line each
    Tail(TailArgs),
    /// List deliveries that were given up: of which event, to whom, and why
    Dead,
    /// Have a delivery that was given up made again, with all its attempts
    ///
    /// The kernel that `skillhost run` runs makes it within a second; without one, the next to start.
    Retry {
        /// The delivery, as `skillhost events dead` lists it
        id: i64,
    },
}

#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    /// Go on with the events to come, until Ctrl-C
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Only events of this topic, or below it
    #[arg(long, value_name = "TOPIC", default_value = "")]
    pub(crate) topic: String,
    /// How many of the past events
    #[arg(short = 'n', long = "lines", value_name = "N", default_value_t = 20)]
    pub(crate) lines: u32,
}
