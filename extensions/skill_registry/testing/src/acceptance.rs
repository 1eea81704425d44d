//! The check of a change of a skill against the cases of every skill of a home.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest as _, Sha256};
use skill_catalog::{Skill, Snapshot, StoreOptions};
use skill_evals::LeakSearch;
use skill_format::{Digest, SkillId, is_case_file};
use skill_ledger::{
    AcceptanceEvidence, LedgerError, LedgerErrorKind, ModelCheckMode, ModelEvidence, ProposalCheck,
    ProposedChange,
};
use skillhost_files::{files_digest, read_tree};

use crate::case_files::{SkillCases, load_all_cases, open_held_out};
use crate::distractor_files::DistractorFiles;
use crate::harness::{CandidateSkill, HarnessError, RoutingHarness, RoutingSetup, digest_catalog};
use crate::routing::{AgentViews, RoutingFailure, RoutingReport, RoutingResult, test_all_routing};

/// The seed of the split, which makes no difference to the check: every case counts.
const SEED: u64 = 0;

/// The version of the program that makes checks and runs.
pub(crate) const HARNESS: &str = env!("CARGO_PKG_VERSION");

/// The regressions that are listed.
const MAX_LISTED: usize = 50;

/// A check that a change makes no query of any skill fail, and copies no text of a case.
#[derive(Clone, Debug)]
pub struct AcceptanceCheck {
    options: StoreOptions,
    data: PathBuf,
    is_required: bool,
    models: ModelCheckMode,
    /// Kept for the next check.
    distractors: Arc<Mutex<Option<Arc<DistractorFiles>>>>,
}

impl AcceptanceCheck {
    /// Creates the check of a home.
    ///
    /// `options` are those of its catalog, `data` is the directory of the registry's data, which
    /// has the held-out cases. `is_required` is false where results about queries are only shown,
    /// `models` is the consequence of runs with a model.
    #[must_use]
    pub fn new(
        options: StoreOptions,
        data: PathBuf,
        is_required: bool,
        models: ModelCheckMode,
    ) -> Self {
        Self { options, data, is_required, models, distractors: Arc::default() }
    }

    /// Loads the cases of a skill, with those that the home holds out.
    fn load_skill_cases(&self, skill: &Skill) -> Option<SkillCases> {
        let id = skill.id().as_str();
        let held_out = open_held_out(&self.data, id);
        let cases = load_all_cases(&skill.open_directory().ok()?, id, SEED, held_out.as_ref());
        (!cases.is_empty()).then_some(cases)
    }

    /// Loads the cases of every skill, in their state before the change.
    fn load_all_cases(&self, snapshot: &Snapshot) -> Vec<SkillCases> {
        snapshot.skills().iter().filter_map(|skill| self.load_skill_cases(skill)).collect()
    }
}

impl ProposalCheck for AcceptanceCheck {
    fn examine(
        &self,
        snapshot: &Snapshot,
        change: &ProposedChange<'_>,
    ) -> Result<Option<AcceptanceEvidence>, LedgerError> {
        // The cases of the base judge: a change does not bring its own.
        let cases = self.load_all_cases(snapshot);
        if cases.is_empty() {
            return Ok(None);
        }
        let is_skill_file = change.path.eq_ignore_ascii_case("SKILL.md");
        let mut found = AcceptanceEvidence {
            base: change.base.map(|base| Digest::compute(base.as_bytes())),
            new: Digest::compute(change.new.as_bytes()),
            cases: digest_cases(&cases),
            catalog: digest_catalog(snapshot, change.skill_id),
            harness: HARNESS.to_owned(),
            queries: 0,
            passed_before: 0,
            passed_after: 0,
            regressions: Vec::new(),
            leaks: list_leaks(&cases, change),
        };
        // Other files are not searched, so that there is a result only if they copy a case.
        let Some(id) = SkillId::new(change.skill_id).ok().filter(|_| is_skill_file) else {
            return Ok((!found.leaks.is_empty()).then_some(found));
        };
        let bytes = change.new.as_bytes().to_vec();
        let options = self.options.clone();
        let setup = RoutingSetup { options, candidates: Vec::new(), with_distractors: true };
        let opened = RoutingHarness::open(setup).and_then(|before| {
            *self.distractors.lock().unwrap_or_else(PoisonError::into_inner) = before.distractors();
            let after = before.with_candidate(&CandidateSkill { id, bytes })?;
            Ok((before, after))
        });
        let (before, after) = opened.map_err(|error| to_ledger_error(&error))?;
        compare_routing(&before, &after, &without_agents(cases), &mut found);
        Ok(Some(found))
    }

    fn is_required(&self) -> bool {
        self.is_required
    }

