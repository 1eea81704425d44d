//! The routing tier: queries against the ranking and the block that an agent gets.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::thread;

use serde::Serialize;
use skill_evals::{CaseSplit, TriggerCase};

use crate::case_files::{LoadedCase, SkillCases};
use crate::harness::{AgentView, RoutedQuery, RoutingHarness};

/// The rank down to which a skill is likely to be chosen.
const SURFACED_RANK: usize = 3;

/// The rank above which a forbidden skill must not stand.
const FORBIDDEN_RANK: usize = 10;

/// The result of a skill's queries.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoutingReport {
    /// The skill.
    pub skill_id: String,
    /// The results, in the order of the cases.
    pub results: Vec<RoutingResult>,
    /// The part of the expected queries that surface the skill; `None` without such queries.
    pub recall: Option<f64>,
    /// The part of the queries that surface the skill for which it is expected; `None` if none does.
    pub precision: Option<f64>,
    /// The mean of 1 / rank over the expected queries (mean reciprocal rank).
    pub mean_reciprocal_rank: Option<f64>,
}

/// The result of a query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RoutingResult {
    /// The name of the case.
    pub case: String,
    /// The query.
    pub query: String,
    /// Whether the skill is expected.
    pub should_trigger: bool,
    /// The side of the split.
    pub split: CaseSplit,
    /// The agent whose view was tested, if the case names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The rank of the skill among the matches, counted from 1.
    pub rank: Option<usize>,
    /// Whether the catalog offers the skill for this query: it has a description in the block, one
    /// of the first three ranks, and a word of the query in name, description or tags.
    pub surfaced: bool,
    /// The best match.
    pub first: Option<String>,
    /// The reason why the case failed; `None` if it passed.
    pub failure: Option<RoutingFailure>,
}

/// The reason why a case failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RoutingFailure {
    /// The agent does not see the skill.
    NotVisible,
    /// No word of the query matches the skill.
    NotMatched,
    /// Other skills match better.
    RankedLow {
        /// The rank.
        rank: usize,
        /// The match above it.
        above: String,
    },
    /// Only the body has words of the query; models do not see it before they choose.
    BodyOnly,
    /// The block has no description of the skill.
    NotDescribed,
    /// The skill is the best match for a query that it is not meant for.
    Surfaced,
    /// The skill stands above the one that is expected instead.
    AboveExpected {
        /// The expected skill.
        expected: String,
        /// The rank of the expected skill.
        rank: Option<usize>,
    },
    /// A forbidden skill is offered.
    Forbidden {
        /// The forbidden skill.
        skill_id: String,
    },
    /// The case names an agent that does not exist.
    UnknownAgent,
}

impl RoutingFailure {
    /// Describes the failure of a result as a lower-case fragment.
    #[must_use]
    pub fn describe(&self, result: &RoutingResult) -> String {
        let rank = |rank: &Option<usize>| match rank {
            Some(rank) => format!("ranked {rank}"),
            None => "not found".to_owned(),
        };
        match self {
            Self::NotVisible => "not in the catalog".to_owned(),
            Self::NotMatched => match &result.first {
                Some(first) => format!("not matched by a word; the best match is {first}"),
                None => "not matched by a word".to_owned(),
            },
            Self::RankedLow { rank, above } => format!("ranked {rank}, behind {above}"),
            Self::BodyOnly => {
                "matched only in its body, which models do not see before they choose".to_owned()
            }
            Self::NotDescribed => "listed without its description for lack of room".to_owned(),
            Self::Surfaced => "offered first, but not expected".to_owned(),
            Self::AboveExpected { expected, rank: other } => format!(
                "{}, but {expected} is expected above it, which is {}",
                rank(&result.rank),
                rank(other)
            ),
            Self::Forbidden { skill_id } => format!("listed with {skill_id}, which is forbidden"),
            Self::UnknownAgent => {
                format!(
                    "not tested: agent {} not found",
                    result.agent.as_deref().unwrap_or_default()
                )
            }
        }
    }
}

/// The views of the agents that cases name; the empty id is the view of all other cases.
pub type AgentViews = BTreeMap<String, AgentView>;

/// Tests the queries of a skill.
///
/// The result depends on the catalog, the cases and the views alone.
#[must_use]
pub fn test_routing(
    harness: &RoutingHarness,
    cases: &SkillCases,
    views: &AgentViews,
) -> RoutingReport {
    let results = map_parallel(&cases.triggers, |case| test_case(harness, cases, case, views));
    summarize(cases.skill_id.clone(), results)
}

/// Tests the queries of several skills, in their order.
#[must_use]
pub fn test_all_routing(
    harness: &RoutingHarness,
    skills: &[&SkillCases],
    views: &AgentViews,
) -> Vec<RoutingReport> {
    map_parallel(skills, |cases| test_routing(harness, cases, views))
}

