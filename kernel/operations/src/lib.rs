//! The commands that create a home, trust it and operate its kernel: `init`, `trust`, `status`,
//! `stop`, `logs`, `backup`, `restore`, `service`, `task`, `inbox` and `channel`.
//!
//! None of them starts a kernel: they ask the running one, and read the files of the home.

mod arguments;
mod backup;
mod build_consent;
mod channel;
mod duration;
mod inbox;
mod init;
mod logs;
mod service;
mod status;
mod stop;
mod task;
mod task_store;
mod task_text;
mod trust;

pub use arguments::{
    BackupArgs, ChannelCommand, InboxCommand, InitArgs, LogsArgs, RestoreArgs, ServiceCommand,
    TaskCommand, TaskSubmitArgs, TrustArgs,
};
pub use backup::{cmd_backup, cmd_restore};
pub use build_consent::{BuildConsent, ask_build_consent};
pub use channel::{cmd_channel, find_channel_store_problem};
pub use inbox::{cmd_inbox, mirror_proposals};
pub use init::cmd_init;
pub use logs::cmd_logs;
pub use service::cmd_service;
pub use skillhost_questions::ReviewLedger;
pub use status::{WaitingReviews, cmd_status};
pub use stop::cmd_stop;
pub use task::cmd_task;
pub use task_store::{find_task_store_problem, question_ids, task_ids};
pub use trust::cmd_trust;
