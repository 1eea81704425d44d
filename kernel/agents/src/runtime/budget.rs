//! The budget of a run and its usage.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use skillhost_conversation::TokenUsage;
use skillhost_manifest::AgentLimits;
use tokio::time::Instant;

/// A limit that ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "what", content = "limit")]
pub enum ExhaustedLimit {
    /// Model requests: `max_turns`.
    Turns(u32),
    /// Tokens, input and output: `max_tokens_per_invocation`.
    Tokens(u64),
    /// Time in milliseconds: `time_budget_ms`.
    Time(u64),
}

/// The budget of one run. Its usage also counts for the parent run.
#[derive(Debug)]
pub(crate) struct RunBudget {
    max_turns: u32,
    max_tokens: Option<u64>,
    /// The deadline, and the limit in milliseconds that it was set from.
    deadline: Option<(Instant, u64)>,
    turns: AtomicU32,
    tokens: AtomicU64,
    parent: Option<Arc<RunBudget>>,
}

impl RunBudget {
    /// Creates a budget from the manifest's limits; `max_turns` is the default.
    pub(crate) fn new(
        limits: &AgentLimits,
        max_turns: u32,
        now: Instant,
        parent: Option<Arc<Self>>,
    ) -> Self {
        let own = limits.time_budget_ms.map(|ms| (now + Duration::from_millis(ms), ms));
        let inherited = parent.as_ref().and_then(|parent| parent.deadline);
        Self {
            max_turns: limits.max_turns.unwrap_or(max_turns),
            max_tokens: limits.max_tokens_per_invocation,
            // A delegated run never outlasts its parent.
            deadline: own.into_iter().chain(inherited).min_by_key(|(at, _)| *at),
            turns: AtomicU32::new(0),
            tokens: AtomicU64::new(0),
            parent,
        }
    }

    /// Adds a deadline, where it is earlier than the present one.
    pub(crate) fn with_deadline(mut self, now: Instant, limit_ms: Option<u64>) -> Self {
        let own = limit_ms.map(|ms| (now + Duration::from_millis(ms), ms));
        self.deadline = own.into_iter().chain(self.deadline).min_by_key(|(at, _)| *at);
        self
    }

    /// Counts a turn, if the budget has room for one.
    pub(crate) fn start_turn(&self, now: Instant) -> Result<u32, ExhaustedLimit> {
        self.check_limits(now)?;
        Ok(self.turns.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Counts the usage of a request, here and in every parent run.
    pub(crate) fn record_usage(&self, usage: &TokenUsage) {
        // Saturates: a faulty provider may report any number.
        self.tokens.fetch_add(usage.input.saturating_add(usage.output), Ordering::Relaxed);
        if let Some(parent) = &self.parent {
            parent.record_usage(usage);
        }
    }

    /// Returns the exhausted limit as an error.
    pub(crate) fn check_limits(&self, now: Instant) -> Result<(), ExhaustedLimit> {
        if self.turns.load(Ordering::Relaxed) >= self.max_turns {
            return Err(ExhaustedLimit::Turns(self.max_turns));
        }
        self.check_shared(now)
    }

    /// Checks the limits that runs share; turns count for each run alone.
    fn check_shared(&self, now: Instant) -> Result<(), ExhaustedLimit> {
        if let Some(max) = self.max_tokens.filter(|max| self.tokens.load(Ordering::Relaxed) >= *max)
        {
            return Err(ExhaustedLimit::Tokens(max));
        }
        if let Some((_, ms)) = self.deadline.filter(|(at, _)| *at <= now) {
            return Err(ExhaustedLimit::Time(ms));
        }
        self.parent.as_ref().map_or(Ok(()), |parent| parent.check_shared(now))
    }

    /// Waits until the deadline; forever, if there is none.
    pub(crate) async fn wait_for_deadline(&self) -> ExhaustedLimit {
        match self.deadline {
            Some((at, ms)) => {
                tokio::time::sleep_until(at).await;
                ExhaustedLimit::Time(ms)
            }
            None => std::future::pending().await,
        }
    }

    /// Returns the milliseconds until the deadline, or `None` without one.
    pub(crate) fn remaining_ms(&self, now: Instant) -> Option<u64> {
        let remaining = self.deadline?.0.saturating_duration_since(now);
        Some(u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX))
    }

    /// Returns the number of model requests so far.
    pub(crate) fn turn_count(&self) -> u32 {
        self.turns.load(Ordering::Relaxed)
    }
}

impl std::fmt::Display for ExhaustedLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Turns(limit) => write!(f, "{limit} turns"),
            Self::Tokens(limit) => write!(f, "{limit} tokens"),
            Self::Time(limit) => write!(f, "{limit} ms"),
        }
    }
}

impl ExhaustedLimit {
    /// Returns the manifest field that sets the limit.
    #[must_use]
    pub fn field(&self) -> &'static str {
        match self {
            Self::Turns(_) => "max_turns",
            Self::Tokens(_) => "max_tokens_per_invocation",
            Self::Time(_) => "time_budget_ms",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(input: u64, output: u64) -> TokenUsage {
        TokenUsage { input, output, ..TokenUsage::default() }
    }

    #[test]
    fn exhausted_limit_is_reported() {
        let now = Instant::now();
        let limits = AgentLimits {
            max_turns: Some(2),
            max_tokens_per_invocation: Some(100),
            time_budget_ms: Some(50),
        };
        let budget = RunBudget::new(&limits, 9, now, None);
        assert_eq!((budget.start_turn(now), budget.start_turn(now)), (Ok(1), Ok(2)));
        assert_eq!(budget.start_turn(now), Err(ExhaustedLimit::Turns(2)));

        let budget = RunBudget::new(&limits, 9, now, None);
        budget.record_usage(&used(60, 39));
        assert_eq!(budget.check_limits(now), Ok(()));
        budget.record_usage(&used(0, 1));
        assert_eq!(budget.check_limits(now), Err(ExhaustedLimit::Tokens(100)));

        let budget = RunBudget::new(&limits, 9, now, None);
        let later = |ms| now + Duration::from_millis(ms);
        assert_eq!(
            (budget.check_limits(later(49)), budget.remaining_ms(later(49))),
            (Ok(()), Some(1))
        );
        assert_eq!(budget.check_limits(later(50)), Err(ExhaustedLimit::Time(50)));
    }

    #[test]
    fn default_turn_limit_applies() {
        let now = Instant::now();
        let budget = RunBudget::new(&AgentLimits::default(), 1, now, None);
        budget.record_usage(&used(u64::MAX, 0));
        assert_eq!(budget.start_turn(now), Ok(1));
        assert_eq!(budget.start_turn(now), Err(ExhaustedLimit::Turns(1)));
        assert_eq!(budget.remaining_ms(now), None);
    }

    #[test]
    fn delegated_usage_counts_for_parent() {
        let now = Instant::now();
        let limits = AgentLimits {
            max_turns: Some(1),
            max_tokens_per_invocation: Some(10),
            time_budget_ms: Some(20),
        };
        let parent = Arc::new(RunBudget::new(&limits, 9, now, None));
        parent.start_turn(now).unwrap();
        let child = RunBudget::new(&AgentLimits::default(), 9, now, Some(Arc::clone(&parent)));
        assert_eq!((child.start_turn(now), child.remaining_ms(now)), (Ok(1), Some(20)));
        child.record_usage(&used(5, 5));
        assert_eq!(child.check_limits(now), Err(ExhaustedLimit::Tokens(10)));
        assert_eq!(parent.check_shared(now), Err(ExhaustedLimit::Tokens(10)));
    }
}
