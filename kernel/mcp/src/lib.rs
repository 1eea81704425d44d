//! The MCP server: tools, skills, resources and prompts for every other agent.
//!
//! [`Server`] speaks the protocol and knows nothing about where its answers come from: that is a
//! [`Backend`]. [`KernelBackend`] serves what a kernel has loaded. [`serve_stdio`] and [`http::serve`]
//! connect a server with clients. This is the only crate that names the protocol's library.
//!
//! Whatever a client says is a stranger's text: names are looked up, paths end in the provider's jail,
//! and every size, count and time that a client decides has an upper bound in [`ClientLimits`].

mod backend;
pub mod http;
mod limits;
mod server;
mod stdio;
#[cfg(test)]
mod stub;

pub use backend::{
    Backend, BackendError, ChangeCounter, ClientSession, KernelBackend, PromptArguments, ScopeError,
};
pub use limits::ClientLimits;
pub use server::McpServer;
pub use stdio::{Refusal, ServeError, refuse, refuse_stdio, serve_stdio, serve_streams};
