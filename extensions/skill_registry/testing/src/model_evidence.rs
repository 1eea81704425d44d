//! The evidence about a proposal that follows from runs with a model.

use skill_evals::ModelReport;
use skill_format::Digest;
use skill_ledger::{EvidenceFigures, ModelEvidence};

use crate::acceptance::HARNESS;

/// Runs with a model that compared a change with its base.
#[derive(Clone, Copy, Debug)]
pub struct ComparedChange<'a> {
    /// The digest of the file before; `None` for a new file.
    pub base: Option<Digest>,
    /// The digest of the file after.
    pub new: Digest,
    /// The report of the runs.
    pub report: &'a ModelReport,
}

impl ComparedChange<'_> {
    /// Creates the evidence about the change; `None` if the runs have no verdict.
    #[must_use]
    pub fn to_evidence(&self) -> Option<ModelEvidence> {
        let Self { base, new, report } = *self;
        let comparison = report.comparison.as_ref()?;
        Some(ModelEvidence {
            base,
            new,
            tree: report.digests.baseline.clone(),
            cases: report.digests.cases.clone(),
            catalog: report.digests.catalog.clone(),
            harness: HARNESS.to_owned(),
            model: report.model.clone(),
            judge: report.judge.clone(),
            agent: report.agent.clone(),
            seed: report.seed,
            verdict: comparison.verdict?,
            runs: comparison.runs,
            train: EvidenceFigures::from_figures(&comparison.train),
            held_out: EvidenceFigures::from_figures(&comparison.held_out),
            reversed: comparison.reversed,
            tokens: report.spent.tokens,
            // Rounded up, so that a cost is never shown as 0.
            cost_microdollars: report.spent.usd.map(|usd| (usd * 1e6).ceil() as u64),
        })
    }
}
