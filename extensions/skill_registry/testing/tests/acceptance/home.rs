//! A home with skills, their cases and a ledger.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use skill_catalog::{
    AgentAuthor, ManualClock, SkillRoot, Snapshot, Store, StoreOptions, TrustLevel,
};
use skill_ledger::{
    HumanActor, Ledger, LedgerError, LedgerErrorKind, ModelCheckMode, Proposal, ProposeRequest,
};
use skill_testing::AcceptanceCheck;
use tempfile::TempDir;

/// A home with skills and a ledger.
pub(crate) struct TestHome {
    directory: TempDir,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) is_required: bool,
    pub(crate) models: ModelCheckMode,
}

impl TestHome {
    pub(crate) fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            clock: Arc::new(ManualClock::new(UNIX_EPOCH + Duration::from_secs(1_800_000_000))),
            is_required: true,
            models: ModelCheckMode::default(),
        }
    }

    pub(crate) fn path(&self, rel: &str) -> PathBuf {
        self.directory.path().join(rel)
    }

    pub(crate) fn write(&self, rel: &str, text: &str) {
        let path = self.path(rel);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Writes a skill with its queries, each of which is expected to lead to it.
    pub(crate) fn skill(&self, id: &str, description: &str, queries: &[&str]) {
        self.write(&format!("skills/{id}/SKILL.md"), &skill_text(id, description, ""));
        let cases: Vec<String> = queries
            .iter()
            .map(|query| format!("{{\"query\": \"{query}\", \"should_trigger\": true}}"))
            .collect();
        if !cases.is_empty() {
            let text = format!("[{}]", cases.join(",\n"));
            self.write(&format!("skills/{id}/evals/triggers.json"), &text);
        }
    }

    pub(crate) fn options(&self) -> StoreOptions {
        let path = self.path("skills");
        let root = SkillRoot { label: "sandbox".to_owned(), path, trust: TrustLevel::Operator };
        StoreOptions { roots: vec![root], ..StoreOptions::default() }
    }

    pub(crate) fn ledger(&self) -> Ledger {
        let data = self.path("data");
        let (options, required) = (self.options(), self.is_required);
        let check = AcceptanceCheck::new(options, data.clone(), required, self.models);
        Ledger::new(data, Arc::<ManualClock>::clone(&self.clock)).set_check(Arc::new(check))
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Store::open(self.options(), Arc::<ManualClock>::clone(&self.clock)).unwrap().snapshot()
    }

    pub(crate) fn propose_by(
        &self,
        origin: &str,
        id: &str,
        text: &str,
    ) -> Result<Proposal, LedgerError> {
        let author = AgentAuthor {
            agent_id: "helper".to_owned(),
            session_id: "s".to_owned(),
            turn_id: "t".to_owned(),
            origin: origin.to_owned(),
        };
        let request = ProposeRequest {
            skill_id: id.to_owned(),
            new_content: Some(text.to_owned()),
            justification: "It reads better.".to_owned(),
            ..ProposeRequest::default()
        };
        let ledger = self.ledger();
        let made = ledger.propose(&self.snapshot(), &author, &request)?;
        ledger.proposal(&made.proposal.id)
    }

    pub(crate) fn propose(&self, id: &str, text: &str) -> Result<Proposal, LedgerError> {
        self.propose_by("agent", id, text)
    }

    pub(crate) fn refused(&self, id: &str, text: &str) -> String {
        let error = self.propose(id, text).unwrap_err();
        assert_eq!(error.reason(), LedgerErrorKind::Refused, "{error}");
        let waiting = self.ledger().proposals(skill_ledger::ProposalFilter::default());
        assert_eq!(waiting.unwrap(), [], "nothing is filed");
        error.to_string()
    }

    pub(crate) fn approve(
        &self,
        proposal: &Proposal,
        reason: Option<&str>,
    ) -> Result<u64, LedgerError> {
        let person = HumanActor { name: "ada".to_owned(), via: "cli".to_owned() };
        let digest = proposal.summary.review_digest();
        let done =
            self.ledger().approve(&self.snapshot(), &person, &proposal.summary.id, digest, reason);
        done.map(|applied| applied.version)
    }
}

pub(crate) const BODY: &str = "Open the file first. Read each field and its label.\n\n\
    ## Gotchas\n\nScanned forms have no fields.\n";

pub(crate) fn skill_text(id: &str, description: &str, more: &str) -> String {
    format!("---\nname: {id}\ndescription: {description}\n---\n\n# {id}\n\n{BODY}{more}")
}

pub(crate) const FORMS: &str =
    "Fills in PDF forms such as the W-9. Use when a form has to be completed.";

pub(crate) fn home_with_forms() -> TestHome {
    let home = TestHome::new();
    home.skill("pdf-forms", FORMS, &["complete the W-9", "which fields does this form have"]);
    home
}
