//! The runs of skills with a model.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use skill_catalog::SkillRoot;
use skill_evals::ModelReport;
use skill_format::{Digest, is_case_file};
use skill_testing::{
    BaselineVersion, CaseScripts, ComparedChange, ModelTestRequest, SkillCases, SpendingLimits,
};
use skillhost_files::{TreeError, TreeFile, read_tree};
use skillhost_terminal::{CliContext, CliError, exit};

use crate::arguments::{CaseFilter, TestArgs};
use crate::model_arguments::BaselineChoice;
use crate::selection::TestedSkill;

/// A function that runs the cases of a skill in kernels of their own.
pub type ModelTests<'a> = &'a dyn Fn(&ModelTestRequest) -> Result<ModelReport, CliError>;

/// The versions and proposals of a home's skills.
pub trait SkillVersions {
    /// Returns the id of the skill that a proposal changes.
    ///
    /// # Errors
    /// The proposal does not exist, or the home cannot be read.
    fn find_changed_skill(&self, proposal: &str) -> Result<String, CliError>;

    /// Returns the files of a version or a proposal of a skill.
    ///
    /// # Errors
    /// It does not exist, or it is about another skill.
    fn load_files(&self, skill_id: &str, choice: &BaselineChoice)
    -> Result<VersionFiles, CliError>;

    /// Returns the way to run the scripts of custom assertions of a skill in a directory.
    ///
    /// # Errors
    /// The skill or the policy for scripts cannot be read.
    fn open_scripts(&self, directory: &Path) -> Result<Arc<dyn CaseScripts>, CliError>;

    /// Records the runs that compared a proposal with its base as evidence about it.
    ///
    /// # Errors
    /// The runs have no verdict, or the proposal is not open or has another text or base by now.
    fn record_evidence(&self, proposal: &str, compared: ComparedChange<'_>)
    -> Result<(), CliError>;
}

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
    pub(crate) versions: &'a dyn SkillVersions,
    pub(crate) roots: &'a [SkillRoot],
    /// The directory for results without `--out`; `None` outside of a home.
    pub(crate) results: Option<PathBuf>,
}

/// The results of runs with a model.
#[derive(Default)]
pub(crate) struct ModelRuns {
    /// The reports of the skills that ran.
    pub(crate) reports: Vec<ModelReport>,
    /// The error that ended the command, after the runs before it.
    pub(crate) error: Option<CliError>,
}

/// A skill that is going to run.
struct PreparedTest {
    request: ModelTestRequest,
    /// The tested proposal, and the digests of the file that it changes.
    proposal: Option<(String, (Option<Digest>, Digest))>,
}

/// Runs the cases of skills with a model. The budget is that of all skills together.
///
/// # Errors
/// A version or a proposal does not exist, or a skill cannot be read; nothing has run then.
pub(crate) fn run_models(
    session: &CliContext,
    args: &TestArgs,
    model: &str,
    home: &ModelHome<'_>,
    skills: &[TestedSkill],
    filter: &CaseFilter,
) -> Result<ModelRuns, CliError> {
    let selected: Vec<_> = select_cases(skills, filter).collect();
    // Two skills may have cases with the same id.
    let is_single = selected.len() == 1;
    let prepare =
        |(skill, cases)| prepare_test(session, args, model, home, skill, cases, is_single);
    // All of them first: an error must not follow runs that were paid.
    let prepared: Vec<PreparedTest> =
        selected.into_iter().map(prepare).collect::<Result<_, _>>()?;
    let mut runs = ModelRuns::default();
    for PreparedTest { mut request, proposal } in prepared {
        request.budget = remaining_budget(request.budget, &runs.reports);
        let mut report = match (home.tests)(&request) {
            Ok(report) => report,
            Err(error) => {
                runs.error = Some(error);
                break;
            }
        };
        if let Some((proposal, digests)) = proposal {
            report.notes.push(record_evidence(args, home, &proposal, digests, &report));
        }
        // The next skill would only meet the same limit.
        let is_stopped = report.stopped.is_some();
        runs.reports.push(report);
        if is_stopped {
            break;
        }
    }
    Ok(runs)
}

/// Returns the skills with the cases that a filter selects; a skill without such cases has no runs.
fn select_cases<'a>(
    skills: &'a [TestedSkill],
    filter: &'a CaseFilter,
) -> impl Iterator<Item = (&'a TestedSkill, SkillCases)> {
    let selected = skills.iter().map(|skill| {
        let mut cases = skill.cases.clone();
        let id = cases.skill_id.clone();
        cases.triggers.retain(|case| filter.admits_case(&id, &case.name, case.split));
        cases.outputs.retain(|case| filter.admits_case(&id, &case.name, case.split));
        (skill, cases)
    });
    selected.filter(|(_, cases)| !cases.is_empty())
}

