//! The arguments of the commands.

mod logs;

pub(crate) use logs::LogLevel;
pub use logs::LogsArgs;
