//! The commands that create a home, trust it and operate its kernel: `init`, `trust`, `status`,
//! `stop`, `logs`, `backup`, `restore` and `service`.
//!
//! None of them starts a kernel: they ask the running one, and read the files of the home.

mod arguments;
mod backup;
mod init;
mod logs;
mod service;
mod status;
mod stop;
mod trust;

pub use arguments::{BackupArgs, InitArgs, LogsArgs, RestoreArgs, ServiceCommand, TrustArgs};
pub use backup::{cmd_backup, cmd_restore};
pub use init::cmd_init;
pub use logs::cmd_logs;
pub use service::cmd_service;
pub use status::{WaitingReviews, cmd_status};
pub use stop::cmd_stop;
pub use trust::cmd_trust;
