//! The runs of a skill's cases, one after the other, and their report.

use std::collections::BTreeSet;
use std::sync::Arc;

use skill_catalog::{Store, StoreOptions, SystemClock};
use skill_evals::{
    ArmFigures, BenchmarkFile, BenchmarkMetadata, BenchmarkResult, BenchmarkRun, BenchmarkSummary,
    ComparisonArm, ModelCaseKind, ModelCaseReport, ModelDigests, ModelReport, ModelRunReport,
    PAIRED_LOOKS, PairedReport, RunProvenance, RunValidity, SpentAmounts, assess_pairs,
};
use skill_testing::{BaselineVersion, ModelTestRequest, digest_catalog};
use skillhost_control::DEFAULT_AGENT;
use skillhost_conversation::ModelProvider;
use skillhost_core::spawn_blocking;
use skillhost_files::{DirectoryLock, files_digest};

use crate::case_run::{CaseRunner, RunStop};
use crate::controls::{ControlReport, run_controls};
use crate::error::EvalError;
use crate::grader::RunGrader;
use crate::overlay::{EvalEnvironment, OverlayKernel, OverlaySkill};
use crate::planned_run::{ArmPlan, PlannedCase, PlannedRun, plan_cases, plan_runs};
use crate::results::{IterationDirectory, IterationPlan, IterationReuse};
use crate::spending::SpendingMeter;
use crate::watched_model::WatchedModels;
use crate::workspace_files::RunWorkspace;

/// The inputs of all runs of an iteration.
struct IterationSetup<'a> {
    request: &'a ModelTestRequest,
    cases: Vec<PlannedCase>,
    arms: ArmPlan,
    agent: String,
    threshold: f64,
    /// The numbers of runs after which the arms are compared.
    looks: Vec<u32>,
    model: Arc<dyn ModelProvider>,
    judge: Option<Arc<dyn ModelProvider>>,
    directory: Arc<IterationDirectory>,
    meter: Arc<SpendingMeter>,
    plan: IterationPlan,
    _lock: DirectoryLock,
}

/// The kernels of an iteration.
struct ArmKernels {
    with: OverlayKernel,
    /// The other arm; a home without the skill, if no prompt is compared.
    base: OverlayKernel,
    /// The home of a control, if no arm is one without the skill.
    without: Option<OverlayKernel>,
}

/// Runs the cases of a skill with a model and stores the results. The runs of an iteration that was
/// interrupted are not repeated.
///
/// # Errors
/// [`EvalError`] if no result would mean anything: the model or the agent cannot be used, the controls
/// fail, or the budget is too small for a single run of each case. A budget that is spent later ends
/// the runs, and the report has the results until then.
pub async fn run_model_tests(
    environment: &EvalEnvironment<'_>,
    request: &ModelTestRequest,
) -> Result<ModelReport, EvalError> {
    run_iteration(environment, request, None).await
}

/// Makes the runs of an iteration. Those of an optimization spend from its `meter`, others from a budget of
/// their own.
///
/// # Errors
/// Fails as [`run_model_tests`] does.
pub(crate) async fn run_iteration(
    environment: &EvalEnvironment<'_>,
    request: &ModelTestRequest,
    meter: Option<&Arc<SpendingMeter>>,
) -> Result<ModelReport, EvalError> {
    let setup = IterationSetup::prepare(environment, request, meter).await?;
    let kernels = setup.boot_kernels(environment).await?;
    let outcome = setup.run_arms(&kernels).await;
    kernels.shut_down().await;
    let (comparison, stopped, notes) = outcome?;
    let cases = setup.load_reports().await?;
    setup.finish(cases, comparison, stopped, notes).await
}

