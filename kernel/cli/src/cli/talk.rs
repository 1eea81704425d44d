//! `skillhost ask`, `chat` and `threads`, as clap reads them.

use clap::{Args, Subcommand};

/// Exit codes of whatever runs an agent.
const EXIT_CODES: &str = "\
Exit codes: 1 the model or the agent failed, 2 usage or settings, 3 an unknown agent, model or thread,
4 a thread that is in use, 5 a thread that cannot be read or written, or an API key that is missing or
refused, 130 interrupted.";

/// Who answers, on which model, in which thread.
#[derive(Debug, Args)]
pub(crate) struct ChatSessionArgs {
    /// The agent [default: that of the thread, or orchestrator_agent]
    #[arg(long, value_name = "ID")]
    pub(crate) agent: Option<String>,
    /// The model, as provider/model [default: as the settings and the agent's manifest say]
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Go on with this thread instead of beginning one
    #[arg(long, value_name = "ID")]
    pub(crate) thread: Option<String>,
    /// Let this tool be called without asking; may be given more than once. Tools that ask every
    /// time still ask, and are refused where nobody can be asked
    #[arg(long, value_name = "TOOL")]
    pub(crate) approve: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct AskArgs {
    #[command(flatten)]
    pub(crate) talk: ChatSessionArgs,
    /// Print the system prompt of the turn instead of calling a model
    #[arg(long, conflicts_with_all = ["model", "thread", "approve"])]
    pub(crate) print_prompt: bool,
    /// What the user says; `-` reads standard input. May be left out with --thread: then the answer
    /// to what was said there before is printed, and waited for where a kernel works on it
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
pub(crate) enum ThreadsCommand {
    /// List threads, the one changed last first
    List,
    /// Print what a model would be shown of a thread
    Show {
        /// The thread
        id: String,
    },
}
