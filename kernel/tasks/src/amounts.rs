//! Budgets of tasks and the amounts that are spent from them.

use serde::{Deserialize, Serialize};

use crate::error::QueueError;

/// Amounts of model requests, tokens, active time and cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskAmounts {
    /// Model requests.
    pub turns: u64,
    /// Tokens, input and output.
    pub tokens: u64,
    /// The time in which a model request or a tool call was under way, in milliseconds.
    pub time_ms: u64,
    /// The cost in millionths of a dollar.
    pub cost: u64,
}

/// The limits of a task; `None` is unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TaskBudget {
    /// Model requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// Tokens, input and output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Active time, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
    /// Cost in millionths of a dollar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
}

impl TaskAmounts {
    /// Returns the sums, saturating: a model provider may report any number.
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        self.combine(other, u64::saturating_add)
    }

    /// Returns the differences, at least 0.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        self.combine(other, u64::saturating_sub)
    }

    fn combine(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            turns: with(self.turns, other.turns),
            tokens: with(self.tokens, other.tokens),
            time_ms: with(self.time_ms, other.time_ms),
            cost: with(self.cost, other.cost),
        }
    }
}

impl TaskBudget {
    /// Checks that no limit is 0.
    ///
    /// # Errors
    /// [`QueueErrorKind::Invalid`](crate::QueueErrorKind::Invalid) with the name of the limit.
    pub fn check(&self) -> Result<(), QueueError> {
        for (name, limit) in self.fields() {
            if limit == Some(0) {
                return Err(QueueError::invalid(
                    format!("budget `{name}` is 0"),
                    "omit the limit, or set it to 1 or more",
                ));
            }
        }
        Ok(())
    }

    /// Returns the name of the first limit that the amounts reach, with the limit.
    #[must_use]
    pub fn exhausted_by(&self, spent: &TaskAmounts) -> Option<(&'static str, u64)> {
        // In the order of the fields.
        let spent = [spent.turns, spent.tokens, spent.time_ms, spent.cost];
        let reached = |((name, limit), spent): ((&'static str, Option<u64>), u64)| {
            limit.filter(|limit| spent >= *limit).map(|limit| (name, limit))
        };
        self.fields().into_iter().zip(spent).find_map(reached)
    }

    /// Returns the part that is neither spent nor reserved.
    #[must_use]
    pub fn remaining(&self, spent: TaskAmounts, reserved: TaskAmounts) -> Self {
        let used = spent.saturating_add(reserved);
        Self {
            turns: self.turns.map(|limit| limit.saturating_sub(used.turns)),
            tokens: self.tokens.map(|limit| limit.saturating_sub(used.tokens)),
            time_ms: self.time_ms.map(|limit| limit.saturating_sub(used.time_ms)),
            cost: self.cost.map(|limit| limit.saturating_sub(used.cost)),
        }
    }

    /// Returns the budget of a subtask of a task with this rest: the requested limits, or half of
    /// the rest where none is requested.
    ///
    /// # Errors
    /// [`QueueErrorKind::Budget`](crate::QueueErrorKind::Budget) with the first limit that exceeds
    /// the rest.
    pub(crate) fn grant_from_rest(&self, rest: &Self) -> Result<Self, QueueError> {
        let mut granted = *self;
        let wanted =
            [&mut granted.turns, &mut granted.tokens, &mut granted.time_ms, &mut granted.cost];
        for (wanted, (name, rest)) in wanted.into_iter().zip(rest.fields()) {
            let Some(rest) = rest else { continue };
            if rest == 0 || wanted.is_some_and(|wanted| wanted > rest) {
                return Err(QueueError::exceeded_budget(name, *wanted, rest));
            }
            // Half, so that a sibling submitted next still has a budget.
            *wanted = Some(wanted.unwrap_or(rest.div_ceil(2)));
        }
        Ok(granted)
    }

    /// Returns the amounts that these limits reserve; an unlimited one reserves nothing.
    #[must_use]
    pub(crate) fn reservation(&self) -> TaskAmounts {
        TaskAmounts {
            turns: self.turns.unwrap_or(0),
            tokens: self.tokens.unwrap_or(0),
            time_ms: self.time_ms.unwrap_or(0),
            cost: self.cost.unwrap_or(0),
        }
    }

    fn fields(&self) -> [(&'static str, Option<u64>); 4] {
        [
            ("turns", self.turns),
            ("tokens", self.tokens),
            ("time_ms", self.time_ms),
            ("cost", self.cost),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_limit_is_rejected() {
        let budget = TaskBudget { tokens: Some(0), ..TaskBudget::default() };
        assert_eq!(budget.check().unwrap_err().to_string(), "budget `tokens` is 0");
        assert!(TaskBudget { tokens: Some(1), ..TaskBudget::default() }.check().is_ok());
    }

    #[test]
    fn subtask_gets_half_or_request() {
        let rest = TaskBudget { turns: Some(5), tokens: Some(100), ..TaskBudget::default() };
        let granted = TaskBudget { tokens: Some(100), ..TaskBudget::default() };
        let granted = granted.grant_from_rest(&rest).unwrap();
        assert_eq!((granted.turns, granted.tokens, granted.time_ms), (Some(3), Some(100), None));
        let more = TaskBudget { turns: Some(6), ..TaskBudget::default() };
        assert!(more.grant_from_rest(&rest).is_err());
        let spent = TaskBudget { turns: Some(0), ..TaskBudget::default() };
        assert!(TaskBudget::default().grant_from_rest(&spent).is_err());
    }

    #[test]
    fn limit_is_exhausted_exactly_when_reached() {
        let budget = TaskBudget { time_ms: Some(50), ..TaskBudget::default() };
        let spent = |time_ms| TaskAmounts { time_ms, ..TaskAmounts::default() };
        assert_eq!(budget.exhausted_by(&spent(49)), None);
        assert_eq!(budget.exhausted_by(&spent(50)), Some(("time_ms", 50)));
    }
}
