//! The arguments of `skill optimize`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use skill_evals::OptimizedPart;

use crate::budget_arguments::BudgetArgs;

/// Improve a skill with a model and propose the result
#[derive(Debug, Args)]
#[command(after_help = "\
The train cases of the skill run with the installed text. The model gets the text and the
failures, and suggests one edit per round; held-out cases are never a part of such a request. A
candidate that passes the checks of proposals runs against the present text, and is kept only if
it is better on held-out cases. The last kept one runs once more against the installed text. An
improvement becomes a proposal of `optimizer`, which a person approves or rejects; the skill
itself is not changed. Two rounds without gain end the command. After an interruption, or a
budget that was spent, the same command continues; finished runs are not repeated.
Exit codes: 0 an improvement was proposed or there is none, 1 the skill has too few cases, 2 an
option or a file of cases is not valid, or the model has no price for --budget-usd, 3 the skill or
the model does not exist, 4 the skill changed, 5 a model cannot be used, the harness is broken or
the budget is spent.")]
pub struct OptimizeArgs {
    /// Skill of the home
    #[arg(value_name = "SKILL")]
    pub(crate) skill: String,
    /// Part of SKILL.md to change
    #[arg(long, value_enum, value_name = "PART", default_value_t = PartChoice::Description)]
    pub(crate) what: PartChoice,
    /// Most candidates to try
    #[arg(long, value_name = "NUMBER", default_value_t = 5, allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,
    /// Model of the runs and the candidates, `provider/model`
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: String,
    /// Model that judges sentences
    #[arg(long, value_name = "MODEL")]
    pub(crate) judge: Option<String>,
    /// Runs of each case and text [default: up to 12]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) runs: Option<u32>,
    /// Seed of the division of cases and the order of runs
    #[arg(long, value_name = "NUMBER", default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// Directory for the results of runs
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) budget: BudgetArgs,
}

/// A part of SKILL.md on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PartChoice {
    /// The description, tested with queries.
    Description,
    /// The body, tested with prompts.
    Body,
}

impl OptimizeArgs {
    /// Returns the name of the skill as it was given.
    #[must_use]
    pub fn skill(&self) -> &str {
        &self.skill
    }

    pub(crate) fn part(&self) -> OptimizedPart {
        match self.what {
            PartChoice::Description => OptimizedPart::Description,
            PartChoice::Body => OptimizedPart::Body,
        }
    }
}