impl<'a> IterationSetup<'a> {
    async fn prepare(
        environment: &EvalEnvironment<'_>,
        request: &'a ModelTestRequest,
        shared: Option<&Arc<SpendingMeter>>,
    ) -> Result<Self, EvalError> {
        let suite = &request.cases.settings;
        let agent = request.agent.clone().or_else(|| suite.agent.clone());
        let agent = agent.unwrap_or_else(|| DEFAULT_AGENT.to_owned());
        let resolve = |name: &str| environment.models.resolve_model(Some(name), &agent);
        let model = resolve(&request.model)?;
        let judge = request.judge.as_deref().map(resolve).transpose()?;
        if request.budget.usd.is_some() {
            let unpriced = std::iter::once(&model)
                .chain(&judge)
                .find(|model| model.metadata().price.is_none());
            if let Some(model) = unpriced {
                let model = model.metadata().name.clone();
                return Err(EvalError::UnknownPrice { model });
            }
        }
        let runs = request.runs.unwrap_or(suite.runs);
        let (arm, baseline, looks) = match &request.baseline {
            BaselineVersion::Unused => {
                (ComparisonArm::WithoutSkill, "unused".to_owned(), vec![runs])
            }
            BaselineVersion::Without => {
                (ComparisonArm::WithoutSkill, "without".to_owned(), vec![runs])
            }
            BaselineVersion::Version(files) => {
                let looks = match request.runs {
                    Some(runs) => vec![runs],
                    None => PAIRED_LOOKS.iter().filter_map(|it| u32::try_from(*it).ok()).collect(),
                };
                (ComparisonArm::OldSkill, format!("sha256:{}", files_digest(files)), looks)
            }
        };
        let arms = ArmPlan {
            baseline: arm,
            is_compared: !matches!(request.baseline, BaselineVersion::Unused),
        };
        let cases = plan_cases(&request.cases);
        // Before the lock, because a catalog may be large.
        let catalog = digest_roots(request).await?;
        let plan = IterationPlan {
            skill: format!("sha256:{}", files_digest(&request.files)),
            baseline,
            cases: request.cases.digest(),
            selected: cases.iter().map(|case| case.name.clone()).collect(),
            catalog,
            model: model.metadata().name.clone(),
            judge: judge.as_ref().map(|judge| judge.metadata().name.clone()),
            agent: agent.clone(),
            seed: request.seed,
            runs: request.runs,
            has_scripts: request.scripts.is_some(),
        };
        let (results, stored, budget) = (request.results.clone(), plan.clone(), request.budget);
        let shared = shared.cloned();
        let opened = spawn_blocking(move || {
            let reuse = match shared {
                // Of an optimization, which may have been interrupted after this iteration.
                Some(_) => IterationReuse::Any,
                None => IterationReuse::Unfinished,
            };
            let (directory, lock) = IterationDirectory::open(&results, &stored, reuse)?;
            let meter = match shared {
                Some(meter) => meter,
                None => SpendingMeter::open(directory.path(), budget)?,
            };
            Ok::<_, EvalError>((Arc::new(directory), meter, lock))
        });
        let (directory, meter, lock) = opened.await??;
        // Not a part of the plan: it only interprets the runs.
        let threshold = request.threshold.unwrap_or(suite.threshold);
        Ok(Self {
            request,
            cases,
            arms,
            agent,
            threshold,
            looks,
            model,
            judge,
            directory,
            meter,
            plan,
            _lock: lock,
        })
    }

    async fn boot_kernels(
        &self,
        environment: &EvalEnvironment<'_>,
    ) -> Result<ArmKernels, EvalError> {
        let request = self.request;
        let boot = async |files| {
            let models = WatchedModels::new(Arc::clone(&self.model), Arc::clone(&self.meter));
            let skill = OverlaySkill { id: &request.cases.skill_id, files, roots: &request.roots };
            environment.boot_overlay(skill, &request.cases.settings, models).await
        };
        let with = boot(Some(&request.files[..])).await?;
        let (base, without) = match &request.baseline {
            // The control of an unused baseline needs a home without the skill as well.
            BaselineVersion::Unused | BaselineVersion::Without => (boot(None).await?, None),
            BaselineVersion::Version(files) => {
                (boot(Some(&files[..])).await?, Some(boot(None).await?))
            }
        };
        Ok(ArmKernels { with, base, without })
    }

