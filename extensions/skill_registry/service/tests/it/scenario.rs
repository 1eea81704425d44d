//! A fixture with a ledger, and one-line operations of agents and people.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use skill_catalog::{AgentAuthor, Clock, ManualClock, Snapshot, Store};
use skill_format::Digest;
use skill_ledger::{
    ActivationKind, ApplyOutcome, AuditEntry, AuditFilter, HumanActor, Ledger, LedgerError,
    LedgerEvent, LedgerSync, ProposalFilter, ProposeOutcome, ProposeRequest, SkillActivation,
    SkillVersion,
};

use crate::fixture::StoreFixture;

/// 2026-11-22T01:58:16Z, in milliseconds.
pub(crate) const NOON: i64 = 1_795_312_696_000;

pub(crate) struct ReviewScenario {
    pub(crate) fixture: StoreFixture,
    pub(crate) ledger: Ledger,
    pub(crate) clock: Arc<ManualClock>,
}

impl ReviewScenario {
    /// Creates a scenario with the skill `beads`, whose SKILL.md is [`text`] of `one`, `two`, `three`.
    pub(crate) fn new() -> Self {
        let scenario = Self::empty();
        scenario.write("beads", &text("beads", "one\ntwo\nthree"));
        scenario
    }

    pub(crate) fn empty() -> Self {
        Self::with(StoreFixture::new())
    }

    /// Creates a scenario for a fixture that another process created and owns.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self::with(StoreFixture::at(path))
    }

    fn with(fixture: StoreFixture) -> Self {
        let clock = Arc::new(ManualClock::new(UNIX_EPOCH + Duration::from_millis(NOON as u64)));
        let ledger = Self::ledger_at(fixture.path("data"), &clock);
        Self { fixture, ledger, clock }
    }

    fn ledger_at(path: PathBuf, clock: &Arc<ManualClock>) -> Ledger {
        let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(clock);
        Ledger::new(path, clock).set_wait(Duration::from_secs(60))
    }

    /// Returns a second ledger of the same directory, as another process would have.
    pub(crate) fn other(&self) -> Ledger {
        Self::ledger_at(self.data(""), &self.clock)
    }

    pub(crate) fn data(&self, rel: &str) -> PathBuf {
        if rel.is_empty() { self.fixture.path("data") } else { self.fixture.path("data").join(rel) }
    }

    /// Writes the SKILL.md of a skill.
    pub(crate) fn write(&self, skill: &str, text: &str) {
        self.fixture.write(&format!("skills/{skill}/SKILL.md"), text);
    }

    /// Reads a file of a skill; `None` if it does not exist.
    pub(crate) fn file(&self, rel: &str) -> Option<String> {
        fs::read_to_string(self.fixture.path("skills").join(rel)).ok()
    }

    /// Returns the body of a skill's SKILL.md.
    pub(crate) fn body(&self, skill: &str) -> String {
        let text = self.file(&format!("{skill}/SKILL.md")).unwrap();
        text.rsplit_once("---\n").unwrap().1.trim().to_owned()
    }

    pub(crate) fn store(&self) -> Store {
        self.fixture.open()
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.store().snapshot()
    }

    pub(crate) fn ask(&self, request: &ProposeRequest) -> Result<ProposeOutcome, LedgerError> {
        self.ledger.propose(&self.snapshot(), &agent(), request)
    }

    /// Proposes another body as an agent; returns the proposal's id and digest.
    pub(crate) fn propose(&self, skill: &str, body: &str) -> (String, Digest) {
        let proposed = self.ask(&wish(skill, body)).unwrap();
        (proposed.proposal.id, proposed.proposal.new_digest)
    }

    pub(crate) fn approve(&self, id: &str, digest: Digest) -> Result<ApplyOutcome, LedgerError> {
        self.ledger.approve(&self.snapshot(), &person(), id, digest, None)
    }

    /// Returns the versions of a skill, the oldest first.
    pub(crate) fn history(&self, skill: &str) -> Vec<SkillVersion> {
        self.ledger.history(&self.snapshot(), skill).unwrap()
    }

    /// Returns the numbers of the versions of a skill, the oldest first.
    pub(crate) fn version_numbers(&self, skill: &str) -> Vec<u64> {
        self.history(skill).into_iter().map(|version| version.number).collect()
    }

    /// Returns the whole audit log.
    pub(crate) fn audit(&self) -> Vec<AuditEntry> {
        self.ledger.audit(AuditFilter::default()).unwrap()
    }

    /// Returns the temporary files below the skills.
    pub(crate) fn leftovers(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut dirs = vec![self.fixture.path("skills"), self.data("")];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                if entry.file_type().unwrap().is_dir() {
                    dirs.push(entry.path());
                }
                let name = entry.file_name().into_string().unwrap();
                if name.starts_with('.') {
                    found.push(entry.path());
                }
            }
        }
        found
    }
}

pub(crate) fn text(name: &str, body: &str) -> String {
    crate::fixture::skill_text(name, body)
}

/// Returns the filter that lets every proposal pass.
pub(crate) fn every_proposal() -> ProposalFilter<'static> {
    ProposalFilter { all: true, ..ProposalFilter::default() }
}

/// Polls a store and synchronizes it with its ledger; returns the events.
#[track_caller]
pub(crate) fn poll_and_sync(keeper: &LedgerSync, store: &Store) -> Vec<LedgerEvent> {
    let report = store.poll();
    let kept = keeper.sync(store, &report.events, report.changed);
    assert_eq!((kept.notes, kept.trouble), (Vec::new(), None));
    kept.events
}

/// The author of proposals that an agent makes, and the one of those that a person makes.
pub(crate) fn operator() -> AgentAuthor {
    AgentAuthor { origin: "operator".to_owned(), ..agent() }
}

pub(crate) fn agent() -> AgentAuthor {
    AgentAuthor {
        agent_id: "builder".to_owned(),
        session_id: "s1".to_owned(),
        turn_id: "t7".to_owned(),
        origin: "agent".to_owned(),
    }
}

pub(crate) fn person() -> HumanActor {
    HumanActor { name: "ada".to_owned(), via: "cli".to_owned() }
}

/// Returns a request for another body of a skill.
pub(crate) fn wish(skill: &str, body: &str) -> ProposeRequest {
    ProposeRequest {
        skill_id: skill.to_owned(),
        new_content: Some(text(skill, body)),
        justification: "It counts better.\nMeasured twice.".to_owned(),
        evidence: vec!["run 1: 4 of 5\nrun 2: 5 of 5".to_owned()],
        ..ProposeRequest::default()
    }
}

/// Returns the record of an agent's read of a skill.
pub(crate) fn reading(at_ms: i64, skill_id: &str) -> SkillActivation {
    SkillActivation {
        at_ms,
        skill_id: skill_id.to_owned(),
        kind: ActivationKind::Skill,
        path: None,
        digest: None,
        agent_id: "builder".to_owned(),
        session_id: "s1".to_owned(),
        turn_id: "t7".to_owned(),
        origin: "agent".to_owned(),
        tokens: 7,
        call_number: None,
    }
}
