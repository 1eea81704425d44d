//! The client of a thread: sends messages to a kernel, prints replies and prompts for approvals.
//!
//! If a kernel runs for the home, it executes the turns and this process is only its terminal;
//! otherwise the caller boots a kernel in this process and passes it as a [`KernelConnection`].

mod approval_prompt;
mod approved;
mod arguments;
mod ask;
mod chat;
mod connection;
mod secret;
mod session;
mod socket;
mod terminal_channel;

pub use approval_prompt::format_details;
pub use approved::check_approved;
pub use arguments::{AskArgs, ChatArgs, ChatSessionArgs};
pub use ask::cmd_ask;
pub use chat::cmd_chat;
pub use connection::{
    ChatWork, KernelBoot, KernelConnection, OpenedKernel, ThreadOverview, TurnTerminal,
    check_agent, create_thread, open_thread,
};