fn test_case(
    harness: &RoutingHarness,
    cases: &SkillCases,
    loaded: &LoadedCase<TriggerCase>,
    views: &AgentViews,
) -> RoutingResult {
    let (id, case) = (cases.skill_id.as_str(), &loaded.case);
    let agent = case.agent.as_deref().or(cases.settings.agent.as_deref());
    // Without an agent, every skill is visible: the strictest competition.
    let default_view = AgentView::default();
    let view = match agent {
        None => Some(views.get("").unwrap_or(&default_view)),
        Some(agent) => views.get(agent),
    };
    let routed = view.map(|view| harness.route(view, &case.query));
    let rank = routed.as_ref().and_then(|routed| routed.rank(id));
    let is_visible = harness.snapshot().find_primary(id).is_some();
    let failure = match &routed {
        None => Some(RoutingFailure::UnknownAgent),
        Some(_) if !is_visible => Some(RoutingFailure::NotVisible),
        Some(routed) => find_failure(routed, id, case),
    };
    RoutingResult {
        case: loaded.name.clone(),
        query: case.query.clone(),
        should_trigger: case.should_trigger,
        split: loaded.split,
        agent: agent.map(str::to_owned),
        rank,
        surfaced: routed.as_ref().is_some_and(|routed| routed.surfaces(id).is_ok()),
        first: routed.and_then(|routed| routed.ranked.into_iter().next()),
        failure,
    }
}

fn find_failure(routed: &RoutedQuery, id: &str, case: &TriggerCase) -> Option<RoutingFailure> {
    let is_offered = |other: &str| {
        routed.listed.contains(other) || routed.rank(other).is_some_and(|at| at <= FORBIDDEN_RANK)
    };
    if let Some(skill_id) = case.forbidden.iter().find(|other| is_offered(other)) {
        return Some(RoutingFailure::Forbidden { skill_id: skill_id.clone() });
    }
    if let Some(expected) = &case.expected_skill {
        let (own, other) = (routed.rank(id), routed.rank(expected));
        let is_above = match (other, own) {
            (Some(other), Some(own)) => other < own,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if !is_above && expected != id {
            return Some(RoutingFailure::AboveExpected { expected: expected.clone(), rank: other });
        }
    }
    // The skill itself comes last: the other conditions say more about the cause.
    match (case.should_trigger, routed.surfaces(id)) {
        (true, surfaced) => surfaced.err(),
        (false, Ok(())) if routed.rank(id) == Some(1) => Some(RoutingFailure::Surfaced),
        (false, _) => None,
    }
}

impl RoutedQuery {
    /// Returns the rank of a skill, counted from 1.
    #[must_use]
    pub fn rank(&self, id: &str) -> Option<usize> {
        self.ranked.iter().position(|ranked| ranked == id).map(|at| at + 1)
    }

    /// Checks whether a skill is offered for the query.
    ///
    /// # Errors
    /// The first condition that does not hold.
    pub fn surfaces(&self, id: &str) -> Result<(), RoutingFailure> {
        let rank = self.rank(id).ok_or(RoutingFailure::NotMatched)?;
        // A good rank by the body alone is luck: models choose by what they see.
        if !self.matched_by_text.contains(id) {
            return Err(RoutingFailure::BodyOnly);
        }
        if rank > SURFACED_RANK {
            let above = self.ranked[rank - 2].clone();
            return Err(RoutingFailure::RankedLow { rank, above });
        }
        if self.described.contains(id) { Ok(()) } else { Err(RoutingFailure::NotDescribed) }
    }
}

impl RoutingReport {
    /// Creates the report of a skill of which no query was tested.
    #[must_use]
    pub fn empty(skill_id: &str) -> Self {
        summarize(skill_id.to_owned(), Vec::new())
    }

    /// Returns the number of failed cases.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.results.iter().filter(|result| result.failure.is_some()).count()
    }

    /// Returns the report of the cases that a condition selects.
    #[must_use]
    pub fn filtered(&self, selects: impl Fn(&RoutingResult) -> bool) -> Self {
        let results = self.results.iter().filter(|result| selects(result)).cloned().collect();
        summarize(self.skill_id.clone(), results)
    }
}

fn summarize(skill_id: String, results: Vec<RoutingResult>) -> RoutingReport {
    let positives = || results.iter().filter(|result| result.should_trigger);
    let surfaced = || results.iter().filter(|result| result.surfaced);
    let hits = positives().filter(|result| result.surfaced).count();
    let reciprocal = positives().map(|result| result.rank.map_or(0.0, |rank| 1.0 / rank as f64));
    RoutingReport {
        recall: ratio(hits as f64, positives().count()),
        precision: ratio(hits as f64, surfaced().count()),
        mean_reciprocal_rank: ratio(reciprocal.sum(), positives().count()),
        skill_id,
        results,
    }
}

fn ratio(sum: f64, count: usize) -> Option<f64> {
    (count > 0).then(|| sum / count as f64)
}

/// Maps the items on as many threads as there are processors, in order.
fn map_parallel<T: Sync, R: Send>(items: &[T], map: impl Fn(&T) -> R + Sync) -> Vec<R> {
    /// Below this, starting a thread costs more than it saves.
    const MIN_PART: usize = 8;
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let part = items.len().div_ceil(processors).max(MIN_PART);
    if items.len() <= part {
        return items.iter().map(map).collect();
    }
    thread::scope(|scope| {
        let map = &map;
        let parts: Vec<_> = items
            .chunks(part)
            .map(|part| scope.spawn(move || part.iter().map(map).collect::<Vec<R>>()))
            .collect();
        parts
            .into_iter()
            .flat_map(|part| match part.join() {
                Ok(results) => results,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    })
}
