//! The result of runs with a model that compared a proposal with its base.

use std::fmt;

use serde::{Deserialize, Serialize};
use skill_evals::{ChangeVerdict, PairedFigures};
use skill_format::Digest;

/// The result of runs with a model that compared a proposal with its base. The person who approves
/// the proposal approves exactly this result with it, see [`ProposalSummary::review_digest`].
///
/// [`ProposalSummary::review_digest`]: crate::ProposalSummary::review_digest
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelEvidence {
    /// The digest of the text before; `None` for a new file.
    pub base: Option<Digest>,
    /// The digest of the text after.
    pub new: Digest,
    /// The digest of all files of the skill before the change, without the cases.
    #[serde(default)]
    pub tree: String,
    /// The digest of the skill's cases with their input files, in hexadecimal digits.
    pub cases: String,
    /// The digest of the other skills of the catalog.
    pub catalog: String,
    /// The version of the program that made the runs.
    pub harness: String,
    /// The model, `provider/model`.
    pub model: String,
    /// The model that judged sentences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// The agent whose turns were run.
    pub agent: String,
    /// The seed of the order of runs.
    pub seed: u64,
    /// The verdict.
    pub verdict: ChangeVerdict,
    /// The runs of each case and version.
    pub runs: usize,
    /// The figures of the cases that authors may see.
    pub train: EvidenceFigures,
    /// The figures of the other cases.
    pub held_out: EvidenceFigures,
    /// The cases that always passed and never pass now.
    pub reversed: usize,
    /// The tokens that were spent.
    pub tokens: u64,
    /// The cost in millionths of a US dollar; `None` if a price is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_microdollars: Option<u64>,
}

/// The figures of one part of the cases, in whole numbers: equal results have equal digests on every
/// machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceFigures {
    /// The cases.
    pub cases: usize,
    /// The pairs of runs.
    pub pairs: usize,
    /// The mean of the differences, new minus base, in thousandths.
    pub mean_permille: i64,
    /// The half width of the interval of 95 % of the mean, in thousandths.
    pub error_permille: i64,
}

/// The consequence of a result of runs with a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelCheckMode {
    /// A recorded result counts: one that is blocked, unclear or stale requires a person with a
    /// reason. A proposal without a result does not.
    #[default]
    WhenRun,
    /// A proposal for a skill with cases requires a result, or a person with a reason.
    Require,
    /// The result is shown to the reviewers.
    Advise,
}

impl ModelCheckMode {
    /// Returns whether it is the mode of homes that state none.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl EvidenceFigures {
    /// Rounds the figures of a test.
    #[must_use]
    pub fn from_figures(figures: &PairedFigures) -> Self {
        let permille = |value: f64| (value * 1_000.0).round() as i64;
        Self {
            cases: figures.cases,
            pairs: figures.pairs,
            mean_permille: permille(figures.mean),
            error_permille: permille(figures.error),
        }
    }
}

impl fmt::Display for EvidenceFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = |permille: i64| permille as f64 / 1_000.0;
        write!(f, "{:+.2} ± {:.2}", unit(self.mean_permille), unit(self.error_permille))
    }
}

impl ModelEvidence {
    /// Returns the result on one line.
    #[must_use]
    pub fn describe(&self) -> String {
        let Self { verdict, train, held_out, runs, model, .. } = self;
        let reversed = match self.reversed {
            0 => String::new(),
            1 => ", 1 case always passed and never passes now".to_owned(),
            count => format!(", {count} cases always passed and never pass now"),
        };
        format!(
            "{}: held-out {held_out} in {} cases, train {train} in {}{reversed}, after {runs} runs \
             with {model}",
            verdict.as_str(),
            held_out.cases,
            train.cases
        )
    }

    /// Returns the reason for which the result alone does not suffice for an approval. `base` is
    /// the digest of the text before the change, `tree` that of all files of the skill now, `cases` that
    /// of its cases now, `harness` the version of this program.
    #[must_use]
    pub fn find_objection(
        &self,
        base: Option<Digest>,
        tree: &str,
        cases: &str,
        harness: &str,
    ) -> Option<String> {
        let stale = if self.base != base || self.tree != tree {
            Some("the skill changed")
        } else if self.cases != cases {
            Some("cases changed")
        } else if self.harness != harness {
            Some("the program changed")
        } else {
            None
        };
        if let Some(part) = stale {
            return Some(format!("model: evidence is stale: {part}"));
        }
        self.is_disadvantage().then(|| format!("model: {}", self.describe()))
    }

    /// Returns whether the verdict alone does not suffice for an approval.
    #[must_use]
    pub fn is_disadvantage(&self) -> bool {
        match self.verdict {
            // Without enough held-out cases the result is advice.
            ChangeVerdict::Better | ChangeVerdict::NotLower | ChangeVerdict::Thin => false,
            ChangeVerdict::Blocked | ChangeVerdict::Unclear => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(verdict: ChangeVerdict) -> ModelEvidence {
        let figures = PairedFigures { cases: 9, pairs: 108, mean: 0.02, error: 0.0904, z: 0.4 };
        ModelEvidence {
            base: None,
            new: Digest::compute(b"new"),
            tree: "t1".to_owned(),
            cases: "c1".to_owned(),
            catalog: String::new(),
            harness: "1.0".to_owned(),
            model: "p/m".to_owned(),
            judge: None,
            agent: "clerk".to_owned(),
            seed: 7,
            verdict,
            runs: 12,
            train: EvidenceFigures::default(),
            held_out: EvidenceFigures::from_figures(&figures),
            reversed: 0,
            tokens: 10,
            cost_microdollars: None,
        }
    }

    #[test]
    fn verdict_decides_about_objection() {
        let objection = |verdict| evidence(verdict).find_objection(None, "t1", "c1", "1.0");
        assert_eq!(
            objection(ChangeVerdict::Unclear).unwrap(),
            "model: unclear: held-out +0.02 ± 0.09 in 9 cases, train +0.00 ± 0.00 in 0, after 12 \
             runs with p/m"
        );
        assert!(objection(ChangeVerdict::Blocked).unwrap().starts_with("model: blocked: "));
        for accepted in [ChangeVerdict::Better, ChangeVerdict::NotLower, ChangeVerdict::Thin] {
            assert_eq!(objection(accepted), None);
        }
    }

    #[test]
    fn changed_inputs_are_stale() {
        let better = evidence(ChangeVerdict::Better);
        let stale = |cases, harness| better.find_objection(None, "t1", cases, harness).unwrap();
        let other_base = better.find_objection(Some(better.new), "t1", "c1", "1.0");
        let other_file = better.find_objection(None, "t2", "c1", "1.0");
        for other in [other_base, other_file] {
            assert_eq!(other.unwrap(), "model: evidence is stale: the skill changed");
        }
        assert_eq!(stale("c2", "1.0"), "model: evidence is stale: cases changed");
        assert_eq!(stale("c1", "1.1"), "model: evidence is stale: the program changed");
    }
}
