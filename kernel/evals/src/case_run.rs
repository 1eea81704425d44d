//! A run of a case: a turn of an agent in a new thread, and its grading.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use skill_evals::{
    AssertionResult, ExecutionMetrics, GradingFile, ModelCaseKind, ModelRunReport, RunObservations,
    RunProvenance, RunTiming, RunValidity, SpentAmounts,
};
use skillhost_agents::{RunError, RunRequest};
use skillhost_conversation::{ModelErrorKind, Thread};
use skillhost_core::spawn_blocking;
use skillhost_payload::{Workspace, WorkspaceAccess};
use tokio_util::sync::CancellationToken;

use crate::error::EvalError;
use crate::grader::{GradedRun, GradingStop, RunGrader};
use crate::overlay::OverlayKernel;
use crate::planned_run::{PlannedCase, PlannedRun};
use crate::results::FinishedRun;
use crate::run_channel::RunChannel;
use crate::spending::SpendingStop;
use crate::watched_model::{MAX_ATTEMPTS, WatchLimits, WatchedRun};
use crate::workspace_files::{ChangedFiles, RunWorkspace};

/// The model requests after which a query that has not triggered is not expected to.
const MAX_TRIGGER_REQUESTS: u32 = 4;

/// The label of the workspace in paths of tools.
const WORKSPACE: &str = "work";

/// The end of a run that has no result.
pub(crate) enum RunStop {
    /// A limit of the budget.
    Spending(SpendingStop),
    /// An error that every run would have.
    Error(EvalError),
}

impl From<EvalError> for RunStop {
    fn from(error: EvalError) -> Self {
        Self::Error(error)
    }
}

/// The maker of runs in one home.
pub(crate) struct CaseRunner<'a> {
    pub(crate) overlay: &'a OverlayKernel,
    pub(crate) grader: &'a RunGrader,
    pub(crate) skill_id: &'a str,
    pub(crate) skill_directory: &'a std::path::Path,
    pub(crate) agent: &'a str,
    pub(crate) provenance: RunProvenance,
}

/// The observations of an attempt.
struct Attempt {
    run: WatchedRun,
    triggered: bool,
    metrics: ExecutionMetrics,
    seen: RunObservations,
    files: ChangedFiles,
    workspace: PathBuf,
    /// The reason why the model has no reply.
    invalid: Option<String>,
}

