//! The arguments of the command line.

mod events;
pub(crate) mod help;
mod mcp;
mod models;
#[cfg(test)]
mod tests;
mod threads;

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use skill_commands::{ExportArgs, SkillCommand};
use skillhost_builder::ExtensionTemplate;
use skillhost_chat::{AskArgs, ChatArgs, WorkspaceArgs};
use skillhost_operations::{
    BackupArgs, ChannelCommand, InboxCommand, InitArgs, LogsArgs, RestoreArgs, ServiceCommand,
    TaskCommand, TrustArgs,
};
use skillhost_terminal::GlobalArgs;

pub(crate) use events::{EventCommand, TailArgs};
pub(crate) use mcp::{LabeledRoot, McpArgs, McpCommand, ServeArgs};
pub(crate) use models::{CheckArgs, ModelCommand};
pub(crate) use threads::ThreadCommand;

/// A nano-kernel for AI agents and a registry for Agent Skills.
///
/// Exit codes: 0 success, 1 findings, 2 usage error, 3 not found, 4 conflict, 5 I/O or permission
/// error, 70 crash limit of a supervised kernel reached, 75 restart requested, 130 interrupted.
#[derive(Debug, Parser)]
#[command(name = "skillhost", version, long_version = skillhost_bundle::VERSION_TEXT)]
#[command(max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: TopLevelCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TopLevelCommand {
    /// Run all services until interrupted, one line per event
    ///
    /// `ask` and `chat` on the same home are then sent to this kernel.
    Run(RunArgs),
    /// Print the state of the kernel and what waits for you
    ///
    /// Exit code 0 if a kernel runs for the home, 3 if none does.
    Status,
    /// Stop the running kernel and wait for its end
    Stop,
    /// Print an address that logs in to the web console
    ///
    /// The running kernel serves the console, on loopback if the settings name no other address. The
    /// address works once, within two minutes. See docs/console.md.
    Console(ConsoleArgs),
    /// Print the log of the kernel
    Logs(LogsArgs),
    /// Write a backup of the home; a kernel may run
    ///
    /// One archive (tar.gz) with settings, manifests, sandbox and the kernel's data. Left out are
    /// .env, which has secrets, locks, caches and logs. See docs/running.md.
    Backup(BackupArgs),
    /// Restore a backup to a home
    ///
    /// Every file is checked first: a damaged backup changes nothing. The restored home is not
    /// trusted. See docs/running.md.
    Restore(RestoreArgs),
    /// Define a service that runs the kernel
    #[command(subcommand)]
    Service(ServiceCommand),
    /// Send one message to an agent and print the reply
    Ask(AskArgs),
    /// Chat with an agent
    Chat(ChatArgs),
    /// List and show stored threads
    #[command(subcommand, alias = "threads")]
    Thread(ThreadCommand),
    /// Submit, list, cancel and retry background tasks
    #[command(subcommand)]
    Task(TaskCommand),
    /// List and decide the questions that wait for you
    #[command(subcommand)]
    Inbox(InboxCommand),
    /// List channels and the people who may write on them
    #[command(subcommand, alias = "channels")]
    Channel(ChannelCommand),
    /// Show events and retry failed deliveries
    #[command(subcommand, alias = "events")]
    Event(EventCommand),
    /// List and show agents
    #[command(subcommand)]
    Agent(AgentCommand),
    /// Create, build, approve, reload and inspect extensions
    #[command(subcommand, visible_alias = "ext")]
    Extension(ExtensionCommand),
    /// List schedules and run them on demand
    #[command(subcommand)]
    Schedule(ScheduleCommand),
    /// List and call tools
    #[command(subcommand)]
    Tool(ToolCommand),
    /// Search, check, format and review skills; loads no extension
    #[command(subcommand)]
    Skill(SkillCommand),
    /// The earlier spelling of `skill export`
    #[command(hide = true)]
    Export(ExportArgs),
    /// Serve the registry with the Model Context Protocol
    Mcp(McpArgs),
    /// List models and check whether they answer
    #[command(subcommand, alias = "models")]
    Model(ModelCommand),
    /// Print the settings in force and their sources
    Config(ConfigArgs),
    /// Print the JSON Schema of a file
    Schema(SchemaArgs),
    /// Create a home with the shipped skills and manifests
    Init(InitArgs),
    /// Trust a home, so that its extensions are loaded
    Trust(TrustArgs),
    /// Print a completion script
    Completions(CompletionsArgs),
    /// Write manual pages, one per command
    Man(ManArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Restart the kernel after a crash, and when an agent or an extension requests it
    ///
    /// After five crashes in five minutes the supervisor exits with code 70; see `supervisor` in
    /// skillhost.yaml.
    #[arg(long)]
    pub(crate) supervised: bool,
    #[command(flatten)]
    pub(crate) workspaces: WorkspaceArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ConsoleArgs {
    /// Open the address in the browser instead of printing it
    #[arg(long)]
    pub(crate) open: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// List agents
    #[command(visible_alias = "ls")]
    List,
    /// Print the layers of an agent's instructions
    Show {
        /// Agent id
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ExtensionCommand {
    /// List loaded, rejected and disabled extensions
    #[command(visible_alias = "ls")]
    List,
    /// Check every extension; exit 1 on a problem
    ///
    /// Prints the phase, the reason and the remedy of each problem. If a kernel runs for the home,
    /// that kernel reports, and names the manifests and settings on disk that are not in force in it.
    Doctor,
    /// Reload an extension or agent in the running kernel
    ///
    /// An extension that is not loaded is started, together with the extensions that were rejected
    /// because it was missing.
    Reload {
        /// Extension id
        id: String,
    },
    /// Create an extension in sandbox/extensions/ID
    ///
    /// Prints the next commands. The templates are a library in Rust with a tool (native), a block in
    /// every prompt (context) or a background service (service), a program in Python or JavaScript
    /// without dependencies (process-python, process-node), and an existing MCP server (mcp), whose
    /// command follows `--`.
    New(ExtensionNewArgs),
    /// Check, build, try, install and approve an extension
    ///
    /// Shows the capabilities and all files of sandbox/extensions/ID and asks for approval. A crate
    /// is built offline, within limits, against the SDK of this program; of a process extension the
    /// files are approved. See docs/building.md.
    Build(ExtensionBuildArgs),
    /// Restore the previous build of an extension
    Rollback {
        /// Extension id
        id: String,
    },
    /// Approve the files of an extension as they are
    ///
    /// Extensions in sandbox/extensions are inert until a person has approved exactly these files.
    /// Shows the capabilities and the files, and asks. Without a terminal, --digest names the files
    /// that --print has shown. A library or process is tried, and its tools are approved with it.
    /// See docs/security.md.
    Approve(ExtensionApproveArgs),
    /// List approved extensions and those that wait for approval
    Approvals,
    /// Revoke the approval of an extension
    Revoke {
        /// Extension id
        id: String,
    },
    /// Load one extension, print its description and exit
    #[command(hide = true)]
    Probe {
        /// Path of the manifest
        manifest: PathBuf,
        /// Home directory of a process [default: one in the home's data]
        #[arg(long, value_name = "DIR")]
        process_home: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ExtensionNewArgs {
    /// Extension id: lowercase letters, digits, `_` and `-`
    pub(crate) id: String,
    /// Template
    #[arg(
        long,
        value_name = "TEMPLATE",
        default_value = "native",
        value_parser = PossibleValuesParser::new(ExtensionTemplate::ALL.map(ExtensionTemplate::as_str))
    )]
    pub(crate) template: String,
    /// Sources of skillhost-sdk [default: those of this executable]
    #[arg(long, value_name = "DIR")]
    pub(crate) sdk: Option<PathBuf>,
    /// Command of the MCP server, for the template `mcp`
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ExtensionApproveArgs {
    /// Extension id
    pub(crate) id: String,
    /// Digest of the inspected files, instead of a question
    #[arg(long, value_name = "SHA256", conflicts_with = "print")]
    pub(crate) digest: Option<String>,
    /// Print the files and their digest without approving them
    #[arg(long)]
    pub(crate) print: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExtensionBuildArgs {
    /// Extension id
    pub(crate) id: String,
    /// Approve without a question; for files that you know
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// List schedules with their next and last runs
    #[command(visible_alias = "ls")]
    List,
    /// Run a schedule now and wait for its end
    ///
    /// A running kernel of the home runs it; without one, this process does.
    Run {
        /// Schedule, as EXTENSION/NAME
        #[arg(value_name = "SCHEDULE")]
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ToolCommand {
    /// List tools
    #[command(visible_alias = "ls")]
    List {
        /// Only tools offered to this agent
        #[arg(long, value_name = "ID")]
        agent: Option<String>,
    },
    /// Print the description and the parameters of a tool
    Show {
        /// Tool name
        name: String,
    },
    /// Call a tool as the operator
    Call {
        /// Tool name
        name: String,
        /// Arguments as one JSON object; `-` reads standard input
        #[arg(default_value = "{}")]
        arguments: String,
    },
}

/// Prints the settings where no command is given.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: Option<ConfigCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the settings in force and their sources (the default)
    Show,
}

#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// File to describe
    #[arg(value_name = "FILE")]
    pub(crate) target: SchemaTarget,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum SchemaTarget {
    /// manifest.yaml
    Manifest,
    /// skillhost.yaml
    Settings,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Target directory; created if it does not exist
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell
    pub(crate) shell: Shell,
}