    /// Runs the controls of an agent with the skill and without it.
    async fn run_agent_controls(
        &self,
        kernels: &ArmKernels,
        agent: &str,
    ) -> Result<ControlReport, EvalError> {
        let id = &self.request.cases.skill_id;
        let control = async |overlay| run_controls(overlay, agent, id, &self.model).await;
        let with = control(&kernels.with).await?;
        let without = control(kernels.without.as_ref().unwrap_or(&kernels.base)).await?;
        ControlReport::check(&with, &without, id)?;
        let is_expected = |case: &PlannedCase| {
            case.kind == ModelCaseKind::Positive
                && case.agent.as_deref().unwrap_or(&self.agent) == agent
        };
        if !with.is_read && self.cases.iter().any(is_expected) {
            let reason = format!("`{agent}` cannot read `{id}`, but queries expect it");
            return Err(EvalError::Harness { reason });
        }
        Ok(with)
    }

    /// Creates the workspace of each case once, so that a missing input is found before any request.
    async fn check_inputs(&self, overlay: &OverlayKernel) -> Result<(), EvalError> {
        for (serial, case) in (0_u64..).zip(&self.cases) {
            let Some(output) = case.output.as_ref().filter(|it| !it.files.is_empty()) else {
                continue;
            };
            // Far above the serial numbers of runs.
            let path = overlay.workspace_path(u64::MAX - serial);
            let (skill, inputs) = (self.request.directory.clone(), output.files.clone());
            spawn_blocking(move || RunWorkspace::create(path, &skill, &inputs).map(drop)).await??;
        }
        Ok(())
    }

    /// Runs the controls, then the cases until the arms differ beyond the noise.
    async fn run_arms(
        &self,
        kernels: &ArmKernels,
    ) -> Result<(Option<PairedReport>, Option<String>, Vec<String>), EvalError> {
        let id = &self.request.cases.skill_id;
        self.check_inputs(&kernels.with).await?;
        let with = self.run_agent_controls(kernels, &self.agent).await?;
        // The agents of single cases as well: the controls are free, the runs are not.
        let named = self.cases.iter().filter_map(|case| case.agent.as_deref());
        for agent in named.filter(|agent| *agent != self.agent).collect::<BTreeSet<_>>() {
            self.run_agent_controls(kernels, agent).await?;
        }
        let mut notes = Vec::new();
        if !with.is_activated {
            notes.push(format!("a user cannot invoke `{id}`"));
        }
        let finished = self.check_budget(with.first_tokens).await?;
        if self.directory.is_resumed() && finished > 0 {
            notes.push("finished runs of an interrupted iteration were kept".to_owned());
        }
        let (mut first, mut comparison) = (1, None);
        for look in &self.looks {
            let runs = plan_runs(&self.cases, self.arms, first..=*look, self.request.seed);
            for run in runs {
                match self.run_if_missing(kernels, run).await {
                    Ok(()) => {}
                    Err(RunStop::Error(error)) => return Err(error),
                    Err(RunStop::Spending(stop)) => {
                        return Ok((comparison, Some(stop.reason), notes));
                    }
                }
            }
            let pairs = ModelReport::paired_cases(&self.load_reports().await?);
            if !pairs.is_empty() {
                let report = assess_pairs(&pairs, usize::try_from(*look).unwrap_or(usize::MAX));
                let is_decided = report.verdict.is_some();
                comparison = Some(report);
                if is_decided {
                    break;
                }
            }
            first = look + 1;
        }
        Ok((comparison, None, notes))
    }