fn prepare_test(
    session: &CliContext,
    args: &TestArgs,
    model: &str,
    home: &ModelHome<'_>,
    skill: &TestedSkill,
    cases: SkillCases,
    is_single: bool,
) -> Result<PreparedTest, CliError> {
    let id = cases.skill_id.clone();
    let own = read_files(&skill.directory)?;
    // The tested version and the other one; a proposal is tested against its base.
    let mut proposal = None;
    let (files, baseline) = match args.model.baseline()? {
        BaselineChoice::Without => (own, BaselineVersion::Without),
        choice => match (home.versions.load_files(&id, &choice)?, choice) {
            (VersionFiles::Complete(files), _) => {
                (own, BaselineVersion::Version(without_cases(files)))
            }
            (VersionFiles::Changed(file), choice) => {
                if let BaselineChoice::Proposal(tested) = choice {
                    proposal = Some((tested, digest_change(&own, &file)));
                }
                (replace_file(&own, file), BaselineVersion::Version(own))
            }
        },
    };
    let results = results_directory(session, args, home, &id, is_single)?;
    let scripts = args.model.run_scripts.then(|| home.versions.open_scripts(&skill.directory));
    let request = ModelTestRequest {
        directory: skill.directory.clone(),
        files,
        baseline,
        cases,
        roots: home.roots.to_vec(),
        agent: args.agent.clone(),
        model: model.to_owned(),
        judge: args.model.judge.clone(),
        scripts: scripts.transpose()?,
        runs: args.model.runs,
        threshold: args.model.threshold,
        seed: args.seed,
        results,
        budget: args.model.budget.limits()?,
    };
    Ok(PreparedTest { request, proposal })
}

/// Returns the rest of a budget after the runs of other skills.
fn remaining_budget(budget: SpendingLimits, reports: &[ModelReport]) -> SpendingLimits {
    let tokens: u64 = reports.iter().map(|report| report.spent.tokens).sum();
    // Of an amount that is not known, nothing is left.
    let usd = reports.iter().map(|report| report.spent.usd.unwrap_or(f64::INFINITY)).sum::<f64>();
    SpendingLimits {
        usd: budget.usd.map(|limit| (limit - usd).max(0.0)),
        tokens: budget.tokens.map(|limit| limit.saturating_sub(tokens)),
    }
}

/// Records runs as evidence about a proposal, and returns a note about it: the results of paid runs
/// must not end in an error.
fn record_evidence(
    args: &TestArgs,
    home: &ModelHome<'_>,
    proposal: &str,
    (base, new): (Option<Digest>, Digest),
    report: &ModelReport,
) -> String {
    let obstacle = match find_obstacle(args, report) {
        Some(obstacle) => obstacle.to_owned(),
        None => match home.versions.record_evidence(proposal, ComparedChange { base, new, report })
        {
            Ok(()) => return format!("recorded for the review of proposal {proposal}"),
            Err(error) => error.message().to_owned(),
        },
    };
    format!("not recorded for proposal {proposal}: {obstacle}")
}

/// Returns why runs are no evidence about a proposal: they could have been chosen for their result.
fn find_obstacle(args: &TestArgs, report: &ModelReport) -> Option<&'static str> {
    if report.is_incomplete() {
        Some("the runs are not complete")
    } else if args.is_filtered() {
        Some("only a part of the cases ran")
    } else if args.model.runs.is_some() {
        Some("--runs fixes the number of runs")
    } else if report.has_skipped() && !args.model.allow_skipped {
        Some("assertions were not checked")
    } else if report.comparison.is_none() {
        Some("no case ran with both versions")
    } else {
        None
    }
}

/// Returns the digests of the file that a proposal changes: before, if it exists, and after.
fn digest_change(own: &[TreeFile], file: &TreeFile) -> (Option<Digest>, Digest) {
    let base = own.iter().find(|other| other.path == file.path);
    (base.map(|base| Digest::compute(&base.bytes)), Digest::compute(&file.bytes))
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

pub(crate) fn read_files(directory: &Path) -> Result<Vec<TreeFile>, CliError> {
    read_tree(directory).map(without_cases).map_err(|error| to_cli_error(&error))
}

/// Leaves out the cases, which no run sees.
fn without_cases(mut files: Vec<TreeFile>) -> Vec<TreeFile> {
    files.retain(|file| !is_case_file(&file.path));
    files
}

fn replace_file(own: &[TreeFile], mut file: TreeFile) -> Vec<TreeFile> {
    let (replaced, mut files): (Vec<TreeFile>, Vec<TreeFile>) =
        own.iter().cloned().partition(|other| other.path == file.path);
    // A proposal changes the text of a script, not its mode.
    file.executable = replaced.iter().any(|replaced| replaced.executable);
    files.push(file);
    // The digest of the files depends on their order.
    files.sort_by(|a, b| a.path.cmp(&b.path));
    without_cases(files)
}

fn to_cli_error(error: &TreeError) -> CliError {
    CliError::new(exit::IO, error.to_string()).with_hint(error.hint())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str, executable: bool) -> TreeFile {
        TreeFile { path: path.to_owned(), bytes: text.into(), executable }
    }

    #[test]
    fn changed_script_keeps_its_mode() {
        let own = [
            file("SKILL.md", "Run it.", false),
            file("evals/evals.json", "{}", false),
            file("scripts/run.sh", "old", true),
        ];
        let replaced = |path| {
            let files = replace_file(&own, file(path, "new", false));
            let rows = files.iter().map(|file| (file.path.clone(), file.executable));
            rows.collect::<Vec<_>>()
        };
        let rows = |rows: &[(&str, bool)]| -> Vec<(String, bool)> {
            rows.iter().map(|&(path, executable)| (path.to_owned(), executable)).collect()
        };
        let script = rows(&[("SKILL.md", false), ("scripts/run.sh", true)]);
        assert_eq!(replaced("scripts/run.sh"), script);
        let added = rows(&[("SKILL.md", false), ("notes.md", false), ("scripts/run.sh", true)]);
        assert_eq!(replaced("notes.md"), added);
    }
}
