//! The arguments of `skillhost mcp install`.

use clap::Args;

use crate::client::{ConfigScope, McpClient};

/// The arguments of `skillhost mcp install`.
#[derive(Debug, Args)]
pub struct ClientInstallArgs {
    /// Client
    pub(crate) client: McpClient,
    /// Reach of the configuration
    #[arg(long, default_value = "user", value_name = "SCOPE")]
    pub(crate) scope: ConfigScope,
    /// Run the client's command without a question
    #[arg(long)]
    pub(crate) yes: bool,
    /// Edit the client's configuration file instead of running its command
    #[arg(long, conflicts_with = "yes")]
    pub(crate) write: bool,
    /// Print the configuration without changing anything, as `mcp config` does
    #[arg(long, conflicts_with_all = ["yes", "write"])]
    pub(crate) print: bool,
}
