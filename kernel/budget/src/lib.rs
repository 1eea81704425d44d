//! The budgets of agent runs and of the tasks that they work on.
//!
//! A [`RunBudget`] has limits of turns, tokens, active time and cost, and the amounts used so far.
//! Active time passes while a model request or a tool call is under way, which an [`ActivityGuard`]
//! marks; the wait for a person, a lock or another run, marked by a [`CallWaitGuard`], is free.

mod active_clock;
mod run_budget;

pub use run_budget::{
    ActivityGuard, BudgetLimits, BudgetUsage, CallWaitGuard, ExhaustedLimit, RunBudget,
};
