//! One budget, with its limits and the used amounts.
//!
//! A budget may have a parent, for which everything counts too, except turns, which each run counts
//! for itself and for its task.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::active_clock::ActiveClock;

/// A limit that ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "what", content = "limit")]
pub enum ExhaustedLimit {
    /// Model requests: `max_turns`.
    Turns(u32),
    /// Tokens, input and output: `max_tokens_per_invocation`.
    Tokens(u64),
    /// Active time in milliseconds: `time_budget_ms`.
    Time(u64),
    /// The cost of model requests in millionths of the currency of their prices; only the budget of a
    /// task limits it.
    Cost(u64),
}

/// The limits of a budget; `None` means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BudgetLimits {
    /// The maximum number of model requests.
    pub turns: Option<u32>,
    /// The maximum number of tokens, input and output together.
    pub tokens: Option<u64>,
    /// The maximum active time in milliseconds.
    pub time_ms: Option<u64>,
    /// The maximum cost in millionths of the currency of the models' prices. A model without a price
    /// counts as free.
    pub cost: Option<u64>,
}

/// The amounts used of a budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BudgetUsage {
    /// The number of model requests.
    pub turns: u32,
    /// The number of tokens, input and output together.
    pub tokens: u64,
    /// The active time in milliseconds.
    pub time_ms: u64,
    /// The cost in millionths of the currency of the models' prices.
    pub cost: u64,
}

/// The budget of a run, or of a task whose runs share it.
#[derive(Debug)]
pub struct RunBudget {
    limits: BudgetLimits,
    /// Turns of the runs below count too: true for the budget of a task.
    has_shared_turns: bool,
    state: Mutex<BudgetState>,
    parent: Option<Arc<RunBudget>>,
    /// Notified whenever a clock of the tree starts or stops.
    clock_changed: Arc<Notify>,
}

/// The used amounts of a budget, and the activities under way.
#[derive(Debug, Default)]
struct BudgetState {
    turns: u32,
    tokens: u64,
    cost: u64,
    clock: ActiveClock,
    /// The tool calls under way by their id, with the number of waits in each of them.
    calls: HashMap<u64, usize>,
}

/// A guard of an activity that uses time: one model request or one tool call.
#[derive(Debug)]
#[must_use = "time counts until the guard is dropped"]
pub struct ActivityGuard {
    budget: Arc<RunBudget>,
    /// The id of the tool call; `None` for a model request.
    call_id: Option<u64>,
}

/// A guard of a wait in a tool call, which uses no time.
#[derive(Debug)]
#[must_use = "the call waits until the guard is dropped"]
pub struct CallWaitGuard {
    budget: Arc<RunBudget>,
    call_id: u64,
}

impl RunBudget {
    /// Creates the budget of a task, which earlier attempts have used in part.
    #[must_use]
    pub fn with_usage(limits: BudgetLimits, used: BudgetUsage) -> Arc<Self> {
        Arc::new(Self::with_state(limits, used, None))
    }

    /// Creates the budget of a run within another budget, if there is one.
    #[must_use]
    pub fn new(limits: BudgetLimits, parent: Option<Arc<Self>>) -> Arc<Self> {
        let budget = Self::with_state(limits, BudgetUsage::default(), parent);
        Arc::new(Self { has_shared_turns: false, ..budget })
    }

    fn with_state(limits: BudgetLimits, used: BudgetUsage, parent: Option<Arc<Self>>) -> Self {
        let BudgetUsage { turns, tokens, time_ms, cost } = used;
        let clock = ActiveClock::new(Duration::from_millis(time_ms));
        let state = BudgetState { turns, tokens, cost, clock, calls: HashMap::new() };
        let clock_changed = match &parent {
            Some(parent) => Arc::clone(&parent.clock_changed),
            None => Arc::default(),
        };
        let state = Mutex::new(state);
        Self { limits, has_shared_turns: true, state, parent, clock_changed }
    }

    /// Returns the amounts used so far, with the time of activities under way.
    #[must_use]
    pub fn usage(&self) -> BudgetUsage {
        let state = self.lock_state();
        let time_ms = state.clock.elapsed(Instant::now()).as_millis();
        BudgetUsage {
            turns: state.turns,
            tokens: state.tokens,
            time_ms: u64::try_from(time_ms).unwrap_or(u64::MAX),
            cost: state.cost,
        }
    }

