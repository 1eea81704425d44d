//! The optimization of a skill: runs of the installed text, candidates of the model, and their runs.
//!
//! The rounds are decided in `skill_evals`; this module makes the requests and the runs. All of them
//! spend from one budget. No proposal is recorded here: the report has the text that deserves one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use skill_evals::{
    CaseSplit, ComparisonArm, HeldOutTexts, ModelCaseKind, ModelCaseReport, ModelReport,
    OptimizationEnd, OptimizationReport, OptimizationStep, PairedReport, SkillOptimization,
    StopReason, TrainFailure, is_confirmed, read_skill_edit, reflection_instructions,
    render_reflection,
};
use skill_testing::{BaselineVersion, ModelTestRequest, OptimizationRequest, ScreenedCandidate};
use skillhost_control::DEFAULT_AGENT;
use skillhost_conversation::{Message, ModelErrorKind, ModelProvider, ModelRequest};
use skillhost_core::spawn_blocking;
use skillhost_files::{DirectoryLock, TreeFile, files_digest};

use crate::error::EvalError;
use crate::optimization_directory::{OptimizationDirectory, OptimizationPlan, StoredReflection};
use crate::overlay::EvalEnvironment;
use crate::results::read_last_answer;
use crate::runner::{digest_roots, run_iteration};
use crate::spending::SpendingMeter;
use crate::watched_model::{MAX_ATTEMPTS, request_metered};

/// The runs of each case and text that confirm a gain, without another number.
const CONFIRMATION_RUNS: u32 = 6;

/// The part of the seed that the confirmation changes, so that its order is another one.
const FRESH_SEED: u64 = 0x5eed_0000_0000_0001;

/// An error that ends an optimization without a report.
#[derive(Debug)]
pub enum OptimizationError<E> {
    /// The runs.
    Eval(EvalError),
    /// The checks of a candidate could not be made.
    Screen(E),
}

impl<E> From<EvalError> for OptimizationError<E> {
    fn from(error: EvalError) -> Self {
        Self::Eval(error)
    }
}

/// The state of a running optimization.
struct SkillOptimizer<'a> {
    environment: &'a EvalEnvironment<'a>,
    request: &'a OptimizationRequest,
    model: Arc<dyn ModelProvider>,
    meter: Arc<SpendingMeter>,
    directory: OptimizationDirectory,
    held_out: HeldOutTexts,
    state: SkillOptimization,
    failures: Vec<TrainFailure>,
    _lock: DirectoryLock,
}

/// The result of an iteration that may end the optimization.
enum IterationOutcome {
    Report(Box<ModelReport>),
    End(OptimizationEnd),
}

/// The reply to a request for a candidate.
enum ReflectionOutcome {
    Reply(String),
    End(OptimizationEnd),
}

/// Optimizes a skill. `screen` makes the checks of a candidate that need no model; it is called on a
/// thread of the runtime, while no kernel runs.
///
/// # Errors
/// The runs of the installed text cannot be made, or a check failed. A budget that is spent and a
/// harness that breaks later are the end of the report.
pub async fn optimize_skill<E>(
    environment: &EvalEnvironment<'_>,
    request: &OptimizationRequest,
    screen: &dyn Fn(&str) -> Result<ScreenedCandidate, E>,
) -> Result<OptimizationReport, OptimizationError<E>> {
    let mut optimizer = SkillOptimizer::prepare(environment, request).await?;
    let measured = optimizer.measure().await?;
    let (train_failures, mut confirmation) = (optimizer.failures.len(), None);
    let end = match measured {
        Some(end) => end,
        None => loop {
            match optimizer.state.next_step(optimizer.failures.len()) {
                OptimizationStep::Stop(reason) => break OptimizationEnd::NoImprovement { reason },
                OptimizationStep::Confirm => {
                    let (report, end) = optimizer.confirm().await?;
                    confirmation = report;
                    break end;
                }
                OptimizationStep::Reflect => {
                    if let Some(end) = optimizer.make_round(screen).await? {
                        break end;
                    }
                }
            }
        },
    };
    Ok(optimizer.finish(train_failures, confirmation, end))
}

