//! The arguments of a budget.

use clap::Args;
use skill_testing::SpendingLimits;
use skillhost_terminal::CliError;

/// The limits of what all requests of a command may spend.
#[derive(Debug, Args)]
pub(crate) struct BudgetArgs {
    /// Limit of the cost in US dollars
    #[arg(long, value_name = "AMOUNT")]
    budget_usd: Option<f64>,
    /// Limit of the tokens in both directions
    #[arg(long, value_name = "NUMBER")]
    budget_tokens: Option<u64>,
}

impl BudgetArgs {
    /// Returns the limits.
    ///
    /// # Errors
    /// The amount is not valid.
    pub(crate) fn limits(&self) -> Result<SpendingLimits, CliError> {
        if self.budget_usd.is_some_and(|amount| !(0.0..=f64::MAX).contains(&amount)) {
            return Err(CliError::usage("--budget-usd is an amount from 0".to_owned()));
        }
        Ok(SpendingLimits { usd: self.budget_usd, tokens: self.budget_tokens })
    }
}
