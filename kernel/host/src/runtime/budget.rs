//! What a run may use up, and what it has.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use skillhost_manifest::AgentLimits;
use tokio::time::Instant;

use crate::model::Usage;

/// The limit that ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "what", content = "limit")]
pub enum Exhausted {
    /// Requests to the model: `max_turns`.
    Turns(u32),
    /// Tokens, sent and received: `max_tokens_per_invocation`.
    Tokens(u64),
    /// Milliseconds: `time_budget_ms`.
    Time(u64),
}

/// The budget of one run. What it uses up counts for the run that gave it its task, too.
#[derive(Debug)]
pub(crate) struct Budget {
    max_turns: u32,
    max_tokens: Option<u64>,
    /// When time is up, and the milliseconds there were.
    deadline: Option<(Instant, u64)>,
    turns: AtomicU32,
    tokens: AtomicU64,
    parent: Option<Arc<Budget>>,
}

impl Budget {
    /// A budget as the manifest has it; `max_turns` holds where that names none.
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
            deadline: own.into_iter().chain(inherited).min_by_key(|(at, _)| *at),
            turns: AtomicU32::new(0),
            tokens: AtomicU64::new(0),
            parent,
        }
    }

    /// The same budget with an end of its own, where that comes earlier.
    pub(crate) fn until(mut self, now: Instant, limit_ms: Option<u64>) -> Self {
        let own = limit_ms.map(|ms| (now + Duration::from_millis(ms), ms));
        self.deadline = own.into_iter().chain(self.deadline).min_by_key(|(at, _)| *at);
        self
    }

    /// Counts a turn, if there is still room for one.
    pub(crate) fn take_turn(&self, now: Instant) -> Result<u32, Exhausted> {
        self.check(now)?;
        Ok(self.turns.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Counts what a request used up, here and in every run above.
    pub(crate) fn spend(&self, usage: &Usage) {
        self.tokens.fetch_add(usage.input.saturating_add(usage.output), Ordering::Relaxed);
        if let Some(parent) = &self.parent {
            parent.spend(usage);
        }
    }

    /// Says what is used up.
    pub(crate) fn check(&self, now: Instant) -> Result<(), Exhausted> {
        if self.turns.load(Ordering::Relaxed) >= self.max_turns {
            return Err(Exhausted::Turns(self.max_turns));
        }
        self.check_shared(now)
    }

    /// As [`Budget::check`] for what runs share; turns are each run's own.
    fn check_shared(&self, now: Instant) -> Result<(), Exhausted> {
        if let Some(max) = self.max_tokens.filter(|max| self.tokens.load(Ordering::Relaxed) >= *max)
        {
            return Err(Exhausted::Tokens(max));
        }
        if let Some((_, ms)) = self.deadline.filter(|(at, _)| *at <= now) {
            return Err(Exhausted::Time(ms));
        }
        self.parent.as_ref().map_or(Ok(()), |parent| parent.check_shared(now))
    }

    /// Ends when time is up; never, where there is no limit.
    pub(crate) async fn time_is_up(&self) -> Exhausted {
        match self.deadline {
            Some((at, ms)) => {
                tokio::time::sleep_until(at).await;
                Exhausted::Time(ms)
            }
            None => std::future::pending().await,
        }
    }

    /// Milliseconds that are left.
    pub(crate) fn left_ms(&self, now: Instant) -> Option<u64> {
        let left = self.deadline?.0.saturating_duration_since(now);
        Some(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
    }

    /// Requests so far.
    pub(crate) fn turns(&self) -> u32 {
        self.turns.load(Ordering::Relaxed)
    }
}

impl std::fmt::Display for Exhausted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Turns(limit) => write!(f, "{limit} turns"),
            Self::Tokens(limit) => write!(f, "{limit} tokens"),
            Self::Time(limit) => write!(f, "{limit} ms"),
        }
    }
}

impl Exhausted {
    /// The field of the manifest that sets it.
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

    fn used(input: u64, output: u64) -> Usage {
        Usage { input, output, ..Usage::default() }
    }

    #[test]
    fn each_limit_ends_a_run_and_says_which_it_was() {
        let now = Instant::now();
        let limits = AgentLimits {
            max_turns: Some(2),
            max_tokens_per_invocation: Some(100),
            time_budget_ms: Some(50),
        };
        let budget = Budget::new(&limits, 9, now, None);
        assert_eq!((budget.take_turn(now), budget.take_turn(now)), (Ok(1), Ok(2)));
        assert_eq!(budget.take_turn(now), Err(Exhausted::Turns(2)));

        let budget = Budget::new(&limits, 9, now, None);
        budget.spend(&used(60, 39));
        assert_eq!(budget.check(now), Ok(()));
        budget.spend(&used(0, 1));
        assert_eq!(budget.check(now), Err(Exhausted::Tokens(100)));

        let budget = Budget::new(&limits, 9, now, None);
        let later = |ms| now + Duration::from_millis(ms);
        assert_eq!((budget.check(later(49)), budget.left_ms(later(49))), (Ok(()), Some(1)));
        assert_eq!(budget.check(later(50)), Err(Exhausted::Time(50)));
    }

    #[test]
    fn a_run_without_limits_still_has_an_end() {
        let now = Instant::now();
        let budget = Budget::new(&AgentLimits::default(), 1, now, None);
        budget.spend(&used(u64::MAX, 0));
        assert_eq!(budget.take_turn(now), Ok(1));
        assert_eq!(budget.take_turn(now), Err(Exhausted::Turns(1)));
        assert_eq!(budget.left_ms(now), None);
    }

    #[test]
    fn what_a_delegated_run_uses_counts_for_the_one_above() {
        let now = Instant::now();
        let limits = AgentLimits {
            max_turns: Some(1),
            max_tokens_per_invocation: Some(10),
            time_budget_ms: Some(20),
        };
        let parent = Arc::new(Budget::new(&limits, 9, now, None));
        parent.take_turn(now).unwrap();
        let child = Budget::new(&AgentLimits::default(), 9, now, Some(Arc::clone(&parent)));
        assert_eq!((child.take_turn(now), child.left_ms(now)), (Ok(1), Some(20)));
        child.spend(&used(5, 5));
        assert_eq!(child.check(now), Err(Exhausted::Tokens(10)));
        assert_eq!(parent.check_shared(now), Err(Exhausted::Tokens(10)));
    }
}
