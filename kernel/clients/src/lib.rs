//! The clients of the MCP server, and the configuration with which each starts it.

mod client;
mod config;

pub use client::McpClient;
pub use config::cmd_mcp_config;