impl<'a> SkillOptimizer<'a> {
    async fn prepare(
        environment: &'a EvalEnvironment<'a>,
        request: &'a OptimizationRequest,
    ) -> Result<Self, EvalError> {
        let test = &request.test;
        let agent = test.agent.as_deref().or(test.cases.settings.agent.as_deref());
        let agent = agent.unwrap_or(DEFAULT_AGENT);
        let model = environment.models.resolve_model(Some(&test.model), agent)?;
        let judge = test.judge.as_deref();
        let judge = judge.map(|name| environment.models.resolve_model(Some(name), agent));
        let judge = judge.transpose()?;
        let mut models = std::iter::once(&model).chain(&judge);
        // Before a directory is made for results that cannot be paid.
        if test.budget.usd.is_some()
            && let Some(model) = models.find(|model| model.metadata().price.is_none())
        {
            return Err(EvalError::UnknownPrice { model: model.metadata().name.clone() });
        }
        let plan = OptimizationPlan {
            part: request.part.as_str().to_owned(),
            skill: format!("sha256:{}", files_digest(&test.files)),
            cases: test.cases.digest(),
            catalog: digest_roots(test).await?,
            model: model.metadata().name.clone(),
            judge: judge.as_ref().map(|judge| judge.metadata().name.clone()),
            agent: agent.to_owned(),
            seed: test.seed,
            runs: test.runs,
        };
        let (results, budget) = (test.results.clone(), test.budget);
        let opened = spawn_blocking(move || {
            let (directory, lock) = OptimizationDirectory::open(&results, &plan)?;
            let meter = SpendingMeter::open(directory.path(), budget)?;
            Ok::<_, EvalError>((directory, meter, lock))
        });
        let (directory, meter, lock) = opened.await??;
        let state =
            SkillOptimization::new(request.text.clone(), request.rounds, request.rejected.clone());
        Ok(Self {
            environment,
            request,
            model,
            meter,
            directory,
            held_out: test.cases.held_out_texts(&request.text),
            state,
            failures: request.failures.clone(),
            _lock: lock,
        })
    }

    /// Returns the files of the skill with a text of its SKILL.md.
    fn files_with(&self, text: &str) -> Vec<TreeFile> {
        let mut files = self.request.test.files.clone();
        for file in &mut files {
            if file.path == self.request.path {
                file.bytes = text.as_bytes().to_vec();
            }
        }
        files
    }

    /// Runs the train cases with the installed text.
    async fn measure(&mut self) -> Result<Option<OptimizationEnd>, EvalError> {
        let mut test = ModelTestRequest {
            files: self.files_with(self.state.installed()),
            baseline: BaselineVersion::Unused,
            results: self.directory.path().to_owned(),
            ..self.request.test.clone()
        };
        // The runs of held-out cases would show nothing that a request may have.
        test.cases.retain_split(CaseSplit::Train);
        let report = run_iteration(self.environment, &test, Some(&self.meter)).await?;
        if let Some(reason) = &report.stopped {
            return Ok(Some(OptimizationEnd::Budget { reason: reason.clone() }));
        }
        if !report.cases.iter().any(|case| case.rate.is_some()) {
            return Ok(Some(OptimizationEnd::Harness { reason: describe_invalid(&report) }));
        }
        let more = self.find_failures(&report).await?;
        merge_failures(&mut self.failures, more);
        Ok(None)
    }

    /// Makes a round: a request, the checks of its candidate, and the runs.
    async fn make_round<E>(
        &mut self,
        screen: &dyn Fn(&str) -> Result<ScreenedCandidate, E>,
    ) -> Result<Option<OptimizationEnd>, OptimizationError<E>> {
        let part = self.request.part;
        let reply = match self.reflect().await? {
            ReflectionOutcome::Reply(reply) => reply,
            ReflectionOutcome::End(end) => return Ok(Some(end)),
        };
        let edit = read_skill_edit(part, &reply, self.state.current());
        let Some(edit) = self.state.take_reply(edit) else { return Ok(None) };
        let mut failures = match screen(&edit.text).map_err(OptimizationError::Screen)? {
            ScreenedCandidate::Accepted { failures } => failures,
            ScreenedCandidate::Rejected { reason, visible } => {
                self.state.reject(edit, reason, visible);
                return Ok(None);
            }
        };
        let test = self.comparison(&edit.text, self.state.current());
        let report = match self.run(&test).await? {
            IterationOutcome::Report(report) => report,
            IterationOutcome::End(end) => return Ok(Some(end)),
        };
        let Some(comparison) = find_comparison(&report) else {
            return Ok(Some(OptimizationEnd::Harness { reason: describe_invalid(&report) }));
        };
        if self.state.assess(edit, comparison) {
            // Its train runs are those of the comparison, so that they cost no more.
            merge_failures(&mut failures, self.find_failures(&report).await?);
            self.failures = failures;
        }
        Ok(None)
    }