    /// Counts a turn, if the budget has room for one, and returns its number.
    ///
    /// # Errors
    /// The exhausted limit.
    pub fn start_turn(&self, now: Instant) -> Result<u32, ExhaustedLimit> {
        self.check_limits(now)?;
        for budget in self.parents().filter(|budget| budget.has_shared_turns) {
            budget.lock_state().count_turn();
        }
        Ok(self.lock_state().count_turn())
    }

    /// Counts the tokens and the cost of a request, here and in every parent.
    pub fn record_usage(&self, tokens: u64, cost: u64) {
        for budget in self.chain() {
            let mut state = budget.lock_state();
            // Saturates: a faulty provider may report any number.
            state.tokens = state.tokens.saturating_add(tokens);
            state.cost = state.cost.saturating_add(cost);
        }
    }

    /// Checks the limits of the budget and of its parents.
    ///
    /// # Errors
    /// The exhausted limit.
    pub fn check_limits(&self, now: Instant) -> Result<(), ExhaustedLimit> {
        for budget in self.chain() {
            // Runs count their turns alone; only a task shares its limit with the runs below.
            if std::ptr::eq(budget, self) || budget.has_shared_turns {
                budget.check_turns()?;
            }
            budget.check_amounts()?;
            budget.check_time(now)?;
        }
        Ok(())
    }

    fn check_turns(&self) -> Result<(), ExhaustedLimit> {
        let used = self.lock_state().turns;
        match self.limits.turns.filter(|max| used >= *max) {
            Some(max) => Err(ExhaustedLimit::Turns(max)),
            None => Ok(()),
        }
    }

    fn check_amounts(&self) -> Result<(), ExhaustedLimit> {
        let (tokens, cost) = {
            let state = self.lock_state();
            (state.tokens, state.cost)
        };
        if let Some(max) = self.limits.tokens.filter(|max| tokens >= *max) {
            return Err(ExhaustedLimit::Tokens(max));
        }
        match self.limits.cost.filter(|max| cost >= *max) {
            Some(max) => Err(ExhaustedLimit::Cost(max)),
            None => Ok(()),
        }
    }

    fn check_time(&self, now: Instant) -> Result<(), ExhaustedLimit> {
        match self.limits.time_ms {
            Some(ms) if self.rest_of(ms, now).is_zero() => Err(ExhaustedLimit::Time(ms)),
            _ => Ok(()),
        }
    }

    /// Waits until the active time of this budget or of a parent is used up; forever, if none has
    /// such a limit.
    pub async fn wait_for_deadline(&self) -> ExhaustedLimit {
        if self.chain().all(|budget| budget.limits.time_ms.is_none()) {
            return std::future::pending().await;
        }
        loop {
            let mut changed = pin!(self.clock_changed.notified());
            // Registered before the clocks are read, so that no change in between is missed.
            changed.as_mut().enable();
            let now = Instant::now();
            if let Err(limit) = self.chain().try_for_each(|budget| budget.check_time(now)) {
                return limit;
            }
            match self.chain().filter_map(|budget| budget.deadline(now)).min() {
                Some(deadline) => tokio::select! {
                    () = sleep_until(deadline) => {}
                    () = changed => {}
                },
                None => changed.await,
            }
        }
    }

    /// Returns the moment at which the time will be used up; `None` while the clock stands still.
    fn deadline(&self, now: Instant) -> Option<Instant> {
        let limit = Duration::from_millis(self.limits.time_ms?);
        self.lock_state().clock.reaches(limit, now)
    }

    /// Returns the milliseconds of active time that remain, here and in every parent, or `None`
    /// without a limit.
    #[must_use]
    pub fn remaining_ms(&self, now: Instant) -> Option<u64> {
        let remaining = self.chain().filter_map(|budget| {
            let rest = budget.rest_of(budget.limits.time_ms?, now);
            Some(u64::try_from(rest.as_millis()).unwrap_or(u64::MAX))
        });
        remaining.min()
    }

