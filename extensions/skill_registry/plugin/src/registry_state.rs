//! The state of the registry around its ledger: proposals, activations, and decisions of other
//! processes.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use skill_catalog::{Store, SystemClock};
use skill_ledger::{
    ActivationLog, Ledger, LedgerError, LedgerOutcome, LedgerSync, SkillAccess, SkillActivation,
};
use skill_service::{
    DeclarationIndex, LogMessage, ProgramIndex, ProposalReviewer, RegistryConfig, SkillFinder,
    apply_decision, audience_of, author_of, list_review_questions, list_skill_versions, load_offer,
    propose_skill_update, read_skill_version, to_ledger_events,
};
use skill_testing::AcceptanceCheck;
use skillhost_sdk::prelude::*;
use skillhost_sdk::tokio::select;
use skillhost_sdk::tokio::sync::{Mutex, Notify};
use skillhost_sdk::tokio::time::sleep;
use skillhost_sdk::{
    CallOrigin, ReviewDecision, ReviewOffer, ReviewQuestion, SkillVersionFile, SkillVersionSummary,
    serde_json,
};

use crate::bridge::{log_messages, run_blocking, to_extension_error, to_tool_output};

/// The maximum delay before activations are written.
const WRITE_INTERVAL: Duration = Duration::from_secs(2);

/// The maximum number of events that wait to be published.
const MAX_UNSENT_EVENTS: usize = 1000;

/// The ledger and the queues around it.
pub(crate) struct RegistryState {
    pub(crate) cx: ExtensionContext,
    pub(crate) store: Arc<Store>,
    pub(crate) finder: Arc<SkillFinder>,
    pub(crate) programs: ProgramIndex,
    pub(crate) declarations: DeclarationIndex,
    pub(crate) ledger: Ledger,
    pub(crate) keeper: LedgerSync,
    log: ActivationLog,
    pub(crate) reviewer: ProposalReviewer,
    /// A lock that admits one review at a time.
    pub(crate) reviewing: Mutex<()>,
    /// Events that could not be published yet.
    unsent: Mutex<VecDeque<Event>>,
    /// A batch of readings is full.
    full: Notify,
}

impl RegistryState {
    pub(crate) fn new(cx: ExtensionContext) -> Result<Self> {
        let config: RegistryConfig = cx.config()?;
        let options = config.options(cx.home(), cx.share_dir());
        let store = Store::open(options.clone(), Arc::new(SystemClock)).map_err(|error| {
            ExtensionError::invalid_argument(error.to_string())
                .with_hint("correct extensions.skill_registry in skillhost.yaml")
        })?;
        let store = Arc::new(store);
        let data = cx.data_path().to_owned();
        let checks = config.review.checks;
        let check = AcceptanceCheck::new(options, data.clone(), checks.is_required(), checks.model);
        let ledger = Ledger::new(data, Arc::new(SystemClock)).set_check(Arc::new(check));
        let reviewer = ProposalReviewer::new(config.review.clone(), &ledger);
        let finder = Arc::new(SkillFinder::new(config, &store, &ledger));
        let log = ActivationLog::new(finder.offers());
        let (keeper, full) = (LedgerSync::new(&ledger), Notify::new());
        let (reviewing, unsent) = (Mutex::default(), Mutex::default());
        let programs = ProgramIndex::new(Arc::clone(&store));
        let declarations = DeclarationIndex::new(Arc::clone(&store));
        declarations.refresh();
        Ok(Self {
            cx,
            store,
            finder,
            programs,
            declarations,
            ledger,
            keeper,
            log,
            reviewer,
            reviewing,
            unsent,
            full,
        })
    }

    /// Records a proposal and publishes its event.
    pub(crate) async fn propose(&self, cx: &CallContext, args: ToolArgs<'_>) -> Result<ToolOutput> {
        let (author, request) = (author_of(cx), args.parse()?);
        let snapshot = self.store.snapshot();
        let policy = self.finder.config().review.policy;
        let (made, kept) = run_blocking(|| {
            propose_skill_update(
                &self.ledger,
                &snapshot,
                audience_of(cx),
                &author,
                &request,
                policy,
            )
        });
        self.publish_outcome_for(Some(cx), kept).await;
        to_tool_output(made.map_err(to_extension_error)?)
    }

    /// Checks that the agent of a call has the tools that a skill requires.
    pub(crate) fn check_eligible(&self, cx: &CallContext, skill_id: &str) -> Result<()> {
        let snapshot = self.store.snapshot();
        self.declarations.check_eligible(&snapshot, cx, skill_id).map_err(to_extension_error)
    }

    /// Records that an agent created a skill.
    pub(crate) fn record_created_skill(&self, cx: &CallContext, skill_id: &str) -> Result<()> {
        self.log_notes(self.ledger.report_created(&self.store.snapshot(), &author_of(cx), skill_id))
    }

    /// Returns a proposal as a client's human is to see it.
    pub(crate) fn review_offer(&self, proposal: &str) -> Result<Option<ReviewOffer>> {
        self.log_notes(run_blocking(|| load_offer(&self.ledger, proposal)))
    }

