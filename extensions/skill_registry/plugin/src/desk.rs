//! The ledger at work: proposals, what is read, what others decided.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use skill_store::{
    Activation, ActivationLog, Finder, Kept, Ledger, LedgerError, LedgerKeeper, Offer, Read,
    RegistryConfig, Reviewer, Store, SystemClock, Turn, Verdict, proposed,
};
use skillhost_sdk::ReviewDecision;
use skillhost_sdk::prelude::*;
use skillhost_sdk::tokio::{select, sync::Mutex, sync::Notify, time::sleep};
use skillhost_sdk::{serde, serde_json};

use crate::caller::{audience, author, scope};
use crate::watch::log;
use crate::{blocking, refused, tools};

/// How long readings wait to be written at most.
const WRITE_EVERY: Duration = Duration::from_secs(2);

/// Events that wait to be published at most.
const MOST_UNSENT: usize = 1000;

/// Everything that goes into the ledger or comes out of it.
pub(crate) struct Desk {
    pub(crate) cx: ExtensionContext,
    pub(crate) store: Arc<Store>,
    pub(crate) finder: Arc<Finder>,
    pub(crate) ledger: Ledger,
    pub(crate) keeper: LedgerKeeper,
    log: ActivationLog,
    pub(crate) reviewer: Reviewer,
    /// One review at a time.
    pub(crate) reviewing: Mutex<()>,
    /// Events that could not be published yet.
    unsent: Mutex<VecDeque<Event>>,
    /// A batch of readings is full.
    full: Notify,
}

impl Desk {
    pub(crate) fn new(cx: ExtensionContext) -> Result<Self> {
        let config: RegistryConfig = cx.config()?;
        let options = config.options(cx.home(), cx.share_dir());
        let store = Store::open(options, Arc::new(SystemClock)).map_err(|error| {
            ExtensionError::invalid_argument(error.to_string())
                .with_hint("correct extensions.skill_registry in skillhost.yaml")
        })?;
        let store = Arc::new(store);
        let ledger = Ledger::new(cx.data_path().to_owned(), Arc::new(SystemClock));
        let reviewer = Reviewer::new(config.review.clone(), &ledger);
        let finder = Arc::new(Finder::new(config, &store, &ledger));
        let (keeper, log, full) = (LedgerKeeper::new(&ledger), Default::default(), Notify::new());
        let (reviewing, unsent) = (Mutex::default(), Mutex::default());
        Ok(Self { cx, store, finder, ledger, keeper, log, reviewer, reviewing, unsent, full })
    }

    /// A turn as far as the catalog depends on it.
    pub(crate) fn turn<'a>(&self, cx: &'a CallContext, prompt: &'a str) -> Turn<'a> {
        let budget_chars = self.finder.config().budget_chars(cx.context_window);
        let (session_id, agent_id) = (&*cx.session_id, &*cx.agent_id);
        Turn { scope: scope(cx), session_id, agent_id, prompt, budget_chars }
    }

    /// Records a proposal and tells everybody.
    pub(crate) async fn propose(&self, cx: &CallContext, args: ToolArgs<'_>) -> Result<ToolOutput> {
        let (author, request) = (author(cx), args.parse()?);
        let snapshot = self.store.snapshot();
        let policy = self.finder.config().review.policy;
        let (made, kept) =
            blocking(|| proposed(&self.ledger, &snapshot, audience(cx), &author, &request, policy));
        self.tell_for(Some(cx), kept).await;
        tools::output(made.map_err(refused)?)
    }

    /// Records that an agent created a skill.
    pub(crate) fn created(&self, cx: &CallContext, skill_id: &str) -> Result<()> {
        self.asked(self.ledger.report_created(&self.store.snapshot(), &author(cx), skill_id))
    }

    /// Returns a proposal as a client's human is to see it.
    pub(crate) fn offer(&self, proposal: &str) -> Result<Option<Offer>> {
        self.asked(blocking(|| self.ledger.offer(proposal)))
    }

    /// Says what the ledger noticed while it was asked something.
    fn asked<T>(&self, done: std::result::Result<T, LedgerError>) -> Result<T> {
        log(&Kept { notes: self.ledger.take_notes(), ..Kept::default() }.lines());
        done.map_err(|error| refused(error.into()))
    }

    /// Does what a client's human decided, as the client says.
    pub(crate) async fn decide(&self, made: &ReviewDecision) -> Result<String> {
        let ReviewDecision { context, proposal, digest, approve, reason } = made;
        let client = &context.agent_id;
        let verdict = Verdict { client, proposal, digest, approve: *approve, reason };
        let (done, kept) = blocking(|| self.ledger.settle_offer(&self.store.snapshot(), &verdict));
        self.tell_for(Some(context), kept).await;
        done.map_err(|error| refused(error.into()))
    }

    /// Takes down what was read, to be written later.
    pub(crate) fn record(&self, cx: &CallContext, read: Read) {
        if self.log.record(Activation::new(SystemTime::now(), author(cx), read)) {
            self.full.notify_one();
        }
    }

    /// Writes what was read so far.
    pub(crate) async fn write(&self) {
        self.tell(blocking(|| self.keeper.write(&self.log))).await;
    }

    /// Writes what is read, in batches.
    pub(crate) async fn write_in_batches(&self) {
        loop {
            select! { () = sleep(WRITE_EVERY) => {}, () = self.full.notified() => {} }
            self.write().await;
        }
    }

    /// Says what came out of a look at the ledger.
    pub(crate) async fn tell(&self, kept: Kept) {
        self.tell_for(None, kept).await;
    }

    /// As [`Desk::tell`], as part of what a call belongs to.
    async fn tell_for(&self, cx: Option<&CallContext>, kept: Kept) {
        log(&kept.lines());
        let correlation_id = cx.and_then(|cx| cx.correlation_id.clone());
        let events = kept.events.iter().map(|event| {
            let correlation_id = correlation_id.clone();
            news(event.topic(), event).map(|news| Event {
                key: event.key(),
                correlation_id,
                ..news
            })
        });
        self.publish(events.collect()).await;
    }

    /// Publishes events in their order, those first that could not be published before. A disk that
    /// is full, or a kernel that ends, keeps them here until the next time.
    pub(crate) async fn publish(&self, events: Vec<Result<Event>>) {
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
                Err(error) if is_final(error.kind()) => {
                    tracing::warn!(%error, "an event was not published");
                }
                Err(error) => {
                    let waiting = unsent.len();
                    tracing::debug!(%error, waiting, "events are published later");
                    break;
                }
            }
            unsent.pop_front();
        }
        let over = unsent.len().saturating_sub(MOST_UNSENT);
        if over > 0 {
            tracing::warn!(over, "the oldest events that could not be published are dropped");
            unsent.drain(..over);
        }
    }
}

/// An event that belongs to nothing.
pub(crate) fn news(topic: &str, payload: &impl serde::Serialize) -> Result<Event> {
    let payload = serde_json::value::to_raw_value(payload)
        .map_err(|error| ExtensionError::failed(error.to_string()))?;
    Ok(Event::new(topic, "", payload))
}

/// Trying again would not help.
fn is_final(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::InvalidArgument | ErrorKind::TooLarge | ErrorKind::Protocol)
}
