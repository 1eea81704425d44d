//! The check of a change before a person sees it: its interface and its result.

use std::fmt;

use serde::{Deserialize, Serialize};
use skill_catalog::Snapshot;
use skill_format::Digest;

use crate::records::error::LedgerError;
use crate::records::model_evidence::ModelEvidence;

/// A change of a file that is checked.
#[derive(Clone, Copy, Debug)]
pub struct ProposedChange<'a> {
    /// The skill.
    pub skill_id: &'a str,
    /// The file, relative to the skill's directory.
    pub path: &'a str,
    /// The text before; `None` for a new file.
    pub base: Option<&'a str>,
    /// The text after.
    pub new: &'a str,
}

/// A check that compares a change with the cases of the home's skills.
pub trait ProposalCheck: Send + Sync + fmt::Debug {
    /// Checks a change; `None` if there is no case that it can be compared with. Blocks.
    ///
    /// # Errors
    /// The check could not run.
    fn examine(
        &self,
        snapshot: &Snapshot,
        change: &ProposedChange<'_>,
    ) -> Result<Option<AcceptanceEvidence>, LedgerError>;

    /// Returns whether a change that makes a case fail is refused; otherwise it is only shown.
    fn is_required(&self) -> bool;

    /// Returns the reason for which the runs with a model, or their absence, require a person with
    /// a reason; `None` if they do not. Blocks.
    fn find_model_objection(
        &self,
        snapshot: &Snapshot,
        change: &ProposedChange<'_>,
        evidence: Option<&ModelEvidence>,
    ) -> Option<String>;
}

/// The result of the check of a proposal. The person who approves the proposal approves exactly
/// this result with it, see [`ProposalSummary::review_digest`].
///
/// [`ProposalSummary::review_digest`]: crate::ProposalSummary::review_digest
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptanceEvidence {
    /// The digest of the text before; `None` for a new file.
    pub base: Option<Digest>,
    /// The digest of the text after.
    pub new: Digest,
    /// The digest of all cases, in hexadecimal digits.
    pub cases: String,
    /// The digest of the other skills that were searched, in hexadecimal digits.
    pub catalog: String,
    /// The version of the program that made the check.
    pub harness: String,
    /// The number of queries that were compared.
    pub queries: usize,
    /// The number of queries that passed before.
    pub passed_before: usize,
    /// The number of queries that pass with the change.
    pub passed_after: usize,
    /// The queries that passed before and fail with the change, one line each.
    pub regressions: Vec<String>,
    /// The cases whose text the change copies.
    pub leaks: Vec<String>,
}

impl AcceptanceEvidence {
    /// Returns the result on one line.
    #[must_use]
    pub fn describe(&self) -> String {
        let Self { queries, passed_before, passed_after, regressions, .. } = self;
        // Spelled out, because a reviewer must not have to count lines.
        let worse = match regressions.len() {
            0 => "none is worse".to_owned(),
            1 => "1 is worse".to_owned(),
            count => format!("{count} are worse"),
        };
        format!("{queries} queries: {passed_before} passed before, {passed_after} now, {worse}")
    }
}

impl AcceptanceEvidence {
    /// Returns the part in which another result of the same change differs. Other skills may
    /// change as long as the result does not.
    pub(crate) fn find_difference(&self, other: &Self) -> Option<&'static str> {
        // The part that explains most comes first.
        if self.cases != other.cases {
            Some("cases changed")
        } else if self.harness != other.harness {
            Some("the program changed")
        } else if (&self.base, &self.new) != (&other.base, &other.new) {
            Some("the skill changed")
        } else if (&self.regressions, &self.leaks, self.queries, self.passed_after)
            != (&other.regressions, &other.leaks, other.queries, other.passed_after)
        {
            Some("other skills changed")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_is_named() {
        let text = |text: &str| text.to_owned();
        let known = AcceptanceEvidence {
            base: None,
            new: Digest::compute(b"new"),
            cases: text("cases"),
            catalog: text("catalog"),
            harness: text("0.1.0"),
            queries: 2,
            passed_before: 2,
            passed_after: 1,
            regressions: vec![text("greet/q1")],
            leaks: Vec::new(),
        };
        let difference = |other: AcceptanceEvidence| known.find_difference(&other);
        let known = || known.clone();
        assert_eq!(difference(known()), None);
        assert_eq!(difference(AcceptanceEvidence { catalog: text("other"), ..known() }), None);
        let expected = [
            (AcceptanceEvidence { cases: text("other"), ..known() }, "cases changed"),
            (AcceptanceEvidence { harness: text("0.2.0"), ..known() }, "the program changed"),
            (AcceptanceEvidence { new: Digest::compute(b"x"), ..known() }, "the skill changed"),
            (AcceptanceEvidence { leaks: vec![text("x")], ..known() }, "other skills changed"),
            (AcceptanceEvidence { passed_after: 2, ..known() }, "other skills changed"),
        ];
        for (other, part) in expected {
            assert_eq!(difference(other), Some(part));
        }
    }
}
