//! The arguments of `skillhost logs`.

use clap::{Args, ValueEnum};

/// The arguments of `skillhost logs`.
#[derive(Debug, Args)]
pub struct LogsArgs {
    /// Print new lines until interrupted
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Lowest level that is printed
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = LogLevel::Trace)]
    pub(crate) level: LogLevel,
    /// Number of past lines
    #[arg(short = 'n', long = "lines", value_name = "N", default_value_t = 100)]
    pub(crate) lines: u32,
}

/// A level of log events; a higher one is more severe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum LogLevel {
    /// Steps of the program
    Trace,
    /// Facts for debugging
    Debug,
    /// Starts, ends and changes
    Info,
    /// Problems that the kernel has handled
    Warn,
    /// Failures
    Error,
}
