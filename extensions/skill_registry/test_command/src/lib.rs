//! `skillhost skill test`: the cases of skills, without and with a model; and `skill optimize`.

mod arguments;
mod budget_arguments;
mod html;
mod html_table;
mod junit;
mod model_arguments;
mod model_html;
mod model_junit;
mod model_run;
mod model_text;
mod optimize;
mod optimize_arguments;
mod optimize_text;
mod selection;
mod summary;
mod text;

use std::path::{Path, PathBuf};

use skill_catalog::StoreOptions;
use skill_testing::{
    AgentViews, HarnessError, RoutingHarness, RoutingReport, RoutingSetup, SkillCases,
    test_all_routing,
};
use skillhost_files::write_atomically;
use skillhost_terminal::{CliContext, CliError, CommandResult, exit};

pub use arguments::TestArgs;
pub use model_arguments::BaselineChoice;
pub use model_run::{ModelTests, SkillVersions, VersionFiles};
pub use optimize::{
    CandidateLedger, CandidateObjection, CandidateText, RejectedChange, SkillOptimizations,
    cmd_skill_optimize,
};
pub use optimize_arguments::OptimizeArgs;

use crate::model_run::{ModelHome, ModelRuns, run_models};
use crate::selection::TestTargets;
use crate::summary::{TestSummary, TestedReport};

/// The home that skills are tested in.
#[derive(Debug, Default)]
pub struct TestHome {
    /// The options of its catalog; without roots where there is no home.
    pub options: StoreOptions,
    /// The directory with the data of the registry, which has the held-out cases.
    pub data: Option<PathBuf>,
    /// The views of its agents.
    pub views: AgentViews,
    /// The directory for the results of runs with a model.
    pub results: Option<PathBuf>,
}

/// The functions that start kernels for runs with a model.
#[derive(Clone, Copy)]
pub struct ModelRunners<'a> {
    /// Runs the cases of a skill.
    pub tests: ModelTests<'a>,
    /// Optimizes a skill.
    pub optimizations: SkillOptimizations<'a>,
}

/// Tests skills.
///
/// # Errors
/// A skill or an agent does not exist, a path cannot be read, a model cannot be used, or a report cannot
/// be written.
pub fn cmd_skill_test(
    session: &CliContext,
    args: &TestArgs,
    home: TestHome,
    tests: ModelTests<'_>,
    versions: &dyn SkillVersions,
) -> CommandResult {
    let TestHome { options, data, mut views, results } = home;
    let model = args.model.tested_model()?;
    let roots = options.roots.clone();
    if let Some(agent) = &args.agent {
        let view = views.get(agent).cloned().ok_or_else(|| {
            CliError::new(exit::NOT_FOUND, format!("agent `{agent}` not found"))
                .with_hint("see: skillhost agent list")
        })?;
        views.insert(String::new(), view);
    }
    let targets = match args.model.baseline()? {
        // A proposal is about one skill, which need not be repeated.
        BaselineChoice::Proposal(id) if args.targets.is_empty() => {
            TestTargets::from_id(&versions.find_changed_skill(&id)?)
        }
        _ => selection::find_targets(session, args)?,
    };
    let setup = RoutingSetup { options, candidates: targets.candidates(), with_distractors: true };
    let harness = open_harness(setup)?;
    let filter = args.filter()?;
    for path in args.junit.iter().chain(&args.html) {
        require_parent(session, path)?;
    }
    let skills = targets.load(&harness, data.as_deref(), args.seed)?;
    let models = match model {
        // A file that is not valid is reported before anything is spent.
        Some(model) if skills.iter().all(|skill| skill.cases.errors().next().is_none()) => {
            let home = ModelHome { tests, versions, roots: &roots, results };
            run_models(session, args, model, &home, &skills, &filter)?
        }
        _ => ModelRuns::default(),
    };
    let ModelRuns { reports: models, error } = models;
    let tests_routing = args.model.tests_routing();
    let cases: Vec<&SkillCases> = skills.iter().map(|skill| &skill.cases).collect();
    let reports =
        if tests_routing { test_all_routing(&harness, &cases, &views) } else { Vec::new() };
    let mut reports = reports.into_iter();
    let skills = skills.into_iter().map(|skill| {
        let id = &skill.cases.skill_id;
        let report = reports.next().unwrap_or_else(|| RoutingReport::empty(id));
        let report = report.filtered(|result| filter.admits(id, result));
        TestedReport { tested: skill, report }
    });
    let summary = TestSummary {
        tests_routing,
        models,
        allow_skipped: args.model.allow_skipped,
        distractors: harness.distractor_count(),
        skills: skills.collect(),
    };
    // The reports are written after the output: a full disk must not hide the results.
    if session.output.json {
        session.output.print_json(&summary)?;
    } else {
        text::print_summary(session.output, &summary)?;
    }
    if let Some(path) = &args.junit {
        write_report(session, path, &junit::render(&summary)?)?;
    }
    if let Some(path) = &args.html {
        write_report(session, path, &html::render(&summary))?;
    }
    match error.or_else(|| summary.explain_no_case(args.is_filtered())) {
        Some(error) => Err(error),
        None => Ok(summary.exit_code()),
    }
}

/// Checks that the directory of a report exists, before runs are paid.
fn require_parent(session: &CliContext, path: &Path) -> Result<(), CliError> {
    let path = session.environment.current_dir.join(path);
    match path.parent().is_none_or(Path::is_dir) {
        true => Ok(()),
        false => {
            let message = format!("{}: its directory does not exist", path.display());
            Err(CliError::new(exit::IO, message).with_hint("create the directory"))
        }
    }
}

/// Opens the catalog of a test.
///
/// # Errors
/// The files of the test cannot be written, or the settings contradict each other.
pub fn open_harness(setup: RoutingSetup) -> Result<RoutingHarness, CliError> {
    RoutingHarness::open(setup).map_err(|error| to_cli_error(&error))
}

fn write_report(session: &CliContext, path: &Path, text: &str) -> Result<(), CliError> {
    let path = session.environment.current_dir.join(path);
    write_atomically(&path, text.as_bytes()).map_err(|error| CliError::io(&path, &error))
}

fn to_cli_error(error: &HarnessError) -> CliError {
    let code = match error {
        HarnessError::Io(_) => exit::IO,
        _ => exit::USAGE,
    };
    CliError::new(code, error.to_string()).with_hint("see: skillhost config")
}
