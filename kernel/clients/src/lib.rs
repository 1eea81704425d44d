//! The clients of the MCP server, and the configuration with which each starts it.
//!
//! `mcp config` prints the configuration. `mcp install` has the client's own program add it, or edits
//! the client's file.

mod arguments;
mod client;
mod client_program;
mod config;
mod config_file;
mod config_text;
mod install;
mod server_entry;

pub use arguments::ClientInstallArgs;
pub use client::McpClient;
pub use config::cmd_mcp_config;
pub use install::cmd_mcp_install;