impl CaseRunner<'_> {
    /// Runs a case, again if the model does not reply, and grades it.
    pub(crate) async fn run_case(
        &self,
        case: &PlannedCase,
        planned: PlannedRun,
        serial: u64,
    ) -> Result<FinishedRun, RunStop> {
        let started = Instant::now();
        let mut spent = SpentAmounts::default();
        // Each attempt has a workspace of its own: an earlier one may have left files.
        let mut attempt = self.attempt(case, serial * u64::from(MAX_ATTEMPTS)).await?;
        spent.add(attempt.run.spent);
        for number in 1..MAX_ATTEMPTS {
            if attempt.invalid.is_none() {
                break;
            }
            let serial = serial * u64::from(MAX_ATTEMPTS) + u64::from(number);
            attempt = self.attempt(case, serial).await?;
            spent.add(attempt.run.spent);
        }
        let duration = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut provenance =
            RunProvenance { outcome: RunValidity::Valid, ..self.provenance.clone() };
        let results = match (&attempt.invalid, &case.output) {
            (Some(reason), _) => {
                provenance.outcome = RunValidity::Invalid;
                provenance.reason = Some(reason.clone());
                Vec::new()
            }
            (None, Some(output)) => {
                let run = GradedRun {
                    seen: &attempt.seen,
                    lines: &attempt.run.lines,
                    files: &attempt.files.texts(),
                    workspace: &attempt.workspace,
                };
                match self.grader.grade(output, run, &mut spent).await {
                    Ok(results) => results,
                    Err(GradingStop::Spending(stop)) => return Err(RunStop::Spending(stop)),
                    Err(GradingStop::Judge(reason)) => {
                        attempt.invalid = Some(reason.clone());
                        provenance.outcome = RunValidity::Invalid;
                        provenance.reason = Some(reason);
                        Vec::new()
                    }
                }
            }
            (None, None) => vec![self.grade_query(case, &attempt)],
        };
        // A run whose sentences were all skipped has no rate, and 0 would be one.
        let is_graded = results.iter().any(|result| result.passed.is_some());
        if attempt.invalid.is_none() && !is_graded {
            provenance.outcome = RunValidity::Ungraded;
            provenance.reason = Some("no assertion was checked".to_owned());
        }
        let cost = (spent.requests > 0).then_some(spent.usd).flatten();
        let report = ModelRunReport {
            number: planned.number,
            grading: GradingFile::new(results, attempt.metrics, provenance),
            timing: RunTiming::new(spent.tokens, duration, cost),
        };
        Ok(FinishedRun { report, lines: attempt.run.lines, outputs: attempt.files.all })
    }

    /// Grades a query: whether the skill was read as expected.
    fn grade_query(&self, case: &PlannedCase, attempt: &Attempt) -> AssertionResult {
        let (id, is_expected) = (self.skill_id, case.kind == ModelCaseKind::Positive);
        let text = match is_expected {
            true => format!("reads {id}"),
            false => format!("does not read {id}"),
        };
        let evidence = match attempt.triggered {
            true => format!("{id} was read in request {}", attempt.run.requests),
            false => format!("{id} was not read in {} requests", attempt.run.requests),
        };
        AssertionResult::checked(text, attempt.triggered == is_expected, evidence)
    }

    async fn attempt(&self, case: &PlannedCase, serial: u64) -> Result<Attempt, RunStop> {
        let inputs: Vec<String> =
            case.output.as_ref().map(|output| output.files.clone()).unwrap_or_default();
        let (path, skill) = (self.overlay.workspace_path(serial), self.skill_directory.to_owned());
        let made = spawn_blocking(move || RunWorkspace::create(path, &skill, &inputs)).await;
        let workspace = Arc::new(made.map_err(EvalError::from)??);
        let cancel = CancellationToken::new();
        self.overlay.models.start_run(WatchLimits {
            skill_id: self.skill_id.to_owned(),
            max_requests: case.output.is_none().then_some(MAX_TRIGGER_REQUESTS),
            cancel: cancel.clone(),
        });
        let agent = case.agent.as_deref().unwrap_or(self.agent);
        let mut thread = Thread::in_memory(agent);
        let channel = Arc::new(RunChannel::default());
        let request = RunRequest {
            prompt: case.text.clone(),
            cancel,
            workspaces: vec![Workspace {
                label: WORKSPACE.to_owned(),
                path: workspace.path().to_owned(),
                access: WorkspaceAccess::Write,
            }],
            ..RunRequest::default()
        };
        let agents = self.overlay.kernel.agents();
        let ended = agents.run_agent(&mut thread, request, Arc::clone(&channel) as _).await;
        let run = self.overlay.models.finish_run();
        // Before the error of the run, which only repeats the reason.
        if let Some(stop) = run.stop {
            return Err(RunStop::Spending(stop));
        }
        let calls = channel.seen();
        let is_active = thread.active_skills().iter().any(|skill| skill.skill_id == self.skill_id);
        let triggered =
            run.has_read || is_active || calls.active.iter().any(|id| id == self.skill_id);
        let (answer, invalid) = match ended {
            Ok(outcome) => (outcome.text, None),
            // A query ends with its trigger, or after its last request.
            Err(RunError::Cancelled) => (String::new(), None),
            // The request after the last one was not sent.
            Err(RunError::Model(_)) if run.is_over => (String::new(), None),
            Err(error) => (String::new(), self.to_invalid(agent, error)?),
        };
        let read = {
            let workspace = Arc::clone(&workspace);
            spawn_blocking(move || workspace.read_changes()).await
        };
        let (files, invalid) = match read.map_err(EvalError::from)? {
            Ok(files) => (files, invalid),
            // A link or a pipe that a program left.
            Err(error) => {
                (ChangedFiles::default(), invalid.or_else(|| Some(format!("workspace: {error}"))))
            }
        };
        let seen = RunObservations {
            answer,
            created: files.created.clone(),
            modified: files.modified.clone(),
            commands: run.has_command_tool.then_some(calls.commands),
        };
        let workspace = workspace.path().to_owned();
        Ok(Attempt { run, triggered, metrics: calls.metrics, seen, files, workspace, invalid })
    }

    /// Decides about an error of a run: one of the provider makes it invalid, one of the settings ends
    /// all runs, and a model that does not finish has failed.
    fn to_invalid(&self, agent: &str, error: RunError) -> Result<Option<String>, RunStop> {
        match error {
            RunError::Model(error) => match error.kind {
                ModelErrorKind::Unknown | ModelErrorKind::Key => {
                    Err(RunStop::Error(EvalError::Model(error)))
                }
                _ => Ok(Some(error.to_string())),
            },
            RunError::EmptyReply { .. } => Ok(Some(error.to_string())),
            // The model had its turns; that it did not finish is a result.
            RunError::Budget { .. } | RunError::Loop { .. } | RunError::ContextOverflow { .. } => {
                Ok(None)
            }
            other => Err(RunStop::Error(EvalError::Agent {
                agent: agent.to_owned(),
                reason: other.to_string(),
            })),
        }
    }
}