    fn find_model_objection(
        &self,
        snapshot: &Snapshot,
        change: &ProposedChange<'_>,
        evidence: Option<&ModelEvidence>,
    ) -> Option<String> {
        let is_shown_only = self.models == ModelCheckMode::Advise;
        let is_optional = evidence.is_none() && self.models == ModelCheckMode::WhenRun;
        if is_shown_only || is_optional {
            return None;
        }
        // A new skill has no cases that its author did not write.
        let skill = snapshot.get(change.skill_id)?;
        let cases = self.load_skill_cases(skill);
        match (evidence, cases) {
            (Some(evidence), cases) => {
                let base = change.base.map(|base| Digest::compute(base.as_bytes()));
                // A skill whose cases were removed has other ones than the runs.
                let cases = cases.map(|cases| cases.digest()).unwrap_or_default();
                evidence.find_objection(base, &digest_files(skill), &cases, HARNESS)
            }
            (None, Some(_)) => {
                Some(format!("model: the cases of {} were not run with a model", change.skill_id))
            }
            (None, None) => None,
        }
    }
}

/// Returns cases that are about every skill, whichever agent they name: a case of an agent would not be
/// compared where the agent is not known.
fn without_agents(mut cases: Vec<SkillCases>) -> Vec<SkillCases> {
    for cases in &mut cases {
        cases.settings.agent = None;
        cases.triggers.iter_mut().for_each(|loaded| loaded.case.agent = None);
    }
    cases
}

/// Runs the queries of every skill before and after a change.
fn compare_routing(
    before: &RoutingHarness,
    after: &RoutingHarness,
    cases: &[SkillCases],
    found: &mut AcceptanceEvidence,
) {
    // The view of a model without an agent has every skill, so that a check compares all of them.
    let views = AgentViews::default();
    let all: Vec<&SkillCases> = cases.iter().collect();
    let tested = |harness| test_all_routing(harness, &all, &views);
    for (cases, (was, now)) in cases.iter().zip(tested(before).iter().zip(tested(after))) {
        let passed = |report: &RoutingReport| report.results.len() - report.failed();
        found.queries += was.results.len();
        found.passed_before += passed(was);
        found.passed_after += passed(&now);
        for (was, now) in was.results.iter().zip(&now.results) {
            if let (None, Some(failure)) = (&was.failure, &now.failure) {
                found.regressions.push(describe_regression(cases, was, now, failure));
            }
        }
    }
    // A change of a common word can make thousands worse; the first ones say enough.
    let more = found.regressions.len().saturating_sub(MAX_LISTED);
    if more > 0 {
        found.regressions.truncate(MAX_LISTED);
        found.regressions.push(format!("{more} more"));
    }
}

fn describe_regression(
    cases: &SkillCases,
    was: &RoutingResult,
    now: &RoutingResult,
    failure: &RoutingFailure,
) -> String {
    let name = format!("{}/{}", cases.skill_id, was.case);
    let is_private = cases.triggers.iter().any(|case| case.name == was.case && case.is_private);
    // The text of a held-out case must not reach the author of a change.
    let query = if is_private { String::new() } else { format!(" \"{}\"", was.query) };
    format!("{name}{query} passed, now {}", failure.describe(now))
}

/// Lists the cases whose text a change copies: by their names, and the held-out ones by number.
fn list_leaks(cases: &[SkillCases], change: &ProposedChange<'_>) -> Vec<String> {
    let search = LeakSearch::new(change.base.unwrap_or_default(), change.new);
    let mut leaks = Vec::new();
    let mut held_out = 0;
    let mut add = |skill_id: &str, name: &str, is_private: bool, found: Option<String>| match found
    {
        Some(_) if is_private => held_out += 1,
        Some(text) => leaks.push(format!("{skill_id}/{name} \"{text}\"")),
        None => {}
    };
    for cases in cases {
        for case in &cases.triggers {
            let found = search.find_query(&case.case.query);
            add(&cases.skill_id, &case.name, case.is_private, found);
        }
        for case in &cases.outputs {
            let found = search.find_query(&case.case.prompt);
            let found = found.or_else(|| search.find_literal(&case.case));
            add(&cases.skill_id, &case.name, case.is_private, found);
        }
    }
    // Only counted: an agent could otherwise guess a case word by word.
    if held_out > 0 {
        let cases = if held_out == 1 { "case" } else { "cases" };
        leaks.push(format!("{held_out} held-out {cases}"));
    }
    leaks
}

/// Returns the digest of the files of a skill as runs with a model see them; empty if they cannot be
/// read, which no runs had.
fn digest_files(skill: &Skill) -> String {
    let Ok(mut files) = read_tree(&skill.dir()) else { return String::new() };
    files.retain(|file| !is_case_file(&file.path));
    format!("sha256:{}", files_digest(&files))
}

fn digest_cases(cases: &[SkillCases]) -> String {
    let mut hasher = Sha256::new();
    for cases in cases {
        hasher.update(cases.skill_id.as_bytes());
        hasher.update([0]);
        hasher.update(cases.digest().as_bytes());
    }
    skillhost_files::to_hex(&hasher.finalize())
}

fn to_ledger_error(error: &HarnessError) -> LedgerError {
    LedgerError::new(
        LedgerErrorKind::Io,
        format!("the change cannot be checked: {error}"),
        "free space in the directory of temporary files, then try again",
    )
}
