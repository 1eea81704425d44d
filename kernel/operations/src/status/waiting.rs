//! The decisions and failures that wait for the user of a home.

use serde::Serialize;
use skillhost_control::{KernelStatus, OpenQuestionSummary};
use skillhost_events::Journal;
use skillhost_home::{DiscoveryResult, Home};
use skillhost_payload::OperatorCommand;
use skillhost_terminal::{CliContext, CliError, display_safe};

use crate::task_store::TaskStoreReport;

/// The decisions about skills that a person has not made yet.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct WaitingReviews {
    /// The number of proposals.
    pub proposals: usize,
    /// The skills that agents created, by id.
    pub skills: Vec<String>,
}

/// A function that lists the decisions about the skills of a trusted home.
pub(crate) type ReviewSource<'r> = &'r dyn Fn(&Home) -> Result<WaitingReviews, CliError>;

/// What waits for the user, with or without a running kernel.
#[derive(Debug, Default, Serialize)]
pub(super) struct WaitingItems {
    /// The requests of active runs.
    questions: Vec<OpenQuestionSummary>,
    /// The extensions and agents that wait for approval, by id.
    extensions: Vec<String>,
    #[serde(flatten)]
    reviews: WaitingReviews,
    /// The number of questions of tasks and threads that wait for an answer.
    inbox: usize,
    /// The number of deliveries that failed too often.
    dead_letters: usize,
    /// The parts that could not be determined.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
}

impl WaitingItems {
    pub(super) fn collect(
        session: &CliContext,
        home: &Home,
        found: &DiscoveryResult,
        kernel: Option<&KernelStatus>,
        reviews: ReviewSource<'_>,
        tasks: &Result<TaskStoreReport, CliError>,
    ) -> Self {
        let mut items = Self {
            questions: kernel.map(|kernel| kernel.questions.clone()).unwrap_or_default(),
            extensions: found.unapproved.keys().map(ToString::to_string).collect(),
            ..Self::default()
        };
        // The data of a home that is not trusted is not opened.
        if home.is_untrusted() {
            return items;
        }
        match reviews(home) {
            Ok(reviews) => items.reviews = reviews,
            Err(error) => items.problems.push(format!("skills: {}", error.message())),
        }
        match tasks {
            Ok(report) => {
                items.inbox = report.questions;
                // The kernel may fail to write what this process can read.
                let problem = kernel.and_then(|kernel| kernel.task_problem.as_ref());
                items.problems.extend(problem.map(|error| format!("tasks are paused: {error}")));
            }
            Err(error) => items.problems.push(format!("tasks: {}", error.message())),
        }
        let journal = Journal::in_directory(&home.data_dir("kernel"));
        match session.block_on(Box::pin(async { journal.dead_letters().await })) {
            Ok(Ok(letters)) => items.dead_letters = letters.len(),
            Ok(Err(error)) => items.problems.push(format!("events: {error}")),
            Err(error) => items.problems.push(format!("events: {}", error.message())),
        }
        items
    }

    /// Formats one line per item, each with the command for it.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for question in &self.questions {
            let OpenQuestionSummary { thread, agent, tool, secret } = question;
            let what = match (tool, secret) {
                (Some(tool), _) => format!("approval of `{}`", display_safe(tool)),
                (None, secret) => {
                    format!("the secret `{}`", display_safe(secret.as_deref().unwrap_or_default()))
                }
            };
            let (agent, thread) = (display_safe(agent), display_safe(thread));
            let chat = OperatorCommand::StartChat;
            lines.push(format!("{what} for {agent}: {chat} --thread {thread}"));
        }
        for id in &self.extensions {
            let approve = OperatorCommand::ApproveExtension { id };
            lines.push(format!("approval of the extension `{id}`: {approve}"));
        }
        for id in &self.reviews.skills {
            let approve = OperatorCommand::ApproveSkill { id, digest: None };
            lines.push(format!("approval of the skill `{}`: {approve}", display_safe(id)));
        }
        if self.inbox > 0 {
            let plural = if self.inbox == 1 { "" } else { "s" };
            lines.push(format!("{} question{plural}: skillhost inbox list", self.inbox));
        }
        let counted = [
            (self.reviews.proposals, "proposal", OperatorCommand::ReviewProposals { id: None }),
            (self.dead_letters, "failed delivery", OperatorCommand::ListDeadLetters),
        ];
        for (count, what, command) in counted {
            match (count, what.strip_suffix('y')) {
                (0, _) => {}
                (1, _) => lines.push(format!("1 {what}: {command}")),
                (_, Some(stem)) => lines.push(format!("{count} {stem}ies: {command}")),
                (_, None) => lines.push(format!("{count} {what}s: {command}")),
            }
        }
        lines.extend(self.problems.iter().map(|problem| {
            format!("unknown, because of an error: {}", display_safe(&problem.replace('\n', " ")))
        }));
        lines
    }
}
