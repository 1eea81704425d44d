//! The rounds of an optimization: which candidates are tried, which one is kept, and when it ends.
//!
//! A candidate is kept only if the sequential test calls it better on held-out cases. A round whose
//! reply is not an edit, or whose candidate is rejected, counts as one without gain; after two of them
//! in a row the optimization ends.

use std::collections::HashSet;

use serde::Serialize;
use serde_json::Value;
use skill_format::Digest;

use crate::model_report::SpentAmounts;
use crate::paired_test::{ChangeVerdict, PairedReport};
use crate::reflection::RejectedEdit;
use crate::skill_edit::{OptimizedPart, SkillEditError, SuggestedEdit};

/// The rounds without gain after which an optimization ends.
const MAX_WITHOUT_GAIN: u32 = 2;

/// The name of the file with the report of an optimization, in its directory.
pub const OPTIMIZATION_FILE: &str = "optimization.json";

/// The next action of an optimization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptimizationStep {
    /// Request another candidate.
    Reflect,
    /// Run the last kept candidate once more, against the installed text.
    Confirm,
    /// End without a candidate.
    Stop(StopReason),
}

/// The reason why an optimization ends without a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// No train case failed.
    NoFailures,
    /// Two rounds in a row had no gain.
    WithoutGain,
    /// All rounds were made.
    LastRound,
    /// The runs on fresh seeds did not confirm the gain.
    NotConfirmed,
}

/// The result of a round.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum RoundOutcome {
    /// The candidate is better.
    Kept {
        /// The comparison with the text before.
        comparison: PairedReport,
    },
    /// The comparison does not show that it is better.
    NotBetter {
        /// The comparison with the text before.
        comparison: PairedReport,
    },
    /// The rules or the check of proposals rejected it.
    Rejected {
        /// The reason.
        reason: String,
    },
    /// The reply of the model is not an edit.
    NoEdit {
        /// The reason.
        reason: String,
    },
}

/// A round.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OptimizationRound {
    /// The number, counted from 1.
    pub number: u32,
    /// The edit; `None` if the reply has none.
    pub change: Option<Value>,
    /// The result.
    #[serde(flatten)]
    pub result: RoundOutcome,
}

/// The end of an optimization.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum OptimizationEnd {
    /// The last kept candidate is better, confirmed on fresh seeds.
    Improved,
    /// No candidate is.
    NoImprovement {
        /// The reason.
        reason: StopReason,
    },
    /// The budget was spent before a result.
    Budget {
        /// The limit.
        reason: String,
    },
    /// The runs have no meaning.
    Harness {
        /// The reason.
        reason: String,
    },
}

/// The state of an optimization.
#[derive(Clone, Debug)]
pub struct SkillOptimization {
    max_rounds: u32,
    installed: String,
    current: String,
    tried: HashSet<Digest>,
    rounds: Vec<OptimizationRound>,
    rejected: Vec<RejectedEdit>,
    without_gain: u32,
}

/// The report of an optimization.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OptimizationReport {
    /// The skill.
    pub skill_id: String,
    /// The part that was changed.
    pub part: OptimizedPart,
    /// The model of the runs and of the candidates.
    pub model: String,
    /// The model that judged sentences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// The seed.
    pub seed: u64,
    /// The directory with the results.
    pub directory: String,
    /// Whether an interrupted command began it, whose replies and runs are kept.
    pub is_resumed: bool,
    /// The cases that candidates are made from.
    pub train_cases: usize,
    /// The cases that decide.
    pub held_out_cases: usize,
    /// Whether readers of the skill can see held-out cases.
    pub is_visible: bool,
    /// The train cases that failed with the installed text.
    pub train_failures: usize,
    /// The rounds.
    pub rounds: Vec<OptimizationRound>,
    /// The comparison of the best candidate with the installed text on fresh seeds.
    pub confirmation: Option<PairedReport>,
    /// The end.
    pub end: OptimizationEnd,
    /// The text of the best candidate; only if it is an improvement.
    #[serde(skip)]
    pub text: Option<String>,
    /// The proposal that was recorded.
    pub proposal: Option<String>,
    /// The amounts that all requests spent.
    pub spent: SpentAmounts,
}

impl StopReason {
    /// Returns the reason as a lower-case fragment.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoFailures => "no failures to learn from",
            Self::WithoutGain => "two rounds without gain",
            Self::LastRound => "no candidate is better",
            Self::NotConfirmed => "the gain is not confirmed on fresh seeds",
        }
    }
}

impl SkillOptimization {
    /// Starts with the installed text and the edits that people rejected before.
    #[must_use]
    pub fn new(installed: String, max_rounds: u32, rejected: Vec<RejectedEdit>) -> Self {
        let tried = HashSet::from([Digest::compute(installed.as_bytes())]);
        let current = installed.clone();
        let rounds = Vec::new();
        Self { max_rounds, installed, current, tried, rounds, rejected, without_gain: 0 }
    }

