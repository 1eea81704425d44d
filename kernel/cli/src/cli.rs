//! The command line, as clap reads it.

mod events;
mod export;
mod mcp;
mod models;
mod proposals;
mod skill;
mod talk;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

pub(crate) use events::{EventsCommand, TailArgs};
pub(crate) use export::ExportArgs;
pub(crate) use mcp::{InstallArgs, McpClient, McpCommand};
pub(crate) use models::{CheckArgs, ModelsCommand};
pub(crate) use proposals::{
    ApproveArgs, AuditLogArgs, DiffArgs, HistoryArgs, LedgerCommand, ProposalsArgs, PruneArgs,
    RebaseArgs, RejectArgs, ReviewArgs, RollbackArgs, StatsArgs,
};
pub(crate) use skill::{
    CostArgs, DisableArgs, DoctorArgs, EnableArgs, FmtArgs, GraphArgs, LintArgs, NewArgs,
    PromptFormat, ReferenceArgs, RenderArgs, ReportFormat, RulesArgs, SearchArgs, SkillCommand,
    SkillPaths, SkillRoots, ToPromptArgs, TriadsArgs, ValidateArgs,
};
pub(crate) use talk::{AskArgs, ChatArgs, ChatSessionArgs, ThreadsCommand};

/// A nano-kernel for AI agents and a registry for Agent Skills.
///
/// Exit codes: 0 ok, 1 findings, 2 usage, 3 not found, 4 conflict, 5 I/O or permission,
/// 70 a supervised kernel that crashes again and again, 75 a kernel that wants to be started again,
/// 130 interrupted.
#[derive(Debug, Parser)]
#[command(name = "skillhost", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: TopLevelCommand,
}

