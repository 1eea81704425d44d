//! The client of a thread: sends messages to a kernel, prints replies and prompts for approvals.
//!
//! If a kernel runs for the home, it executes the turns and this process is only its terminal;
//! otherwise the caller boots a kernel in this process and passes it as a [`KernelConnection`].

mod approval_prompt;
mod approval_view;
mod approved;
mod arguments;
mod ask;
mod chat;
mod closure_text;
mod connection;
mod edit_arguments;
mod indicator;
mod line_editor;
mod pluralize;
mod question_prompt;
mod recap;
mod screen;
mod secret;
mod session;
mod socket;
mod stop_signals;
mod terminal_channel;
mod usage_total;
mod workspace;
mod workspace_arguments;

pub use approved::check_approved;
pub use arguments::{AskArgs, ChatArgs};
pub use ask::cmd_ask;
pub use chat::cmd_chat;
pub use connection::{
    ChatWork, KernelBoot, KernelConnection, OpenedKernel, ThreadChoice, ThreadOverview,
    TurnTerminal, check_agent, create_thread, discard_if_unused, open_thread,
};
pub use stop_signals::StopSignals;
pub use workspace::resolve_workspace_args;
pub use workspace_arguments::WorkspaceArgs;
