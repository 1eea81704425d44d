//! The runs of skills with a model.

use std::path::{Path, PathBuf};

use skill_catalog::SkillRoot;
use skill_evals::ModelReport;
use skill_format::is_case_file;
use skill_testing::{BaselineVersion, ModelTestRequest};
use skillhost_files::{TreeError, TreeFile, read_tree};
use skillhost_terminal::{CliContext, CliError, exit};

use crate::arguments::{CaseFilter, TestArgs};
use crate::model_arguments::BaselineChoice;
use crate::selection::TestedSkill;

/// A function that runs the cases of a skill in kernels of their own.
pub type ModelTests<'a> = &'a dyn Fn(&ModelTestRequest) -> Result<ModelReport, CliError>;

/// A function that returns the changed files of a version or a proposal of a skill.
pub type SkillVersions<'a> = &'a dyn Fn(&str, &BaselineChoice) -> Result<VersionFiles, CliError>;

/// The files of a version or of a proposal.
#[derive(Debug)]
pub enum VersionFiles {
    /// All files of the version.
    Complete(Vec<TreeFile>),
    /// A file that replaces the one of the installed skill.
    Changed(TreeFile),
}

/// The home of runs with a model.
pub(crate) struct ModelHome<'a> {
    pub(crate) tests: ModelTests<'a>,
    pub(crate) versions: SkillVersions<'a>,
    pub(crate) roots: &'a [SkillRoot],
    /// The directory for results without `--out`; `None` outside of a home.
    pub(crate) results: Option<PathBuf>,
}

/// Runs the cases of skills with a model.
///
/// # Errors
/// The model or the agent cannot be used, a version does not exist, or the harness is broken.
pub(crate) fn run_models(
    session: &CliContext,
    args: &TestArgs,
    model: &str,
    home: &ModelHome<'_>,
    skills: &[TestedSkill],
    filter: &CaseFilter,
) -> Result<Vec<ModelReport>, CliError> {
    let with_cases = || skills.iter().filter(|skill| !skill.cases.is_empty());
    // Two skills may have cases with the same id.
    let is_single = with_cases().nth(1).is_none();
    let mut reports = Vec::new();
    for skill in with_cases() {
        let mut cases = skill.cases.clone();
        let id = cases.skill_id.clone();
        cases.triggers.retain(|case| filter.admits_case(&id, &case.name, case.split));
        cases.outputs.retain(|case| filter.admits_case(&id, &case.name, case.split));
        // A filter may leave none; a skill without cases has no runs.
        if cases.is_empty() {
            continue;
        }
        let own = read_files(&skill.directory)?;
        // The tested version and the other one; a proposal is tested against its base.
        let (files, baseline) = match args.model.baseline()? {
            BaselineChoice::Without => (own, BaselineVersion::Without),
            choice => match ((home.versions)(&id, &choice)?, choice) {
                (VersionFiles::Complete(files), BaselineChoice::Proposal(_)) => {
                    (without_cases(files), BaselineVersion::Version(own))
                }
                (VersionFiles::Complete(files), _) => {
                    (own, BaselineVersion::Version(without_cases(files)))
                }
                (VersionFiles::Changed(file), _) => {
                    (replace_file(&own, file), BaselineVersion::Version(own))
                }
            },
        };
        let results = results_directory(session, args, home, &id, is_single)?;
        let report = (home.tests)(&ModelTestRequest {
            directory: skill.directory.clone(),
            files,
            baseline,
            cases,
            roots: home.roots.to_vec(),
            agent: args.agent.clone(),
            model: model.to_owned(),
            judge: args.model.judge.clone(),
            runs: args.model.runs,
            threshold: args.model.threshold,
            seed: args.seed,
            results,
            budget: args.model.budget(),
        })?;
        // The next skill would only meet the same limit.
        let is_stopped = report.stopped.is_some();
        reports.push(report);
        if is_stopped {
            break;
        }
    }
    Ok(reports)
}

/// Returns the directory for the results of a skill: that of `--out` if it is the only one, else one
/// of its own.
fn results_directory(
    session: &CliContext,
    args: &TestArgs,
    home: &ModelHome<'_>,
    id: &str,
    is_single: bool,
) -> Result<PathBuf, CliError> {
    match (&args.model.out, &home.results) {
        (Some(out), _) if is_single => Ok(session.environment.current_dir.join(out)),
        (Some(out), _) => Ok(session.environment.current_dir.join(out).join(id)),
        (None, Some(results)) => Ok(results.join(id)),
        (None, None) => Err(CliError::usage("a test with a model requires a home".to_owned())
            .with_hint("its settings name the models; see: skillhost init")),
    }
}

fn read_files(directory: &Path) -> Result<Vec<TreeFile>, CliError> {
    read_tree(directory).map(without_cases).map_err(|error| to_cli_error(&error))
}

/// Leaves out the cases, which no run sees.
fn without_cases(mut files: Vec<TreeFile>) -> Vec<TreeFile> {
    files.retain(|file| !is_case_file(&file.path));
    files
}

fn replace_file(own: &[TreeFile], file: TreeFile) -> Vec<TreeFile> {
    let mut files: Vec<TreeFile> =
        own.iter().filter(|other| other.path != file.path).cloned().collect();
    files.push(file);
    // The digest of the files depends on their order.
    files.sort_by(|a, b| a.path.cmp(&b.path));
    without_cases(files)
}

fn to_cli_error(error: &TreeError) -> CliError {
    CliError::new(exit::IO, error.to_string()).with_hint(error.hint())
}