/// Options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// The home directory, which has a sandbox/ [env: SKILLHOST_HOME] [default: the nearest folder
    /// above with a sandbox/, else the user's data directory]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// Load extensions of a home that is not trusted, for this call only
    #[arg(long, global = true)]
    pub(crate) trust_home: bool,
    /// Print one JSON object instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Which log events to print on stderr, such as `info` or `extension=debug`
    #[arg(
        long,
        global = true,
        value_name = "FILTER",
        env = "SKILLHOST_LOG",
        default_value = "warn"
    )]
    pub(crate) log: String,
    /// Print log events as JSON lines
    #[arg(long, global = true)]
    pub(crate) log_json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TopLevelCommand {
    /// Run all services until Ctrl-C, one line per event
    ///
    /// `ask` and `chat` on the same home talk to this kernel from then on.
    Run(RunArgs),
    /// Ask an agent
    Ask(AskArgs),
    /// Talk to an agent, line by line
    Chat(ChatArgs),
    /// Look at the threads that `ask` and `chat` keep
    #[command(subcommand)]
    Threads(ThreadsCommand),
    /// Look at events and at those that nobody could handle
    #[command(subcommand)]
    Events(EventsCommand),
    /// Look at agents
    #[command(subcommand)]
    Agent(AgentCommand),
    /// Look at extensions, begin, build, reload them and roll them back
    #[command(subcommand)]
    Ext(ExtCommand),
    /// Look at what happens at certain times, and let it happen now
    #[command(subcommand)]
    Schedule(ScheduleCommand),
    /// List and call tools
    #[command(subcommand)]
    Tool(ToolCommand),
    /// Look at skills, check, format and measure them; loads no extension
    #[command(subcommand)]
    Skill(SkillCommand),
    /// Write skills into the folder of Claude Code, Codex or Gemini CLI, as copies or links
    Export(ExportArgs),
    /// Serve the registry to other agents with the Model Context Protocol
    Mcp(McpArgs),
    /// List the models that agents run on, and ask whether they answer
    #[command(subcommand)]
    Models(ModelsCommand),
    /// Print the settings in force and where each comes from
    Config,
    /// Print the JSON Schema of a file
    Schema(SchemaArgs),
    /// Make a directory a home with the shipped skills and manifests
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
    /// Start the kernel again when it crashes, and when an agent or extension asks for it
    ///
    /// After five crashes in five minutes it stays down, exit code 70; see `supervisor` in
    /// skillhost.yaml.
    #[arg(long)]
    pub(crate) supervised: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// List agents
    List,
    /// Print the layers of an agent's instructions
    Show {
        /// The agent
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ExtCommand {
    /// List extensions: loaded, rejected and disabled
    List,
    /// Check every extension: phase, reason, what to do; exit 1 when something is wrong
    ///
    /// Where `skillhost run` runs for the home, its kernel answers: a manifest or library that has
    /// changed since it started counts after its next start.
    Doctor,
    /// Take a new build of an extension into use in the running kernel
    ///
    /// An extension that is not loaded is started, and with it what was rejected for want of it.
    Reload {
        /// The extension
        id: String,
    },
    /// Begin a new extension in sandbox/extensions/ID
    New(ExtNewArgs),
    /// Check, build, try, install and approve the extension in sandbox/extensions/ID
    ///
    /// Shows what it will be able to do and all its files, and asks. A crate is built offline, within limits, against the SDK of this
    /// program; of a process extension the files are approved. See docs/building.md.
    Build(ExtBuildArgs),
    /// Take the library back that an extension had before it was last built
    Rollback {
        /// The extension
        id: String,
    },
    /// Approve the extension in sandbox/extensions/ID as it is
    ///
    /// Nothing in sandbox/extensions is used before a person approved exactly these files. Shows what
    /// the extension will be able to do and its files, and asks. Without a terminal, --digest names
    /// the files that --print has shown. A library or process is tried, and its tools are approved
    /// with it. See docs/security.md.
    Approve(ExtApproveArgs),
    /// List what was approved in sandbox/extensions and what waits for it
    Approvals,
    /// Revoke the approval of an extension
    Revoke {
        /// The extension
        id: String,
    },
    /// Load one extension, print what it is and end
    #[command(hide = true)]
    Probe {
        /// Its manifest
        manifest: PathBuf,
        /// The home directory of a process [default: one in the home's data]
        #[arg(long, value_name = "DIR")]
        process_home: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ExtNewArgs {
    /// Its id: lower-case letters, digits, `_` and `-`
    pub(crate) id: String,
    /// Sources of skillhost-sdk [default: those that belong to this executable]
    #[arg(long, value_name = "DIR")]
    pub(crate) sdk: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ExtApproveArgs {
    /// The extension
    pub(crate) id: String,
    /// Digest of the files that were looked at, instead of a question
    #[arg(long, value_name = "SHA256", conflicts_with = "print")]
    pub(crate) digest: Option<String>,
    /// Print what would be approved and its digest
    #[arg(long)]
    pub(crate) print: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExtBuildArgs {
    /// The extension
    pub(crate) id: String,
    /// Do not ask; for files that you know
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// List schedules: when each is due next, and what became of it the last time
    List,
    /// Run a schedule now and wait for it, in the running kernel if there is one
    Run {
        /// The schedule
        #[arg(value_name = "EXTENSION/NAME")]
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ToolCommand {
    /// List tools
    List {
        /// Only those offered to this agent
        #[arg(long, value_name = "ID")]
        agent: Option<String>,
    },
    /// Call a tool as the operator
    Call {
        /// The tool
        name: String,
        /// Its arguments, one JSON object; `-` reads standard input
        #[arg(default_value = "{}")]
        arguments: String,
    },
}

/// Serves one client on standard input and output, or many over HTTP, until it goes away or Ctrl-C.
/// With a home, what its extensions export and its skills; without one, the skills in
/// .agents/skills and .claude/skills of the working directory and of the user.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct McpArgs {
    #[command(subcommand)]
    pub(crate) command: Option<McpCommand>,
    /// Serve skills from another folder too; may be given several times
    #[arg(long = "root", value_name = "LABEL=PATH", value_parser = labelled_root)]
    pub(crate) roots: Vec<LabelledRoot>,
    /// Serve many clients over HTTP at this address, or at this port of 127.0.0.1; off loopback a
    /// bearer token is needed
    #[arg(long, value_name = "ADDR", value_parser = http_address)]
    pub(crate) http: Option<SocketAddr>,
    /// The bearer token that clients have to send over HTTP
    #[arg(long, value_name = "TOKEN", env = "SKILLHOST_MCP_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// A name under which the HTTP server may be addressed, beside localhost and its address
    #[arg(long = "allow-host", value_name = "HOST", requires = "http")]
    pub(crate) hosts: Vec<String>,
    /// The origin of web pages that may use the HTTP server, beside those of this machine
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

/// A folder with skills and what to call it.
#[derive(Debug, Clone)]
pub(crate) struct LabelledRoot {
    pub(crate) label: String,
    pub(crate) path: PathBuf,
}

fn labelled_root(text: &str) -> Result<LabelledRoot, String> {
    match text.split_once('=') {
        Some((label, path)) if !label.is_empty() && !path.is_empty() => {
            Ok(LabelledRoot { label: label.to_owned(), path: path.into() })
        }
        _ => Err("a root is given as LABEL=PATH, such as team=../team-skills".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Which file
    pub(crate) of: SchemaTarget,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum SchemaTarget {
    /// manifest.yaml
    Manifest,
    /// skillhost.yaml
    Settings,
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// The directory; made if it does not exist
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// The home [default: the one found from here]
    #[arg(value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// List the homes trusted so far instead
    #[arg(long, conflicts_with = "dir")]
    pub(crate) list: bool,
    /// Remove the record of a home, so that it is not trusted any longer
    #[arg(long, conflicts_with = "list")]
    pub(crate) remove: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The folder they go into; made if it does not exist
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
}