    fn rest_of(&self, limit_ms: u64, now: Instant) -> Duration {
        let elapsed = self.lock_state().clock.elapsed(now);
        Duration::from_millis(limit_ms).saturating_sub(elapsed)
    }

    /// Returns the number of model requests so far.
    #[must_use]
    pub fn turn_count(&self) -> u32 {
        self.lock_state().turns
    }

    /// Counts time from now on, for a model request.
    pub fn start_request(self: &Arc<Self>) -> ActivityGuard {
        self.start_clocks();
        ActivityGuard { budget: Arc::clone(self), call_id: None }
    }

    /// Counts time from now on, for a tool call with its id. [`RunBudget::start_wait`] pauses it.
    pub fn start_call(self: &Arc<Self>, call_id: u64) -> ActivityGuard {
        self.lock_state().calls.insert(call_id, 0);
        self.start_clocks();
        ActivityGuard { budget: Arc::clone(self), call_id: Some(call_id) }
    }

    /// Stops counting time for a tool call while it only waits: for a person, a lock, a nested call
    /// or a delegated run, which count for themselves. Without effect for an id that is not that of
    /// a call under way.
    pub fn start_wait(self: &Arc<Self>, call_id: u64) -> CallWaitGuard {
        let waits = self.lock_state().calls.get_mut(&call_id).map(|waits| {
            *waits += 1;
            *waits
        });
        if waits == Some(1) {
            self.stop_clocks();
        }
        CallWaitGuard { budget: Arc::clone(self), call_id }
    }

    /// Starts the clocks of the budget and of its parents for one more activity.
    fn start_clocks(&self) {
        let now = Instant::now();
        let started = self.chain().map(|budget| budget.lock_state().clock.add_activity(now));
        self.notify_if_any(started);
    }

    fn stop_clocks(&self) {
        let now = Instant::now();
        let stopped = self.chain().map(|budget| budget.lock_state().clock.remove_activity(now));
        self.notify_if_any(stopped);
    }

    fn notify_if_any(&self, changes: impl Iterator<Item = bool>) {
        // Every clock has to change, so the iterator must not stop at the first one.
        if changes.fold(false, |any, changed| any | changed) {
            self.clock_changed.notify_waiters();
        }
    }

    /// Returns the budget and its parents, from the innermost on.
    fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |budget| budget.parent.as_deref())
    }

    fn parents(&self) -> impl Iterator<Item = &Self> {
        self.chain().skip(1)
    }

    /// Locks the state; it stays consistent even if another thread panicked.
    fn lock_state(&self) -> MutexGuard<'_, BudgetState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BudgetState {
    fn count_turn(&mut self) -> u32 {
        self.turns = self.turns.saturating_add(1);
        self.turns
    }
}

impl Drop for ActivityGuard {
    fn drop(&mut self) {
        let waits = match self.call_id {
            Some(call_id) => self.budget.lock_state().calls.remove(&call_id).unwrap_or_default(),
            None => 0,
        };
        // The clocks of a call that waits were already stopped.
        if waits == 0 {
            self.budget.stop_clocks();
        }
    }
}

impl Drop for CallWaitGuard {
    fn drop(&mut self) {
        let waits = self.budget.lock_state().calls.get_mut(&self.call_id).map(|waits| {
            *waits = waits.saturating_sub(1);
            *waits
        });
        // The call may have ended during the wait.
        if waits == Some(0) {
            self.budget.start_clocks();
        }
    }
}

impl std::fmt::Display for ExhaustedLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Turns(limit) => write!(f, "{limit} turns"),
            Self::Tokens(limit) => write!(f, "{limit} tokens"),
            Self::Time(limit) => write!(f, "{limit} ms"),
            Self::Cost(limit) => write!(f, "{limit} millionths of cost"),
        }
    }
}

impl ExhaustedLimit {
    /// Returns the name of the limit: a field of the manifest, or `cost` of a task's budget.
    #[must_use]
    pub fn field(&self) -> &'static str {
        match self {
            Self::Turns(_) => "max_turns",
            Self::Tokens(_) => "max_tokens_per_invocation",
            Self::Time(_) => "time_budget_ms",
            Self::Cost(_) => "cost",
        }
    }
}

#[cfg(test)]
mod tests;
