//! The request to optimize a skill, and the failures that its author may see.

use skill_evals::{CaseSplit, HeldOutTexts, OptimizedPart, RejectedEdit, TrainFailure};

use crate::case_files::{LoadedCase, SkillCases};
use crate::harness::RoutingHarness;
use crate::model_request::ModelTestRequest;
use crate::routing::{AgentViews, test_routing};

/// The request to optimize a skill.
#[derive(Clone, Debug)]
pub struct OptimizationRequest {
    /// The part to change.
    pub part: OptimizedPart,
    /// The most rounds.
    pub rounds: u32,
    /// The text of the installed SKILL.md.
    pub text: String,
    /// The path of that file in the files of the skill.
    pub path: String,
    /// The installed files, the cases, the model and the limits of all runs.
    pub test: ModelTestRequest,
    /// The train queries that the catalog fails with the installed text.
    pub failures: Vec<TrainFailure>,
    /// The edits that people rejected, the oldest first.
    pub rejected: Vec<RejectedEdit>,
}

/// A candidate after the checks that need no model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScreenedCandidate {
    /// It may be run.
    Accepted {
        /// The train queries that the catalog fails with it.
        failures: Vec<TrainFailure>,
    },
    /// It is not run.
    Rejected {
        /// The reason, for operators.
        reason: String,
        /// The reason without texts, names and results of held-out cases, for a model.
        visible: String,
    },
}

impl SkillCases {
    /// Keeps the cases by which a part of a skill is optimized: queries or prompts.
    pub fn retain_part(&mut self, part: OptimizedPart) {
        match part {
            OptimizedPart::Description => self.outputs.clear(),
            OptimizedPart::Body => self.triggers.clear(),
        }
    }

    /// Keeps the cases of one side of the split.
    pub fn retain_split(&mut self, split: CaseSplit) {
        self.triggers.retain(|case| case.split == split);
        self.outputs.retain(|case| case.split == split);
    }

    /// Returns the number of cases on a side, and whether a reader of the skill can see one of them.
    #[must_use]
    pub fn count_split(&self, split: CaseSplit) -> (usize, bool) {
        fn on_side<T>(cases: &[LoadedCase<T>], split: CaseSplit) -> (usize, bool) {
            let found = || cases.iter().filter(|case| case.split == split);
            (found().count(), found().any(|case| !case.is_private))
        }
        let (queries, prompts) = (on_side(&self.triggers, split), on_side(&self.outputs, split));
        (queries.0 + prompts.0, queries.1 || prompts.1)
    }

    /// Returns the texts of the held-out cases. The texts of train cases and `text`, that of the
    /// skill, are not hidden.
    #[must_use]
    pub fn held_out_texts(&self, text: &str) -> HeldOutTexts {
        let (mut queries, mut outputs, mut visible) = (Vec::new(), Vec::new(), text.to_owned());
        for loaded in &self.triggers {
            match loaded.split {
                CaseSplit::HeldOut => queries.push(loaded.case.query.clone()),
                CaseSplit::Train => visible.push_str(&format!("\n{}", loaded.case.query)),
            }
        }
        for loaded in &self.outputs {
            let case = &loaded.case;
            match loaded.split {
                CaseSplit::HeldOut => outputs.push(case.clone()),
                CaseSplit::Train => {
                    let expected = case.expected_output.as_deref().unwrap_or_default();
                    visible.push_str(&format!("\n{}\n{expected}", case.prompt));
                    for assertion in &case.assertions {
                        visible.push_str(&format!("\n{}", assertion.text()));
                    }
                }
            }
        }
        HeldOutTexts::new(queries, outputs, visible)
    }
}

/// Returns the train queries of a skill that the catalog fails.
#[must_use]
pub fn find_routing_failures(
    harness: &RoutingHarness,
    cases: &SkillCases,
    views: &AgentViews,
) -> Vec<TrainFailure> {
    let mut train = cases.clone();
    // Held-out queries are not even searched, so that no result of theirs can be passed on.
    train.retain_split(CaseSplit::Train);
    let report = test_routing(harness, &train, views);
    let failed = report.results.iter().filter_map(|result| {
        let failure = result.failure.as_ref()?;
        let expected = match result.should_trigger {
            true => "the catalog offers the skill for this query",
            false => "the catalog does not offer the skill first for this query",
        };
        Some(TrainFailure {
            input: result.query.clone(),
            expected: expected.to_owned(),
            happened: failure.describe(result),
        })
    });
    failed.collect()
}
