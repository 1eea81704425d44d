//! The commands that operate the kernel of a home: `status`, `stop`, `logs`, `backup`, `restore` and
//! `service`.
//!
//! None of them starts a kernel: they ask the running one, and read the files of the home.

mod arguments;
mod backup;
mod logs;
mod service;
mod status;
mod stop;

pub use arguments::{BackupArgs, LogsArgs, RestoreArgs, ServiceCommand};
pub use backup::{cmd_backup, cmd_restore};
pub use logs::cmd_logs;
pub use service::cmd_service;
pub use status::{WaitingReviews, cmd_status};
pub use stop::cmd_stop;