    /// Returns the next action, given the number of train cases that fail with the present text.
    #[must_use]
    pub fn next_step(&self, failures: usize) -> OptimizationStep {
        let is_last = self.rounds.len() >= self.max_rounds as usize;
        let is_stuck = self.without_gain >= MAX_WITHOUT_GAIN;
        if failures > 0 && !is_last && !is_stuck {
            OptimizationStep::Reflect
        } else if self.current != self.installed {
            OptimizationStep::Confirm
        } else if failures == 0 {
            OptimizationStep::Stop(StopReason::NoFailures)
        } else if is_stuck {
            OptimizationStep::Stop(StopReason::WithoutGain)
        } else {
            OptimizationStep::Stop(StopReason::LastRound)
        }
    }

    /// Returns the present text: the installed one, or that of the last kept candidate.
    #[must_use]
    pub fn current(&self) -> &str {
        &self.current
    }

    /// Returns the installed text.
    #[must_use]
    pub fn installed(&self) -> &str {
        &self.installed
    }

    /// Returns the rejected edits, the oldest first.
    #[must_use]
    pub fn rejected(&self) -> &[RejectedEdit] {
        &self.rejected
    }

    /// Returns the rounds so far.
    #[must_use]
    pub fn rounds(&self) -> &[OptimizationRound] {
        &self.rounds
    }

    /// Takes the reply of a round. Returns a candidate that has to be checked; `None` if the round is
    /// over: the reply is not an edit, or its text was tried before.
    pub fn take_reply(
        &mut self,
        reply: Result<SuggestedEdit, SkillEditError>,
    ) -> Option<SuggestedEdit> {
        let edit = match reply {
            Ok(edit) => edit,
            Err(error) => {
                let reason = error.to_string();
                // Without the reply, which may be long and is not an edit.
                self.rejected.push(RejectedEdit { change: Value::Null, reason: reason.clone() });
                self.end_round(None, RoundOutcome::NoEdit { reason });
                return None;
            }
        };
        // Equal bytes can only differ by noise, so that no run may call them a gain.
        if !self.tried.insert(Digest::compute(edit.text.as_bytes())) {
            let reason = match edit.text == self.installed {
                true => "no_change: it is the installed text",
                false => "repeated: the same text was tried before",
            };
            self.reject(edit, reason.to_owned(), reason.to_owned());
            return None;
        }
        Some(edit)
    }

    /// Ends a round whose candidate the rules or the check of proposals reject. `visible` is the reason
    /// for the next request.
    pub fn reject(&mut self, edit: SuggestedEdit, reason: String, visible: String) {
        self.rejected.push(RejectedEdit { change: edit.change.clone(), reason: visible });
        self.end_round(Some(edit.change), RoundOutcome::Rejected { reason });
    }

    /// Ends a round whose candidate was compared with the present text. Returns whether it is kept.
    pub fn assess(&mut self, edit: SuggestedEdit, comparison: PairedReport) -> bool {
        let is_kept = comparison.verdict == Some(ChangeVerdict::Better);
        if is_kept {
            self.current = edit.text;
            self.end_round(Some(edit.change), RoundOutcome::Kept { comparison });
        } else {
            // The figures of the held-out cases stay unknown to the model.
            let reason =
                format!("it is not better: train cases {:+.2} on average", comparison.train.mean);
            self.rejected.push(RejectedEdit { change: edit.change.clone(), reason });
            self.end_round(Some(edit.change), RoundOutcome::NotBetter { comparison });
        }
        is_kept
    }

    fn end_round(&mut self, change: Option<Value>, result: RoundOutcome) {
        match result {
            RoundOutcome::Kept { .. } => self.without_gain = 0,
            _ => self.without_gain += 1,
        }
        let number = u32::try_from(self.rounds.len() + 1).unwrap_or(u32::MAX);
        self.rounds.push(OptimizationRound { number, change, result });
    }
}

