//! The arguments of the commands.

mod backup;
mod home;
mod logs;
mod service;

pub use backup::{BackupArgs, RestoreArgs};
pub use home::{InitArgs, TrustArgs};
pub(crate) use logs::LogLevel;
pub use logs::LogsArgs;
pub use service::ServiceCommand;
pub(crate) use service::{ServiceFormat, ServiceInstallArgs};
