//! The arguments of `ask` and `chat`.

use clap::Args;

use crate::workspace_arguments::WorkspaceArgs;

/// The exit codes of commands that run an agent.
const EXIT_CODES: &str = "\
Exit codes: 1 model or agent failed, 2 usage or settings error, 3 unknown agent, model or thread,
4 thread in use, 5 thread not readable or writable, or API key missing or rejected, 130 interrupted.";

/// The agent, the model and the thread of a message.
#[derive(Debug, Args)]
pub struct ChatSessionArgs {
    /// Agent [default: that of the thread, or orchestrator_agent]
    #[arg(long, value_name = "ID")]
    pub agent: Option<String>,
    /// Model as PROVIDER/MODEL [default: the model of the settings or of the agent's manifest]
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Resume this thread; the start of an id that no other thread has is enough
    #[arg(long, value_name = "ID")]
    pub thread: Option<String>,
    /// Resume the thread that was changed last, with --agent the last one of that agent
    #[arg(long = "continue", short = 'c', conflicts_with = "thread")]
    pub resume_last: bool,
    /// Approve calls of this tool in advance; may be repeated. Tools that require an approval of each
    /// call still ask, and are rejected where no approval channel is available
    #[arg(long, value_name = "TOOL")]
    pub approve: Vec<String>,
    /// The workspaces of the command line.
    #[command(flatten)]
    pub workspaces: WorkspaceArgs,
    /// Do not offer the working directory as a workspace
    #[arg(long, conflicts_with = "directories")]
    pub no_workspace: bool,
}

/// The arguments of `ask`.
#[derive(Debug, Args)]
#[command(about = None, long_about = None, after_help = EXIT_CODES)]
pub struct AskArgs {
    /// The thread.
    #[command(flatten)]
    pub talk: ChatSessionArgs,
    /// Print the system prompt without calling a model
    #[arg(long, conflicts_with_all = ["model", "thread", "resume_last", "approve", "directories"])]
    pub print_prompt: bool,
    /// Message; `-` reads standard input. Optional with --thread and --continue: the reply to the last
    /// message of the thread is then printed, after waiting for a kernel that works on it
    #[arg(value_name = "TEXT", required_unless_present_any = ["thread", "resume_last"])]
    pub text: Option<String>,
}

/// The arguments of `chat`.
#[derive(Debug, Args)]
#[command(about = None, long_about = None, after_help = EXIT_CODES)]
pub struct ChatArgs {
    /// The thread.
    #[command(flatten)]
    pub talk: ChatSessionArgs,
}
