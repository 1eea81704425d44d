//! The arguments of a budget.

use clap::Args;
use skill_testing::SpendingLimits;
use skillhost_terminal::CliError;

/// The limits of what all requests of a command may spend.
#[derive(Debug, Args)]
pub(crate) struct BudgetArgs {
    /// Limit of the cost of the whole command in US dollars
    #[arg(long, value_name = "AMOUNT", requires = "model", allow_negative_numbers = true)]
    budget_usd: Option<f64>,
    /// Limit of the tokens of the whole command in both directions
    #[arg(long, value_name = "NUMBER", requires = "model", allow_negative_numbers = true)]
    budget_tokens: Option<u64>,
}

impl BudgetArgs {
    /// Returns the limits.
    ///
    /// # Errors
    /// The amount is not valid.
    pub(crate) fn limits(&self) -> Result<SpendingLimits, CliError> {
        if self.budget_usd.is_some_and(|amount| !(0.0..=f64::MAX).contains(&amount)) {
            return Err(CliError::usage("--budget-usd requires an amount of 0 or more".to_owned()));
        }
        Ok(SpendingLimits { usd: self.budget_usd, tokens: self.budget_tokens })
    }
}