    /// Runs the last kept candidate and the installed text once more.
    async fn confirm(&mut self) -> Result<(Option<PairedReport>, OptimizationEnd), EvalError> {
        let test = ModelTestRequest {
            runs: self.request.test.runs.or(Some(CONFIRMATION_RUNS)),
            seed: self.request.test.seed ^ FRESH_SEED,
            ..self.comparison(self.state.current(), self.state.installed())
        };
        let report = match self.run(&test).await? {
            IterationOutcome::Report(report) => report,
            IterationOutcome::End(end) => return Ok((None, end)),
        };
        let Some(comparison) = find_comparison(&report) else {
            return Ok((None, OptimizationEnd::Harness { reason: describe_invalid(&report) }));
        };
        let end = match is_confirmed(&comparison) {
            true => OptimizationEnd::Improved,
            false => OptimizationEnd::NoImprovement { reason: StopReason::NotConfirmed },
        };
        Ok((Some(comparison), end))
    }

    fn comparison(&self, new: &str, base: &str) -> ModelTestRequest {
        ModelTestRequest {
            files: self.files_with(new),
            baseline: BaselineVersion::Version(self.files_with(base)),
            results: self.directory.path().to_owned(),
            ..self.request.test.clone()
        }
    }

    /// Makes the runs of a comparison. A budget or a harness that fails now is an end: the rounds
    /// before it were measured.
    async fn run(&self, test: &ModelTestRequest) -> Result<IterationOutcome, EvalError> {
        let end = match run_iteration(self.environment, test, Some(&self.meter)).await {
            Ok(ModelReport { stopped: Some(reason), .. }) => OptimizationEnd::Budget { reason },
            Ok(report) => return Ok(IterationOutcome::Report(Box::new(report))),
            Err(error @ EvalError::Budget { .. }) => {
                OptimizationEnd::Budget { reason: error.to_string() }
            }
            Err(error @ EvalError::Harness { .. }) => {
                OptimizationEnd::Harness { reason: error.to_string() }
            }
            Err(error) => return Err(error),
        };
        Ok(IterationOutcome::End(end))
    }

    /// Requests a candidate, again if the model does not reply. A request that an interrupted
    /// optimization made has its reply in the directory.
    async fn reflect(&self) -> Result<ReflectionOutcome, EvalError> {
        let (part, test) = (self.request.part, &self.request.test);
        let skill = (test.cases.skill_id.as_str(), self.state.current());
        let rejected = self.state.rejected();
        let text = render_reflection(part, skill, &self.failures, rejected, &self.held_out);
        let (system, round) = (reflection_instructions(part), self.state.rounds().len() + 1);
        let (directory, asked) = (self.directory.clone(), (system.clone(), text.clone()));
        let stored = spawn_blocking(move || directory.find_reply(round, &asked.0, &asked.1));
        if let Some(reply) = stored.await? {
            return Ok(ReflectionOutcome::Reply(reply));
        }
        let request = ModelRequest {
            system: system.clone(),
            messages: vec![Message::User { text: text.clone() }],
            // Without tools, the texts of a skill cannot lead to an action.
            ..ModelRequest::default()
        };
        let mut last = String::new();
        for _ in 0..MAX_ATTEMPTS {
            let model = &*self.model;
            let sent =
                request_metered(&self.meter, model, &request, &mut |_| (), &mut |_| ()).await;
            match sent {
                Err(stop) => {
                    let end = OptimizationEnd::Budget { reason: stop.reason };
                    return Ok(ReflectionOutcome::End(end));
                }
                Ok(Ok(reply)) => {
                    let (directory, reply) = (self.directory.clone(), reply.text);
                    let reflection =
                        StoredReflection { system, message: text, reply: reply.clone() };
                    let stored = spawn_blocking(move || directory.store_reply(round, &reflection));
                    stored.await??;
                    return Ok(ReflectionOutcome::Reply(reply));
                }
                Ok(Err(error)) => match error.kind {
                    ModelErrorKind::Unknown | ModelErrorKind::Key => {
                        return Err(EvalError::Model(error));
                    }
                    _ => last = error.to_string(),
                },
            }
        }
        let reason = format!("the model has no reply to the request for a candidate: {last}");
        Ok(ReflectionOutcome::End(OptimizationEnd::Harness { reason }))
    }

    /// Returns the train cases of a report with a failed run.
    async fn find_failures(&self, report: &ModelReport) -> Result<Vec<TrainFailure>, EvalError> {
        let expectations: BTreeMap<String, String> = self
            .request
            .test
            .cases
            .outputs
            .iter()
            .filter_map(|loaded| Some((loaded.name.clone(), loaded.case.expected_output.clone()?)))
            .collect();
        let own = report
            .cases
            .iter()
            .filter(|case| case.arm == ComparisonArm::WithSkill && case.split == CaseSplit::Train);
        let cases: Vec<ModelCaseReport> = own.cloned().collect();
        let directory = PathBuf::from(&report.directory);
        let found = spawn_blocking(move || {
            let describe =
                |case: &ModelCaseReport| describe_failure(case, &directory, &expectations);
            cases.iter().filter_map(describe).collect()
        });
        Ok(found.await?)
    }

