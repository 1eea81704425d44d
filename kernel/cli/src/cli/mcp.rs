//! What `skillhost mcp` does beside serving, as clap reads it.

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Print the lines that make a client use this server; writes nothing
    Install(InstallArgs),
}

#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    /// The client
    pub(crate) client: McpClient,
    /// Print the lines; without it nothing is done, because no client's files are written
    #[arg(long, required = true)]
    pub(crate) print: bool,
}

/// A client that can use an MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpClient {
    /// Claude Code
    Claude,
    /// Codex
    Codex,
    /// Gemini CLI
    Gemini,
    /// Cursor
    Cursor,
}
