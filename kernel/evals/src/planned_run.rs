//! The runs of an iteration, and their order.

use skill_evals::{CaseSplit, ComparisonArm, ModelCaseKind, OutputCase, case_slug, shuffle_runs};
use skill_testing::SkillCases;

/// A case with the arms that run it.
#[derive(Clone, Debug)]
pub(crate) struct PlannedCase {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) kind: ModelCaseKind,
    pub(crate) split: CaseSplit,
    /// The agent that a query names.
    pub(crate) agent: Option<String>,
    /// The assertions and files of a prompt.
    pub(crate) output: Option<OutputCase>,
}

/// The arms of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArmPlan {
    /// The arm of the baseline.
    pub(crate) baseline: ComparisonArm,
    /// Whether cases run with the baseline, too.
    pub(crate) is_compared: bool,
}

/// A run of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlannedRun {
    /// The index of the case.
    pub(crate) case: usize,
    pub(crate) arm: ComparisonArm,
    /// The number, counted from 1.
    pub(crate) number: u32,
}

/// Returns the cases of a skill that a model runs.
pub(crate) fn plan_cases(cases: &SkillCases) -> Vec<PlannedCase> {
    let outputs = cases.outputs.iter().map(|loaded| PlannedCase {
        name: loaded.name.clone(),
        text: loaded.case.prompt.clone(),
        kind: ModelCaseKind::Output,
        split: loaded.split,
        agent: None,
        output: Some(loaded.case.clone()),
    });
    let triggers = cases.triggers.iter().map(|loaded| PlannedCase {
        name: loaded.name.clone(),
        text: loaded.case.query.clone(),
        kind: match loaded.case.should_trigger {
            true => ModelCaseKind::Positive,
            false => ModelCaseKind::Negative,
        },
        split: loaded.split,
        agent: loaded.case.agent.clone(),
        output: None,
    });
    outputs.chain(triggers).collect()
}

impl PlannedCase {
    /// Returns the arms that run the case. A query is compared with another version only: without
    /// the skill its result is known.
    pub(crate) fn arms(&self, plan: ArmPlan) -> Vec<ComparisonArm> {
        match (self.kind, plan.baseline) {
            (ModelCaseKind::Output, baseline) | (_, baseline @ ComparisonArm::OldSkill)
                if plan.is_compared =>
            {
                vec![ComparisonArm::WithSkill, baseline]
            }
            _ => vec![ComparisonArm::WithSkill],
        }
    }

    /// Returns the directory of its runs, relative to that of the iteration.
    pub(crate) fn directory(&self) -> String {
        case_directory(self.kind, &self.name)
    }
}

/// Returns the directory of a case. Queries are apart from prompts, because tools that aggregate
/// results compare arms.
pub(crate) fn case_directory(kind: ModelCaseKind, name: &str) -> String {
    match kind {
        ModelCaseKind::Output => format!("eval-{}", case_slug(name)),
        _ => format!("triggers/{}", case_slug(name)),
    }
}

/// Returns the runs with the given numbers, in an order that the seed determines.
pub(crate) fn plan_runs(
    cases: &[PlannedCase],
    arms: ArmPlan,
    numbers: std::ops::RangeInclusive<u32>,
    seed: u64,
) -> Vec<PlannedRun> {
    // Each look has another order.
    let first = u64::from(*numbers.start());
    let mut runs: Vec<PlannedRun> = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        // Both arms have the same numbers, by which they are paired.
        for arm in case.arms(arms) {
            runs.extend(numbers.clone().map(|number| PlannedRun { case: index, arm, number }));
        }
    }
    shuffle_runs(&mut runs, seed ^ first);
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_of_prompts_are_interleaved() {
        let case = |kind| PlannedCase {
            name: "a b".to_owned(),
            text: String::new(),
            kind,
            split: CaseSplit::Train,
            agent: None,
            output: None,
        };
        let cases = [case(ModelCaseKind::Output), case(ModelCaseKind::Positive)];
        let arms = ArmPlan { baseline: ComparisonArm::WithoutSkill, is_compared: true };
        let plan = |seed| plan_runs(&cases, arms, 1..=6, seed);
        let runs = plan(7);
        assert_eq!(runs.len(), 18);
        assert_eq!(runs, plan(7));
        assert_ne!(runs, plan(8));
        // Two versions are compared by their queries, too.
        let versions = ArmPlan { baseline: ComparisonArm::OldSkill, ..arms };
        assert_eq!(plan_runs(&cases, versions, 1..=6, 7).len(), 24);
        let arms: Vec<ComparisonArm> =
            runs.iter().filter(|run| run.case == 0).map(|run| run.arm).collect();
        let changes = arms.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(changes >= 3, "{arms:?}");
        let alone = ArmPlan { is_compared: false, ..versions };
        assert_eq!(plan_runs(&cases, alone, 1..=6, 7).len(), 12);
        assert!(cases[0].directory().starts_with("eval-a-b+"));
        assert!(cases[1].directory().starts_with("triggers/"));
    }
}
