//! Advice about skills from their use: unused, overused and shadowed ones.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;
use skill_ledger::SkillUsage;

use crate::case_files::{SkillCases, load_all_cases, open_held_out};
use crate::harness::RoutingHarness;
use crate::routing::RoutingReport;

/// The number of offers from which on a skill without reads is unused.
pub const MIN_OFFERS: u64 = 200;

/// The number of days with an offer from which on a skill without reads is unused.
pub const MIN_OFFER_DAYS: u64 = 14;

/// The number of reads from which on the share of bounced ones is judged.
pub const MIN_READS: u64 = 20;

/// A skill that should be changed, and the figures that show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum UsageAdvice {
    /// The skill is offered often and never read.
    Unused {
        /// The skill.
        skill_id: String,
        /// The number of turns that offered it.
        offered: u64,
        /// The number of days with such a turn.
        days: u64,
    },
    /// At least half of the reads of the skill bounced.
    Overused {
        /// The skill.
        skill_id: String,
        /// The number of reads.
        reads: u64,
        /// The number of bounced reads.
        bounced: u64,
    },
    /// Another skill is the best match for queries that should trigger this one.
    Shadowed {
        /// The skill.
        skill_id: String,
        /// The other skill.
        by: String,
        /// The names of the cases that the other skill takes.
        cases: Vec<String>,
        /// The number of the skill's positive cases.
        positives: usize,
    },
}

/// The advice from the use of skills.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UsageReport {
    /// The advice, sorted by skill.
    pub advice: Vec<UsageAdvice>,
    /// The skills with too little use for a judgment, sorted.
    pub too_little_use: Vec<String>,
    /// The skills without positive cases, sorted; whether another one takes their tasks is unknown.
    pub without_cases: Vec<String>,
}

impl UsageReport {
    /// Removes the findings about all other skills.
    pub fn retain_skill(&mut self, skill_id: &str) {
        self.advice.retain(|advice| advice.skill_id() == skill_id);
        self.too_little_use.retain(|id| id == skill_id);
        self.without_cases.retain(|id| id == skill_id);
    }
}

impl UsageAdvice {
    /// Returns the skill that should be changed.
    #[must_use]
    pub fn skill_id(&self) -> &str {
        match self {
            Self::Unused { skill_id, .. }
            | Self::Overused { skill_id, .. }
            | Self::Shadowed { skill_id, .. } => skill_id,
        }
    }
}

/// Loads the cases of the installed skills. `data` is the directory with held-out cases.
///
/// A skill whose directory cannot be opened has none.
#[must_use]
pub fn load_installed_cases(harness: &RoutingHarness, data: Option<&Path>) -> Vec<SkillCases> {
    let skills = harness.snapshot().skills().iter();
    let skills = skills.filter(|skill| !harness.is_distractor(skill));
    let cases = skills.filter_map(|skill| {
        let id = skill.id().as_str();
        let held_out = data.and_then(|data| open_held_out(data, id));
        Some(load_all_cases(&skill.open_directory().ok()?, id, 0, held_out.as_ref()))
    });
    cases.collect()
}

/// Judges the use of skills. `reports` are the results of the queries of each installed skill.
///
/// Skills that are not installed any more get no advice.
#[must_use]
pub fn advise_usage(
    usage: &[SkillUsage],
    harness: &RoutingHarness,
    reports: &[RoutingReport],
) -> UsageReport {
    let mut report = UsageReport::default();
    let usage: BTreeMap<&str, &SkillUsage> =
        usage.iter().map(|usage| (usage.skill_id.as_str(), usage)).collect();
    let reports: BTreeMap<&str, &RoutingReport> =
        reports.iter().map(|report| (report.skill_id.as_str(), report)).collect();
    let installed = harness.snapshot().skills().iter();
    let installed: BTreeSet<&str> = installed
        .filter(|skill| !harness.is_distractor(skill))
        .map(|skill| skill.id().as_str())
        .collect();
    for &id in &installed {
        match usage.get(id).map(|usage| judge_use(usage)) {
            Some(UseVerdict::Advice(advice)) => report.advice.push(advice),
            Some(UseVerdict::Fine) => {}
            Some(UseVerdict::TooLittle) | None => report.too_little_use.push(id.to_owned()),
        }
        match reports.get(id).filter(|report| has_positives(report)) {
            Some(routing) => report.advice.extend(find_shadows(routing, &installed)),
            None => report.without_cases.push(id.to_owned()),
        }
    }
    report
}

enum UseVerdict {
    Advice(UsageAdvice),
    Fine,
    TooLittle,
}

fn judge_use(usage: &SkillUsage) -> UseVerdict {
    let (counts, skill_id) = (&usage.counts, usage.skill_id.clone());
    if counts.reads >= MIN_READS {
        return match counts.bounced * 2 >= counts.reads {
            true => UseVerdict::Advice(UsageAdvice::Overused {
                skill_id,
                reads: counts.reads,
                bounced: counts.bounced,
            }),
            false => UseVerdict::Fine,
        };
    }
    if counts.offered < MIN_OFFERS || usage.days_offered < MIN_OFFER_DAYS {
        return UseVerdict::TooLittle;
    }
    // A few reads are enough to know that it is used, and too few to judge how.
    if counts.reads > 0 {
        return UseVerdict::Fine;
    }
    UseVerdict::Advice(UsageAdvice::Unused {
        skill_id,
        offered: counts.offered,
        days: usage.days_offered,
    })
}

fn has_positives(report: &RoutingReport) -> bool {
    report.results.iter().any(|result| result.should_trigger)
}

/// Returns one advice for each skill that takes positive cases.
fn find_shadows(report: &RoutingReport, installed: &BTreeSet<&str>) -> Vec<UsageAdvice> {
    let positives = || report.results.iter().filter(|result| result.should_trigger);
    let mut takers: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for result in positives().filter(|result| !result.surfaced) {
        // A distractor of the test takes no task of a running agent.
        let first = result.first.as_deref().filter(|first| installed.contains(first));
        if let Some(first) = first.filter(|first| *first != report.skill_id) {
            takers.entry(first).or_default().push(result.case.clone());
        }
    }
    let to_advice = |(by, cases): (&str, Vec<String>)| UsageAdvice::Shadowed {
        skill_id: report.skill_id.clone(),
        by: by.to_owned(),
        cases,
        positives: positives().count(),
    };
    takers.into_iter().map(to_advice).collect()
}

#[cfg(test)]
mod tests {
    use skill_ledger::UsageCounts;

    use super::*;

    fn verdict(offered: u64, days_offered: u64, reads: u64, bounced: u64) -> Option<&'static str> {
        let counts = UsageCounts { offered, reads, bounced, ..UsageCounts::default() };
        let usage = SkillUsage { skill_id: "x".to_owned(), days_offered, counts };
        match judge_use(&usage) {
            UseVerdict::Advice(UsageAdvice::Unused { .. }) => Some("unused"),
            UseVerdict::Advice(_) => Some("overused"),
            UseVerdict::Fine => Some("fine"),
            UseVerdict::TooLittle => None,
        }
    }

    #[test]
    fn thresholds_decide_advice() {
        assert_eq!(verdict(200, 14, 0, 0), Some("unused"));
        assert_eq!(verdict(199, 14, 0, 0), None);
        assert_eq!(verdict(9_000, 13, 0, 0), None);
        assert_eq!(verdict(200, 14, 1, 1), Some("fine"));
        assert_eq!(verdict(0, 0, 20, 10), Some("overused"));
        assert_eq!(verdict(0, 0, 20, 9), Some("fine"));
        assert_eq!(verdict(0, 0, 19, 19), None);
    }
}
