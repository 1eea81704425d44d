//! The request to run the cases of a skill with a model.

use std::path::PathBuf;
use std::sync::Arc;

use skill_catalog::SkillRoot;
use skillhost_files::TreeFile;

use crate::case_files::SkillCases;
use crate::case_scripts::CaseScripts;

/// The request to run the cases of a skill with a model.
#[derive(Clone, Debug)]
pub struct ModelTestRequest {
    /// The directory of the skill, from which the files of cases are copied.
    pub directory: PathBuf,
    /// The files of the tested version, without its cases.
    pub files: Vec<TreeFile>,
    /// The version that it is compared with.
    pub baseline: BaselineVersion,
    /// The cases to run.
    pub cases: SkillCases,
    /// The roots with the other skills; absolute paths.
    pub roots: Vec<SkillRoot>,
    /// The agent whose turns are run; `None` for that of the cases or the default one.
    pub agent: Option<String>,
    /// The model, `provider/model` or an alias.
    pub model: String,
    /// The model that judges sentences.
    pub judge: Option<String>,
    /// The way to run the scripts of custom assertions; `None` if they are skipped.
    pub scripts: Option<Arc<dyn CaseScripts>>,
    /// The runs of a case and arm; `None` for the number that the cases or the comparison require.
    pub runs: Option<u32>,
    /// The rate of runs from which a case passes; `None` for that of the cases.
    pub threshold: Option<f64>,
    /// The seed of the order of runs.
    pub seed: u64,
    /// The directory for the results.
    pub results: PathBuf,
    /// The limits of what the runs may spend, together with earlier ones in the same iteration.
    pub budget: SpendingLimits,
}

/// A version that a skill is compared with.
#[derive(Clone, Debug)]
pub enum BaselineVersion {
    /// None: the tested version runs alone.
    Unused,
    /// No such skill.
    Without,
    /// The files of another version, without its cases.
    Version(Vec<TreeFile>),
}

/// Limits of what requests may spend.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SpendingLimits {
    /// The cost in US dollars.
    pub usd: Option<f64>,
    /// The tokens in both directions.
    pub tokens: Option<u64>,
}
