//! The arguments of runs with a model.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use skillhost_terminal::CliError;

use crate::budget_arguments::BudgetArgs;

/// The arguments of runs with a model.
#[derive(Debug, Args)]
#[command(next_help_heading = "With a model")]
pub(crate) struct ModelArgs {
    /// Tests to run [default: routing; with --model, model]
    #[arg(long, value_enum)]
    pub(crate) tier: Option<TestTier>,
    /// Model that the agent runs on, `provider/model`
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Model that judges sentences
    #[arg(long, value_name = "MODEL", requires = "model")]
    pub(crate) judge: Option<String>,
    /// Runs of each case and version
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) runs: Option<u32>,
    /// Rate of runs from which a case passes
    #[arg(long, value_name = "RATE")]
    pub(crate) threshold: Option<f64>,
    /// Baseline: `without`, a version, or `proposal:ID`
    #[arg(long, value_name = "BASELINE", default_value = "without")]
    pub(crate) against: String,
    /// Directory for the results of runs
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) budget: BudgetArgs,
    /// Run the scripts of custom assertions, in the sandbox of `skill run`
    #[arg(long, requires = "model")]
    pub(crate) run_scripts: bool,
    /// Accept assertions that could not be checked
    #[arg(long)]
    pub(crate) allow_skipped: bool,
}

/// The tests of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TestTier {
    /// Queries against the catalog, without a model.
    Routing,
    /// Runs with a model.
    Model,
    /// Both.
    All,
}

/// A baseline of `--against`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BaselineChoice {
    /// No such skill.
    Without,
    /// A version by its number.
    Version(u64),
    /// A proposal, which is compared with the installed skill.
    Proposal(String),
}

impl ModelArgs {
    /// Returns whether routing is tested.
    pub(crate) fn tests_routing(&self) -> bool {
        match self.tier {
            Some(tier) => tier != TestTier::Model,
            // A model costs money, so its presence states the intention.
            None => self.model.is_none(),
        }
    }

    /// Returns the model, if there are runs with one.
    ///
    /// # Errors
    /// The tier requires a model that is not named, or the numbers are not valid.
    pub(crate) fn tested_model(&self) -> Result<Option<&str>, CliError> {
        let requires_model = self.tier.is_some_and(|tier| tier != TestTier::Routing);
        if self.threshold.is_some_and(|rate| !(0.0..=1.0).contains(&rate)) {
            return Err(CliError::usage("--threshold is a rate from 0 to 1".to_owned()));
        }
        // Checked with the other numbers, before a skill is read.
        self.budget.limits()?;
        match (&self.model, requires_model) {
            (None, true) => Err(CliError::usage("--tier requires --model".to_owned())
                .with_hint("see: skillhost model list")),
            // A model in a script for all tiers does not turn the free one into a paid one.
            (Some(_), _) if self.tier == Some(TestTier::Routing) => Ok(None),
            (model, _) => Ok(model.as_deref()),
        }
    }

    /// Returns the baseline.
    ///
    /// # Errors
    /// It is none of the forms.
    pub(crate) fn baseline(&self) -> Result<BaselineChoice, CliError> {
        let given = self.against.as_str();
        if given == "without" {
            return Ok(BaselineChoice::Without);
        }
        if let Some(id) = given.strip_prefix("proposal:").filter(|id| !id.is_empty()) {
            return Ok(BaselineChoice::Proposal(id.to_owned()));
        }
        // `skill history` is often quoted with a `v`.
        given.trim_start_matches('v').parse().map(BaselineChoice::Version).map_err(|_| {
            CliError::usage(format!("--against: `{given}` is not a baseline"))
                .with_hint("`without`, the number of a version, or `proposal:ID`")
        })
    }
}
