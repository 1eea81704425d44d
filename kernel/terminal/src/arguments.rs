//! The global arguments.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Options of every command.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Home directory, which has a sandbox/ [env: SKILLHOST_HOME] [default: the nearest parent
    /// directory with a sandbox/, else the user's data directory]
    #[arg(long, global = true, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// Load extensions of an untrusted home, for this call only
    #[arg(long, global = true)]
    pub trust_home: bool,
    /// Print one JSON object instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// Use of colors in the output; `auto` respects NO_COLOR and CLICOLOR_FORCE
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = ColorArg::Auto)]
    pub color: ColorArg,
    /// Print no notes and log errors only
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Log more; `-vv` for debug events
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Filter for log events on stderr, such as `info` or `extension=debug` [default: warn]
    #[arg(long, global = true, value_name = "FILTER", env = "SKILLHOST_LOG")]
    log: Option<String>,
    /// Format of log events
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// The earlier spelling of `--log-format json`
    #[arg(long, global = true, hide = true)]
    log_json: bool,
}

impl GlobalArgs {
    /// Returns the filter for log events: `--log` and its variable, else the verbosity.
    pub fn log_filter(&self) -> &str {
        match (&self.log, self.quiet, self.verbose) {
            (_, true, _) => "error",
            (_, _, 2..) => "debug",
            (_, _, 1) => "info",
            (Some(filter), ..) => filter,
            (None, ..) => "warn",
        }
    }

    /// Returns the filter for the log file of the kernel: that of `--log`, else `info`,
    /// or `debug` with `-vv`.
    pub fn log_file_filter(&self) -> &str {
        match (&self.log, self.quiet, self.verbose) {
            (Some(filter), false, 0) => filter,
            (_, _, 2..) => "debug",
            _ => "info",
        }
    }

    /// Returns `true` if log events are printed as JSON lines.
    pub fn has_json_log(&self) -> bool {
        self.log_json || self.log_format == LogFormat::Json
    }
}

/// A use of colors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorArg {
    /// Where the output is a terminal that shows them
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// A format of log events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// Lines of text
    #[default]
    Text,
    /// JSON lines
    Json,
}
