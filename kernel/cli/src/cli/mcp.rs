//! The arguments of `skillhost mcp`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use skillhost_clients::{ClientInstallArgs, McpClient};

/// Serves one client on standard input and output, or many over HTTP, until the client disconnects
/// or the server is interrupted. With a home, the exports of its extensions and its skills are
/// served; without one, the skills in .agents/skills and .claude/skills of the working directory and
/// of the user.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct McpArgs {
    #[command(subcommand)]
    pub(crate) command: Option<McpCommand>,
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Serve clients (the default)
    Serve(ServeArgs),
    /// Print the configuration that makes a client use this server
    Config {
        /// Client
        client: McpClient,
    },
    /// Add this server to the configuration of a client
    ///
    /// Runs the client's own command, such as `claude mcp add`, after showing it and asking. Where the
    /// client's program is not found, prints the text for its configuration file and ends with exit
    /// code 3. See docs/mcp.md.
    Install(ClientInstallArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Additional directory with skills to serve; may be repeated
    #[arg(long = "root", value_name = "LABEL=PATH", value_parser = labeled_root)]
    pub(crate) roots: Vec<LabeledRoot>,
    /// Address, or port of 127.0.0.1, to serve many clients over HTTP; an address other than
    /// loopback requires a bearer token
    #[arg(long, value_name = "ADDR", value_parser = http_address)]
    pub(crate) http: Option<SocketAddr>,
    /// File with the bearer token of HTTP clients; SKILLHOST_MCP_TOKEN may have the token instead
    #[arg(long, value_name = "FILE", requires = "http")]
    pub(crate) token_file: Option<PathBuf>,
    /// The token itself, which other users of the machine can see in the list of processes
    #[arg(long, value_name = "TOKEN", env = "SKILLHOST_MCP_TOKEN", hide = true)]
    pub(crate) token: Option<String>,
    /// Additional host name of the HTTP server, besides localhost and its address
    #[arg(long = "allow-host", value_name = "HOST", requires = "http")]
    pub(crate) hosts: Vec<String>,
    /// Additional origin of web pages that may use the HTTP server, besides those of this machine
    #[arg(long = "allow-origin", value_name = "ORIGIN", requires = "http")]
    pub(crate) origins: Vec<String>,
}

fn http_address(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<u16>() {
        Ok(port) => Ok((Ipv4Addr::LOCALHOST, port).into()),
        Err(_) => text.parse().map_err(|_| {
            "an address is a port, or an IP address and a port, such as 127.0.0.1:8787".to_owned()
        }),
    }
}

/// A labeled directory with skills.
#[derive(Debug, Clone)]
pub(crate) struct LabeledRoot {
    pub(crate) label: String,
    pub(crate) path: PathBuf,
}

fn labeled_root(text: &str) -> Result<LabeledRoot, String> {
    match text.split_once('=') {
        Some((label, path)) if !label.is_empty() && !path.is_empty() => {
            Ok(LabeledRoot { label: label.to_owned(), path: path.into() })
        }
        _ => Err("a root is given as LABEL=PATH, such as team=../team-skills".to_owned()),
    }
}
