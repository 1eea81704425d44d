//! The arguments of the commands.

mod backup;
mod channels;
mod home;
mod inbox;
mod limits;
mod logs;
mod service;
mod tasks;

pub use backup::{BackupArgs, RestoreArgs};
pub use channels::ChannelCommand;
pub(crate) use channels::{ChannelPairArgs, ChannelRoleArg};
pub use home::{InitArgs, TrustArgs};
pub use inbox::InboxCommand;
pub(crate) use inbox::{InboxAnswerArgs, InboxApproveArgs};
pub(crate) use logs::LogLevel;
pub use logs::LogsArgs;
pub use service::ServiceCommand;
pub(crate) use service::{ServiceFormat, ServiceInstallArgs};
pub(crate) use tasks::{EndNoticeArg, TaskListArgs};
pub use tasks::{TaskCommand, TaskSubmitArgs};
