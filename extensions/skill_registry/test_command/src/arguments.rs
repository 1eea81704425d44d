//! The arguments of the command.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use globset::{Glob, GlobSet, GlobSetBuilder};
use skill_evals::CaseSplit;
use skill_testing::RoutingResult;
use skillhost_terminal::CliError;

use crate::model_arguments::ModelArgs;

/// Test skills against their cases
#[derive(Debug, Args)]
#[command(after_help = "\
The cases of a skill are in `evals/triggers.json`: queries and whether the skill is expected.
Each is searched in the catalog of the home and 200 other skills, without a model and without a
network. A query passes if the catalog offers the skill: rank 1 to 3, a description in the prompt,
and a word of the query in name, description or tags; without expectation, if the skill is not
offered first. With --model, the agent gets each query and each prompt of `evals/evals.json` in a
home of its own, and prompts also without the skill, or with the version of --against. Runs that
were interrupted resume.
Exit codes: 0 all passed, 1 a case failed or there is none, 2 an option or a file of cases is not
valid, or the model has no price for --budget-usd, 3 a skill, --agent, model, version or proposal
does not exist, 5 a model cannot be used, the harness is broken or the budget is spent.")]
pub struct TestArgs {
    /// Ids of skills of the home, or paths of skills [default: the skill of the proposal, or every
    /// skill with cases; without a home, those of the working directory]
    #[arg(value_name = "SKILL|PATH")]
    pub(crate) targets: Vec<String>,
    /// Agent that is tested [default: every skill is visible; with --model: orchestrator_agent]
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// Cases to test
    #[arg(long, value_enum, default_value_t = SplitChoice::All)]
    pub(crate) split: SplitChoice,
    /// Cases whose `SKILL/CASE` matches a glob
    #[arg(long, value_name = "GLOB")]
    pub(crate) only: Option<String>,
    /// Seed of the division into train and held-out cases
    #[arg(long, value_name = "NUMBER", default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// File for a report in the format of JUnit
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// File for a report as a web page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// A choice of cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SplitChoice {
    /// Both sides.
    All,
    /// The cases that authors may see.
    Train,
    /// The other cases.
    HeldOut,
}

/// A filter of cases.
pub(crate) struct CaseFilter {
    split: SplitChoice,
    only: Option<GlobSet>,
}

impl TestArgs {
    /// Compiles the filter of the cases.
    ///
    /// # Errors
    /// The glob is not valid.
    pub(crate) fn filter(&self) -> Result<CaseFilter, CliError> {
        // A set reports an expression that is too deep; a single matcher would panic.
        let compile = |glob: &str| GlobSetBuilder::new().add(Glob::new(glob)?).build();
        let only = self.only.as_deref().map(compile).transpose().map_err(|error| {
            CliError::usage(format!("--only: {error}")).with_hint("such as: --only 'pdf-forms/q*'")
        })?;
        Ok(CaseFilter { split: self.split, only })
    }

    /// Returns whether only a part of the cases is tested.
    pub(crate) fn is_filtered(&self) -> bool {
        self.only.is_some() || self.split != SplitChoice::All
    }
}

impl CaseFilter {
    /// Returns whether a case is tested.
    pub(crate) fn admits(&self, skill_id: &str, result: &RoutingResult) -> bool {
        self.admits_case(skill_id, &result.case, result.split)
    }

    /// Returns whether a case with a name is tested.
    pub(crate) fn admits_case(&self, skill_id: &str, case: &str, split: CaseSplit) -> bool {
        let name = || format!("{skill_id}/{case}");
        let is_side = match self.split {
            SplitChoice::All => true,
            SplitChoice::Train => split == CaseSplit::Train,
            SplitChoice::HeldOut => split == CaseSplit::HeldOut,
        };
        is_side && self.only.as_ref().is_none_or(|only| only.is_match(name()))
    }
}
