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
    /// Runs of each case and version [default: 3 or that of `suite.yaml`; with a version or a
    /// proposal up to 12]
    #[arg(long, value_name = "NUMBER", requires = "model", allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) runs: Option<u32>,
    /// Rate of runs from which a case passes [default: 0.5 or that of `suite.yaml`]
    #[arg(long, value_name = "RATE", requires = "model", allow_negative_numbers = true)]
    pub(crate) threshold: Option<f64>,
    /// Baseline: `without`, a version, or `proposal:ID` [default: without]
    #[arg(long, value_name = "BASELINE", requires = "model")]
    pub(crate) against: Option<String>,
    /// Directory for the results of runs
    #[arg(long, value_name = "DIRECTORY", requires = "model")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) budget: BudgetArgs,
    /// Run the scripts of custom assertions, in the sandbox of `skill run`
    #[arg(long, requires = "model")]
    pub(crate) run_scripts: bool,
    /// Accept assertions that could not be checked
    #[arg(long, requires = "model")]
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
        // At a rate of 0, each case that expects the skill would pass, and no other one.
        if self.threshold.is_some_and(|rate| !(rate > 0.0 && rate <= 1.0)) {
            let message = "--threshold requires a rate above 0 and at most 1";
            return Err(CliError::usage(message.to_owned()));
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
        let given = match self.against.as_deref() {
            None | Some("without") => return Ok(BaselineChoice::Without),
            Some(given) => given,
        };
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
