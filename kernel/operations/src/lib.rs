//! The commands that operate the kernel of a home: `status`, `stop` and `logs`.
//!
//! None of them starts a kernel: they ask the running one, and read the files of the home.

mod arguments;
mod logs;
mod status;
mod stop;

pub use arguments::LogsArgs;
pub use logs::cmd_logs;
pub use status::{WaitingReviews, cmd_status};
pub use stop::cmd_stop;
