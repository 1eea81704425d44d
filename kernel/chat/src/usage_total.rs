//! The tokens and the cost of the turns of a chat.

use std::collections::BTreeMap;

use serde::Serialize;
use skillhost_conversation::{RunOutcome, TokenUsage};

use crate::pluralize::pluralize;

/// The usage of one model.
#[derive(Debug, Default, Clone, PartialEq, Serialize)]
pub(crate) struct ModelUsage {
    /// The number of model requests.
    pub(crate) requests: u64,
    pub(crate) usage: TokenUsage,
    /// The cost of the turns whose price is known.
    pub(crate) cost: f64,
    /// Whether a turn has no known price.
    pub(crate) is_unpriced: bool,
}

/// The usage of a chat, by model.
#[derive(Debug, Default, Clone, PartialEq, Serialize)]
pub(crate) struct UsageTotal {
    models: BTreeMap<String, ModelUsage>,
}

impl UsageTotal {
    /// Adds the usage of a turn.
    pub(crate) fn add(&mut self, outcome: &RunOutcome) {
        let total = self.models.entry(outcome.model.clone()).or_default();
        total.requests += u64::from(outcome.turns);
        total.usage += outcome.usage;
        match outcome.cost {
            Some(cost) => total.cost += cost,
            None => total.is_unpriced = true,
        }
    }

    /// Returns a line for each model, and one for all of several models.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines: Vec<_> =
            self.models.iter().map(|(model, used)| format!("{model}  {}", used.format())).collect();
        if self.models.len() > 1 {
            let mut all = ModelUsage::default();
            for used in self.models.values() {
                all.requests += used.requests;
                all.usage += used.usage;
                all.cost += used.cost;
                all.is_unpriced |= used.is_unpriced;
            }
            lines.push(format!("all models  {}", all.format()));
        }
        lines
    }
}

impl ModelUsage {
    fn format(&self) -> String {
        let TokenUsage { input, output, cached, estimated } = self.usage;
        let about = if estimated { "approx. " } else { "" };
        let cost = match (self.is_unpriced, self.cost > 0.0) {
            (false, _) => format!("cost {:.4}", self.cost),
            (true, true) => format!("cost {:.4} and turns without a known price", self.cost),
            (true, false) => "price unknown".to_owned(),
        };
        let requests = pluralize(self.requests, "request");
        format!("{requests} · {about}{input} tokens in ({cached} cached), {output} out · {cost}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(model: &str, cost: Option<f64>) -> RunOutcome {
        RunOutcome {
            run_id: String::new(),
            agent: "worker".parse().unwrap(),
            model: model.into(),
            text: String::new(),
            turns: 2,
            usage: TokenUsage { input: 100, output: 10, cached: 40, estimated: false },
            cost,
            skills: Vec::new(),
        }
    }

    #[test]
    fn turns_add_up_by_model() {
        let mut total = UsageTotal::default();
        assert_eq!(total.lines(), [""; 0]);
        total.add(&outcome("a/b", Some(0.25)));
        total.add(&outcome("a/b", Some(0.5)));
        let line = "a/b  4 requests · 200 tokens in (80 cached), 20 out · cost 0.7500";
        assert_eq!(total.lines(), [line]);
        total.add(&outcome("c/d", None));
        assert_eq!(
            total.lines(),
            [
                line,
                "c/d  2 requests · 100 tokens in (40 cached), 10 out · price unknown",
                "all models  6 requests · 300 tokens in (120 cached), 30 out · cost 0.7500 and turns \
                 without a known price",
            ]
        );
    }
}