/// Returns whether runs on fresh seeds confirm that a candidate is not worse than the installed text.
#[must_use]
pub fn is_confirmed(comparison: &PairedReport) -> bool {
    let is_measured = comparison.held_out.pairs > 0 && comparison.train.pairs > 0;
    is_measured
        && comparison.verdict != Some(ChangeVerdict::Blocked)
        && comparison.held_out.mean >= 0.0
        && comparison.train.mean >= 0.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::paired_test::{PairedCase, assess_pairs};

    fn edit(text: &str) -> SuggestedEdit {
        SuggestedEdit { text: text.to_owned(), change: json!({"description": text}) }
    }

    fn report(base: f64, new: f64) -> PairedReport {
        let case = |is_held_out| PairedCase { is_held_out, pairs: vec![(base, new); 12] };
        let cases: Vec<PairedCase> = (0..20).map(|at| case(at < 8)).collect();
        assess_pairs(&cases, 12)
    }

    fn start(rounds: u32) -> SkillOptimization {
        SkillOptimization::new("installed".to_owned(), rounds, Vec::new())
    }

    #[test]
    fn only_better_candidates_are_kept() {
        let mut state = start(5);
        assert_eq!(state.next_step(1), OptimizationStep::Reflect);
        let first = state.take_reply(Ok(edit("first"))).unwrap();
        assert!(state.assess(first, report(0.0, 1.0)));
        assert_eq!((state.current(), state.installed()), ("first", "installed"));
        // A fixed number of runs may leave the comparison open.
        let open = PairedReport { verdict: None, ..report(0.0, 1.0) };
        let mut other = state.clone();
        let next = other.take_reply(Ok(edit("open"))).unwrap();
        assert!(!other.assess(next, open));
        for (text, comparison) in [("same", report(1.0, 1.0)), ("worse", report(1.0, 0.0))] {
            let next = state.take_reply(Ok(edit(text))).unwrap();
            assert!(!state.assess(next, comparison));
        }
        assert_eq!(state.current(), "first");
        // Two rounds without gain, but one with.
        assert_eq!(state.next_step(1), OptimizationStep::Confirm);
        assert_eq!(state.rejected().len(), 2);
        let shown = &state.rejected()[1].reason;
        assert_eq!(shown, "it is not better: train cases -1.00 on average");
    }

    #[test]
    fn equal_text_is_never_gain() {
        let mut state = start(5);
        assert_eq!(state.take_reply(Ok(edit("installed"))), None);
        let first = state.take_reply(Ok(edit("first"))).unwrap();
        assert!(state.assess(first, report(0.0, 1.0)));
        for text in ["first", "installed"] {
            assert_eq!(state.take_reply(Ok(edit(text))), None);
        }
        let reasons: Vec<&str> = state.rejected().iter().map(|edit| edit.reason.as_str()).collect();
        let (same, repeated) =
            ("no_change: it is the installed text", "repeated: the same text was tried before");
        assert_eq!(reasons, [same, repeated, same]);
        assert_eq!(state.next_step(1), OptimizationStep::Confirm);
    }

    #[test]
    fn rounds_end_for_stated_reasons() {
        let stop = |state: &SkillOptimization, failures| match state.next_step(failures) {
            OptimizationStep::Stop(reason) => Some(reason),
            _ => None,
        };
        let mut state = start(5);
        assert_eq!(stop(&state, 0), Some(StopReason::NoFailures));
        assert_eq!(state.take_reply(Err(SkillEditError::NotJson)), None);
        assert_eq!(stop(&state, 1), None);
        let next = state.take_reply(Ok(edit("next"))).unwrap();
        state.reject(next, "leak: held-out".to_owned(), "leak".to_owned());
        assert_eq!(stop(&state, 1), Some(StopReason::WithoutGain));
        assert_eq!(state.rejected()[1].reason, "leak");
        let mut state = start(1);
        assert_eq!(state.take_reply(Err(SkillEditError::NotJson)), None);
        assert_eq!(stop(&state, 1), Some(StopReason::LastRound));
        // A kept candidate without failures is confirmed at once.
        let mut state = start(5);
        let next = state.take_reply(Ok(edit("next"))).unwrap();
        state.assess(next, report(0.0, 1.0));
        assert_eq!(state.next_step(0), OptimizationStep::Confirm);
    }

    #[test]
    fn confirmation_needs_runs_without_loss() {
        assert!(is_confirmed(&report(0.0, 1.0)) && is_confirmed(&report(1.0, 1.0)));
        assert!(!is_confirmed(&report(1.0, 0.0)));
        let empty: Vec<PairedCase> =
            (0..20).map(|at| PairedCase { is_held_out: at < 8, pairs: Vec::new() }).collect();
        assert!(!is_confirmed(&assess_pairs(&empty, 12)));
    }

    proptest! {
        #[test]
        fn every_optimization_ends(replies in proptest::collection::vec(0_u8..4, 0..40), max in 1_u32..8) {
            let mut state = start(max);
            let mut replies = replies.into_iter().chain(std::iter::repeat(0));
            let mut count = 0;
            while state.next_step(1) == OptimizationStep::Reflect {
                count += 1;
                let text = format!("text {count}");
                let candidate = match replies.next() {
                    Some(0) | None => state.take_reply(Err(SkillEditError::NotJson)),
                    Some(1) => state.take_reply(Ok(edit("installed"))),
                    _ => state.take_reply(Ok(edit(&text))),
                };
                if let Some(candidate) = candidate {
                    let new = f64::from(u8::from(count % 2 == 0));
                    state.assess(candidate, report(0.0, new));
                }
                prop_assert_eq!(state.rounds().len(), count as usize);
            }
            prop_assert!(count <= max);
            let kept = state.rounds().iter().any(|round| matches!(round.result, RoundOutcome::Kept { .. }));
            prop_assert_eq!(kept, state.next_step(1) == OptimizationStep::Confirm);
            prop_assert_eq!(kept, state.current() != state.installed());
        }
    }
}
