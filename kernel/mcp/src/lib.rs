//! The MCP server: tools, skills, resources and prompts for any MCP client.
//!
//! [`McpServer`] implements the protocol on top of a [`Backend`]. [`KernelBackend`] serves the
//! tools and skills of a loaded kernel. [`serve_stdio`] and [`http::serve_http`] connect a server
//! with clients. This is the only crate that depends on the protocol's library.
//!
//! Input of clients is untrusted: names are looked up, paths end in the provider's jail, and every
//! size, count and time that a client controls has an upper bound in [`ClientLimits`].

mod backend;
pub mod http;
mod limits;
mod server;
mod stdio;
#[cfg(test)]
mod stub;

pub use backend::{
    Backend, BackendError, ChangeCounter, ClientSession, ClientTasks, KernelBackend,
    PromptArguments, ScopeError,
};
pub use limits::ClientLimits;
pub use server::McpServer;
pub use stdio::{Refusal, ServeError, refuse_stdio, serve_stdio, serve_streams};