    /// Checks that the budget suffices for one request of each run that is left. Returns the number
    /// of the runs that are finished.
    async fn check_budget(&self, tokens: u64) -> Result<u64, EvalError> {
        let last = self.looks.first().copied().unwrap_or(1);
        let runs = plan_runs(&self.cases, self.arms, 1..=last, self.request.seed);
        // Finished runs of a resumed iteration cost no more.
        let (mut left, mut finished) = (0_u64, 0_u64);
        for run in runs {
            match self.load_run(run).await? {
                Some(_) => finished += 1,
                None => left += 1,
            }
        }
        let tokens = tokens.saturating_mul(left);
        let usd = self.model.metadata().price.map(|price| tokens as f64 * price.input / 1e6);
        let estimate = SpentAmounts { requests: left, tokens, usd };
        if left > 0
            && let Err(stop) = self.meter.check(estimate)
        {
            let cost = usd.map(|usd| format!(", ${usd:.4}")).unwrap_or_default();
            let estimate =
                format!("at least {left} requests with {tokens} tokens{cost}; {}", stop.reason);
            return Err(EvalError::Budget { estimate });
        }
        Ok(finished)
    }

    async fn load_run(&self, run: PlannedRun) -> Result<Option<ModelRunReport>, EvalError> {
        let (directory, case) = (Arc::clone(&self.directory), self.cases[run.case].clone());
        spawn_blocking(move || directory.load_run(&case, run)).await?
    }

    async fn run_if_missing(&self, kernels: &ArmKernels, run: PlannedRun) -> Result<(), RunStop> {
        if self.load_run(run).await?.is_some() {
            return Ok(());
        }
        let case = &self.cases[run.case];
        let is_with = run.arm == ComparisonArm::WithSkill;
        let skill = match (is_with, self.arms.baseline) {
            (true, _) => Some(self.plan.skill.clone()),
            (false, ComparisonArm::WithoutSkill) => None,
            (false, _) => Some(self.plan.baseline.clone()),
        };
        let grader = RunGrader {
            judge: self.judge.clone(),
            meter: Arc::clone(&self.meter),
            scripts: self.request.scripts.clone(),
        };
        let runner = CaseRunner {
            overlay: if is_with { &kernels.with } else { &kernels.base },
            grader: &grader,
            skill_id: &self.request.cases.skill_id,
            skill_directory: &self.request.directory,
            agent: &self.agent,
            provenance: RunProvenance {
                skill,
                cases: self.plan.cases.clone(),
                catalog: self.plan.catalog.clone(),
                model: self.plan.model.clone(),
                judge: self.plan.judge.clone(),
                seed: self.request.seed,
                outcome: RunValidity::Valid,
                reason: None,
            },
        };
        // The runs of a case are apart by their numbers.
        let serial = run.case as u64 * 1_000 + u64::from(run.number);
        let finished = runner.run_case(case, run, serial).await?;
        let (directory, case) = (Arc::clone(&self.directory), case.clone());
        // Written before the next run starts, so that a kill loses one run at most.
        let stored = spawn_blocking(move || directory.store_run(&case, run.arm, &finished));
        Ok(stored.await.map_err(EvalError::from)??)
    }

    /// Reads all finished runs.
    async fn load_reports(&self) -> Result<Vec<ModelCaseReport>, EvalError> {
        let last = self.looks.last().copied().unwrap_or(1);
        let mut reports = Vec::new();
        for (index, case) in self.cases.iter().enumerate() {
            for arm in case.arms(self.arms) {
                let mut runs = Vec::new();
                for number in 1..=last {
                    runs.extend(self.load_run(PlannedRun { case: index, arm, number }).await?);
                }
                let names = (case.name.clone(), case.text.clone());
                reports.push(ModelCaseReport::new(
                    names,
                    case.kind,
                    case.split,
                    arm,
                    runs,
                    self.threshold,
                ));
            }
        }
        Ok(reports)
    }