    fn finish(
        self,
        train_failures: usize,
        confirmation: Option<PairedReport>,
        end: OptimizationEnd,
    ) -> OptimizationReport {
        let test = &self.request.test;
        let (train_cases, _) = test.cases.count_split(CaseSplit::Train);
        let (held_out_cases, is_visible) = test.cases.count_split(CaseSplit::HeldOut);
        let is_improved = end == OptimizationEnd::Improved;
        OptimizationReport {
            skill_id: test.cases.skill_id.clone(),
            part: self.request.part,
            model: self.model.metadata().name.clone(),
            judge: test.judge.clone(),
            seed: test.seed,
            directory: self.directory.path().display().to_string(),
            is_resumed: self.directory.is_resumed(),
            train_cases,
            held_out_cases,
            is_visible,
            train_failures,
            rounds: self.state.rounds().to_vec(),
            confirmation,
            end,
            text: is_improved.then(|| self.state.current().to_owned()),
            proposal: None,
            spent: self.meter.spent(),
        }
    }
}

/// Returns the comparison of a report; `None` if no case has a valid run in both arms.
fn find_comparison(report: &ModelReport) -> Option<PairedReport> {
    let comparison = report.comparison.clone()?;
    (comparison.train.pairs > 0 && comparison.held_out.pairs > 0).then_some(comparison)
}

/// Describes why no run of a report counts.
fn describe_invalid(report: &ModelReport) -> String {
    let mut runs = report.cases.iter().flat_map(|case| &case.runs);
    let reason = runs.find_map(|run| run.grading.skillhost.reason.clone());
    format!("no run is valid: {}", reason.unwrap_or_else(|| "none was made".to_owned()))
}

/// Adds failures; those of an input that has one already are joined with it.
fn merge_failures(failures: &mut Vec<TrainFailure>, more: Vec<TrainFailure>) {
    for failure in more {
        match failures.iter_mut().find(|known| known.input == failure.input) {
            Some(known) => {
                known.expected = format!("{}; {}", known.expected, failure.expected);
                known.happened = format!("{}; {}", known.happened, failure.happened);
            }
            None => failures.push(failure),
        }
    }
}

/// Describes the failed runs of a case; `None` if every valid run passed. Blocks.
fn describe_failure(
    case: &ModelCaseReport,
    directory: &Path,
    expectations: &BTreeMap<String, String>,
) -> Option<TrainFailure> {
    let mut failed = case.runs.iter().filter(|run| run.is_valid() && !run.passed());
    let first = failed.next()?;
    let count = failed.count() + 1;
    let all = case.runs.iter().filter(|run| run.is_valid()).count();
    let (expected, happened) = match case.kind {
        ModelCaseKind::Positive => (
            "the assistant reads the skill".to_owned(),
            format!("it did not read it in {count} of {all} runs"),
        ),
        ModelCaseKind::Negative => (
            "the assistant does not read the skill".to_owned(),
            format!("it read it in {count} of {all} runs"),
        ),
        ModelCaseKind::Output => {
            let results = &first.grading.assertion_results;
            let missed: Vec<_> =
                results.iter().filter(|result| result.passed == Some(false)).collect();
            let list = |texts: Vec<&str>| texts.join("; ");
            let mut expected = list(missed.iter().map(|result| result.text.as_str()).collect());
            if let Some(output) = expectations.get(&case.case) {
                expected = format!("{output}; {expected}");
            }
            let evidence = list(missed.iter().map(|result| result.evidence.as_str()).collect());
            let answer = read_last_answer(directory, case, first.number).unwrap_or_default();
            (expected, format!("failed in {count} of {all} runs: {evidence}; answer: {answer}"))
        }
    };
    Some(TrainFailure { input: case.text.clone(), expected, happened })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_one_input_are_joined() {
        let failure = |input: &str, happened: &str| TrainFailure {
            input: input.to_owned(),
            expected: "offered".to_owned(),
            happened: happened.to_owned(),
        };
        let mut all = vec![failure("greet Ada", "ranked 4")];
        merge_failures(&mut all, vec![failure("greet Ada", "not read"), failure("bow", "read")]);
        assert_eq!(all.len(), 2);
        assert_eq!((&*all[0].happened, &*all[1].input), ("ranked 4; not read", "bow"));
    }
}
