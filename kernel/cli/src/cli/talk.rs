//! The arguments of `skillhost ask`, `chat` and `thread`.

use clap::{Args, Subcommand};

/// The exit codes of commands that run an agent.
const EXIT_CODES: &str = "\
Exit codes: 1 model or agent failed, 2 usage or settings error, 3 unknown agent, model or thread,
4 thread in use, 5 thread not readable or writable, or API key missing or rejected, 130 interrupted.";

/// The agent, the model and the thread of a message.
#[derive(Debug, Args)]
pub(crate) struct ChatSessionArgs {
    /// Agent [default: that of the thread, or orchestrator_agent]
    #[arg(long, value_name = "ID")]
    pub(crate) agent: Option<String>,
    /// Model as PROVIDER/MODEL [default: the model of the settings or of the agent's manifest]
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Resume this thread
    #[arg(long, value_name = "ID")]
    pub(crate) thread: Option<String>,
    /// Approve calls of this tool in advance; may be repeated. Tools that require an approval of each
    /// call still ask, and are rejected where no approval channel is available
    #[arg(long, value_name = "TOOL")]
    pub(crate) approve: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct AskArgs {
    #[command(flatten)]
    pub(crate) talk: ChatSessionArgs,
    /// Print the system prompt without calling a model
    #[arg(long, conflicts_with_all = ["model", "thread", "approve"])]
    pub(crate) print_prompt: bool,
    /// Message; `-` reads standard input. Optional with --thread: the reply to the last message of
    /// the thread is then printed, after waiting for a kernel that works on it
    #[arg(value_name = "TEXT", required_unless_present = "thread")]
    pub(crate) text: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    pub(crate) talk: ChatSessionArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ThreadCommand {
    /// List threads, newest change first
    List,
    /// Print a thread as a model receives it
    Show {
        /// Thread id
        id: String,
    },
}