    async fn finish(
        &self,
        cases: Vec<ModelCaseReport>,
        comparison: Option<PairedReport>,
        stopped: Option<String>,
        notes: Vec<String>,
    ) -> Result<ModelReport, EvalError> {
        let (recall, precision) = ModelReport::trigger_rates(&cases);
        let (directory, plan) = (Arc::clone(&self.directory), self.plan.clone());
        let earlier = spawn_blocking(move || directory.read_earlier(&plan)).await?;
        let baseline = Some(self.arms.baseline).filter(|_| self.arms.is_compared);
        let arms = std::iter::once(ComparisonArm::WithSkill).chain(baseline);
        let report = ModelReport {
            skill_id: self.request.cases.skill_id.clone(),
            model: self.plan.model.clone(),
            judge: self.plan.judge.clone(),
            agent: self.agent.clone(),
            seed: self.request.seed,
            baseline: self.arms.baseline,
            digests: ModelDigests {
                skill: self.plan.skill.clone(),
                baseline: self.plan.baseline.clone(),
                cases: self.plan.cases.clone(),
                catalog: self.plan.catalog.clone(),
            },
            directory: self.directory.path().display().to_string(),
            arms: arms.map(|arm| ArmFigures::from_cases(arm, &cases)).collect(),
            cases,
            recall,
            precision,
            comparison,
            earlier,
            spent: self.meter.spent(),
            stopped,
            notes,
        };
        // An iteration without this file resumes, with a larger budget.
        if report.stopped.is_none() {
            let (directory, benchmark) = (Arc::clone(&self.directory), self.to_benchmark(&report));
            spawn_blocking(move || directory.store_benchmark(&benchmark)).await??;
        }
        Ok(report)
    }

    fn to_benchmark(&self, report: &ModelReport) -> BenchmarkFile {
        let prompts = || report.cases.iter().filter(|case| case.kind == ModelCaseKind::Output);
        let mut runs = Vec::new();
        for case in prompts() {
            runs.extend(case.runs.iter().filter(|run| run.is_valid()).map(|run| BenchmarkRun {
                eval_id: case.case.clone(),
                configuration: case.arm,
                run_number: run.number,
                result: BenchmarkResult::new(&run.grading, &run.timing),
                expectations: run.grading.expectations.clone(),
                notes: Vec::new(),
            }));
        }
        let mut evals_run: Vec<String> = prompts().map(|case| case.case.clone()).collect();
        // A case has an entry for each arm, one after the other.
        evals_run.dedup();
        let mut notes = report.notes.clone();
        let invalid: u32 = report.arms.iter().map(|arm| arm.invalid).sum();
        if invalid > 0 {
            notes.push(format!("{invalid} runs are invalid and not counted"));
        }
        BenchmarkFile {
            metadata: BenchmarkMetadata {
                skill_name: report.skill_id.clone(),
                skill_path: self.request.directory.display().to_string(),
                executor_model: report.model.clone(),
                analyzer_model: report.judge.clone().unwrap_or_default(),
                timestamp: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
                evals_run,
                runs_per_configuration: self.looks.last().copied().unwrap_or_default(),
            },
            run_summary: BenchmarkSummary::from_runs(&runs),
            runs,
            notes,
        }
    }
}

impl ArmKernels {
    async fn shut_down(self) {
        self.with.shut_down().await;
        self.base.shut_down().await;
        if let Some(without) = self.without {
            without.shut_down().await;
        }
    }
}

/// Computes the digest of the skills that share the catalog with the tested one.
pub(crate) async fn digest_roots(request: &ModelTestRequest) -> Result<String, EvalError> {
    let options = StoreOptions { roots: request.roots.clone(), ..StoreOptions::default() };
    let tested = request.cases.skill_id.clone();
    let read = spawn_blocking(move || {
        let store = Store::open(options, Arc::new(SystemClock)).ok()?;
        Some(digest_catalog(&store.snapshot(), &tested))
    });
    // Roots that contradict each other end the start of the registry, which reports them.
    Ok(format!("sha256:{}", read.await?.unwrap_or_default()))
}