    /// Returns the proposals as questions to people.
    pub(crate) fn list_reviews(&self, known: &[String]) -> Result<Vec<ReviewQuestion>> {
        self.log_notes(run_blocking(|| list_review_questions(&self.ledger, known)))
    }

    /// Returns the recorded versions of a skill.
    pub(crate) fn list_versions(&self, skill_id: &str) -> Result<Vec<SkillVersionSummary>> {
        let snapshot = self.store.snapshot();
        self.log_notes(run_blocking(|| list_skill_versions(&self.ledger, &snapshot, skill_id)))
    }

    /// Returns the files of a version.
    pub(crate) fn read_version(
        &self,
        skill_id: &str,
        number: u64,
    ) -> Result<Vec<SkillVersionFile>> {
        self.log_notes(run_blocking(|| read_skill_version(&self.ledger, skill_id, number)))
    }

    /// Logs the notes of a ledger operation.
    fn log_notes<T>(&self, done: std::result::Result<T, LedgerError>) -> Result<T> {
        log_messages(&LogMessage::from_notes(&self.ledger.take_notes()));
        done.map_err(to_extension_error)
    }

    /// Applies a decision that a client's user made.
    pub(crate) async fn apply_decision(&self, made: &ReviewDecision) -> Result<String> {
        let (done, kept) =
            run_blocking(|| apply_decision(&self.ledger, &self.store.snapshot(), made));
        self.publish_outcome_for(Some(&made.context), kept).await;
        done.map_err(to_extension_error)
    }

    /// Queues a reading; it is written later.
    pub(crate) fn record_access(&self, cx: &CallContext, read: SkillAccess) {
        let reading = SkillActivation::new(SystemTime::now(), author_of(cx), read);
        if self.log.record(SkillActivation { call_number: cx.call_number, ..reading }) {
            self.full.notify_one();
        }
    }

    /// Checks a skill whose files an agent uses without reading them, and notes the use.
    pub(crate) fn check_use(&self, cx: &CallContext, skill_id: &str) -> Result<()> {
        let note_use = |()| self.log.note_use(&cx.session_id, &cx.agent_id, skill_id);
        self.check_eligible(cx, skill_id).map(note_use)
    }

    /// Counts a run of a script. A person's own runs are no use by an agent.
    pub(crate) fn count_script_run(&self, cx: &CallContext, skill_id: &str) {
        if cx.origin != CallOrigin::Operator {
            self.log.count_script_run(SystemTime::now(), &cx.agent_id, skill_id);
        }
    }

    /// Writes the queued readings and all counts.
    pub(crate) async fn flush_completely(&self) {
        self.publish_outcome(run_blocking(|| self.keeper.flush_completely(&self.log))).await;
    }

    /// Writes the queued readings at an interval, in batches.
    pub(crate) async fn flush_periodically(&self) {
        loop {
            select! { () = sleep(WRITE_INTERVAL) => {}, () = self.full.notified() => {} }
            self.publish_outcome(run_blocking(|| self.keeper.flush_activations(&self.log))).await;
        }
    }

    /// Publishes the events and logs the notes of a ledger operation.
    pub(crate) async fn publish_outcome(&self, kept: LedgerOutcome) {
        self.publish_outcome_for(None, kept).await;
    }

    /// Publishes as [`RegistryState::publish_outcome`] does, within the context of a call.
    async fn publish_outcome_for(&self, cx: Option<&CallContext>, kept: LedgerOutcome) {
        log_messages(&LogMessage::from_outcome(&kept));
        let correlation_id = cx.and_then(|cx| cx.correlation_id.as_deref());
        self.publish(to_ledger_events(&kept, correlation_id)).await;
    }

    /// Publishes events in order, after those that could not be published before. If the disk is
    /// full or the kernel shuts down, they stay queued.
    pub(crate) async fn publish(&self, events: Vec<serde_json::Result<Event>>) {
        let mut unsent = self.unsent.lock().await;
        for event in events {
            match event {
                Ok(event) => unsent.push_back(event),
                Err(error) => tracing::warn!(%error, "an event could not be written"),
            }
        }
        while let Some(event) = unsent.front() {
            match self.cx.emit_event(event).await {
                Ok(()) => {}
                Err(error) if is_permanent(error.kind()) => {
                    tracing::warn!(%error, "an event was not published");
                }
                Err(error) => {
                    let waiting = unsent.len();
                    tracing::debug!(%error, waiting, "events are published later");
                    break;
                }
            }
            // Removed after the attempt: a cancelled call must not lose it.
            unsent.pop_front();
        }
        // A disk that stays full must not fill the memory as well.
        let over = unsent.len().saturating_sub(MAX_UNSENT_EVENTS);
        if over > 0 {
            tracing::warn!(over, "the oldest events that could not be published are dropped");
            unsent.drain(..over);
        }
    }
}

/// Returns whether a retry cannot succeed.
fn is_permanent(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::InvalidArgument | ErrorKind::TooLarge | ErrorKind::Protocol)
}
