//! The arguments of `skillhost task`.

use clap::{Args, Subcommand, ValueEnum};
use skillhost_tasks::{EndNotice, TaskBudget, TaskKind, TaskState};

use super::limits::{TimeArg, parse_budget, parse_time};

/// The commands of `skillhost task`.
#[derive(Debug, Subcommand)]
pub enum TaskCommand {
    /// Submit a task for an agent, a tool or an extension
    ///
    /// The task is stored before the command returns, and a kernel of the home executes it: the
    /// running one, or the next. Exit code 4 if the key belongs to a task with another input. With
    /// --wait the exit code is 0 if the task completed without an error and 1 otherwise.
    Submit(Box<TaskSubmitArgs>),
    /// List tasks, newest first
    #[command(visible_alias = "ls")]
    List(TaskListArgs),
    /// Print a task with its attempts, questions and subtasks
    Show {
        /// Task id, or the start of one that no other task has
        id: String,
    },
    /// Print the messages, calls and results of a task
    Logs {
        /// Task id, or the start of one
        id: String,
        /// Print new lines until the task ends
        #[arg(long, short)]
        follow: bool,
    },
    /// Cancel a task and its subtasks
    ///
    /// A running task ends at its next step. Exit code 4 if it has ended in another way.
    Cancel {
        /// Task id, or the start of one
        id: String,
    },
    /// Submit a task again that has ended
    ///
    /// The new task continues after the last stored line of the old one. Exit code 4 if the task
    /// has not ended, or was retried already.
    Retry {
        /// Task id, or the start of one
        id: String,
        /// Start from the beginning
        #[arg(long)]
        fresh: bool,
    },
}

/// The arguments of `skillhost task submit`.
#[derive(Debug, Args)]
pub struct TaskSubmitArgs {
    /// Agent id, and the text of the task; with --tool and --kind, one JSON object
    ///
    /// `-` as text or arguments reads standard input.
    #[arg(value_name = "AGENT TEXT | JSON", required = true, num_args = 1..=2)]
    pub(crate) words: Vec<String>,
    /// Tool to call, instead of an agent
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// Kind of an extension's tasks, instead of an agent
    ///
    /// The extension checks the input, so a kernel has to run.
    #[arg(long, value_name = "EXTENSION/KIND", conflicts_with = "tool")]
    pub(crate) kind: Option<String>,
    /// Idempotency key: repeated with the same input, it names the same task
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Limits, such as tokens=200000,turns=30,time=15m,cost=0.50
    ///
    /// Time counts only while a model request or a tool call is under way; the cost is in dollars.
    #[arg(long, value_name = "LIMITS", value_parser = parse_budget)]
    pub(crate) budget: Option<TaskBudget>,
    /// Earliest start: a time such as 2026-02-28T09:00:00Z, or from now, such as 2h
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) at: Option<TimeArg>,
    /// Time at which the task fails
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) deadline: Option<TimeArg>,
    /// Tasks that have to complete before
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub(crate) after: Vec<String>,
    /// Priority; a higher one starts earlier
    #[arg(long, value_name = "NUMBER", default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) priority: i32,
    /// Lane; its tasks run one after the other
    #[arg(long, value_name = "NAME")]
    pub(crate) lane: Option<String>,
    /// Text for lists [default: the start of the text]
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// Thread that gets a notice when the task ends
    #[arg(long, value_name = "ID")]
    pub(crate) thread: Option<String>,
    /// Notice at the end: in the thread, with a turn for its agent, or none
    #[arg(long, value_name = "NOTICE", value_enum, default_value_t = EndNoticeArg::Note)]
    pub(crate) on_end: EndNoticeArg,
    /// Wait for the end and print the result
    #[arg(long)]
    pub(crate) wait: bool,
}

impl TaskSubmitArgs {
    /// Returns the agent's id, for the completion of a prefix; `None` with `--tool` or `--kind`.
    pub fn agent_mut(&mut self) -> Option<&mut String> {
        match (&self.tool, &self.kind) {
            (None, None) => self.words.first_mut(),
            _ => None,
        }
    }
}

/// The arguments of `skillhost task list`.
#[derive(Debug, Args)]
pub struct TaskListArgs {
    /// Only tasks in these states
    #[arg(long, value_name = "STATE", value_enum, value_delimiter = ',')]
    pub(crate) state: Vec<TaskStateArg>,
    /// Only this task and those below it
    #[arg(long, value_name = "ID")]
    pub(crate) root: Option<String>,
    /// Only tasks of this kind
    #[arg(long, value_name = "KIND", value_enum)]
    pub(crate) kind: Option<TaskKindArg>,
    /// Maximum number of tasks
    #[arg(long, value_name = "N", default_value_t = 50,
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) limit: u16,
    /// Only tasks older than this one, for the next page
    #[arg(long, value_name = "ID")]
    pub(crate) before: Option<String>,
}

/// The value of `--on-end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EndNoticeArg {
    /// A notice in the thread
    Note,
    /// A notice in the thread, and a turn for its agent
    Wake,
    /// Only the event
    Silent,
}

impl From<EndNoticeArg> for EndNotice {
    fn from(notice: EndNoticeArg) -> Self {
        match notice {
            EndNoticeArg::Note => Self::Note,
            EndNoticeArg::Wake => Self::Wake,
            EndNoticeArg::Silent => Self::Silent,
        }
    }
}

/// The value of `--state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TaskStateArg {
    /// Due, or due later
    Ready,
    /// Claimed by a worker
    Running,
    /// Waiting for people, tasks or a time
    Waiting,
    /// Ended with a result
    Completed,
    /// Ended with an error
    Failed,
    /// Ended by a request
    Cancelled,
}

impl From<TaskStateArg> for TaskState {
    fn from(state: TaskStateArg) -> Self {
        match state {
            TaskStateArg::Ready => Self::Ready,
            TaskStateArg::Running => Self::Running,
            TaskStateArg::Waiting => Self::Waiting,
            TaskStateArg::Completed => Self::Completed,
            TaskStateArg::Failed => Self::Failed,
            TaskStateArg::Cancelled => Self::Cancelled,
        }
    }
}

/// The value of `--kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TaskKindArg {
    /// Runs of agents
    Agent,
    /// Tool calls
    Tool,
    /// Tasks of extensions
    Ext,
    /// Messages to channels
    Deliver,
}

impl From<TaskKindArg> for TaskKind {
    fn from(kind: TaskKindArg) -> Self {
        match kind {
            TaskKindArg::Agent => Self::Agent,
            TaskKindArg::Tool => Self::Tool,
            TaskKindArg::Ext => Self::Ext,
            TaskKindArg::Deliver => Self::Deliver,
        }
    }
}
