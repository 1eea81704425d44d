//! The commands' side of the terminal: output, errors with exit codes, and the context of a command
//! before any kernel runs.

mod arguments;
mod context;
mod error;
pub mod exit;
mod home_error;
mod id_prefix;
mod input;
mod markdown;
mod output;
mod sanitize;
mod screen_size;
mod untrusted_text;

pub use arguments::{ColorArg, GlobalArgs};
pub use context::{CliContext, KERNEL_PAUSE, KERNEL_WAIT, ask_kernel, parse_answer};
pub use error::CliError;
pub use id_prefix::resolve_id;
pub use input::text_or_stdin;
pub use markdown::{MarkdownLayout, MarkdownStream};
pub use output::queue::{self, LogFileWriter, LogWriter};
pub use output::{
    BOLD, CommandResult, DIM, GREEN, Output, RED, SCHEMA_VERSION, TableColumn, YELLOW,
    display_safe, hold_output, ignore_broken_pipe, json_text, suppress_notes, wrap_line,
};
pub use sanitize::sanitize;
pub use screen_size::ScreenSize;
pub use untrusted_text::{format_arguments, format_details, format_text, summarize_arguments};
