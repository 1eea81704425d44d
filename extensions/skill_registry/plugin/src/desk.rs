//! The ledger at work: proposals, what is read, what others decided.

use std::time::{Duration, SystemTime};

use skill_format::sanitise_line;
use skill_store::{
    Activation, ActivationKind, ActivationLog, Kept, Ledger, LedgerKeeper, LedgerNote, Read, Store,
    SystemClock, propose_skill_update,
};
use skillhost_sdk::prelude::*;
use skillhost_sdk::tokio::{select, sync::Notify, time::sleep};

use crate::caller::{audience, author};
use crate::{blocking, refused, tools};

/// How long readings wait to be written at most.
const WRITE_EVERY: Duration = Duration::from_secs(2);

/// Everything that goes into the ledger or comes out of it.
pub(crate) struct Desk {
    cx: ExtensionContext,
    pub(crate) ledger: Ledger,
    pub(crate) keeper: LedgerKeeper,
    log: ActivationLog,
    /// A batch of readings is full.
    full: Notify,
}

impl Desk {
    pub(crate) fn new(cx: ExtensionContext) -> Self {
        let ledger = Ledger::new(cx.data_path().to_owned(), Arc::new(SystemClock));
        let keeper = LedgerKeeper::new(&ledger);
        Self { cx, ledger, keeper, log: ActivationLog::default(), full: Notify::new() }
    }

    /// Records a proposal and tells everybody.
    pub(crate) async fn propose(
        &self,
        store: &Store,
        cx: &CallContext,
        args: Args<'_>,
    ) -> Result<ToolOutput> {
        let (author, request) = (author(cx), args.parse()?);
        let made = blocking(|| {
            propose_skill_update(&self.ledger, &store.snapshot(), audience(cx), &author, &request)
        });
        say(&self.ledger.take_notes());
        let (answer, event) = made.map_err(refused)?;
        self.tell(Kept { events: event.into_iter().collect(), ..Kept::default() }).await;
        tools::output(answer)
    }

    /// Records that an agent created a skill.
    pub(crate) fn created(&self, store: &Store, cx: &CallContext, skill_id: &str) -> Result<()> {
        let done = self.ledger.report_created(&store.snapshot(), &author(cx), skill_id);
        say(&self.ledger.take_notes());
        done.map_err(|error| refused(error.into()))
    }

    /// Takes down what was read, to be written later.
    pub(crate) fn record(
        &self,
        cx: &CallContext,
        kind: ActivationKind,
        skill_id: String,
        path: Option<String>,
        read: Option<Read>,
    ) {
        let reading = Activation::new(SystemTime::now(), author(cx), kind, skill_id, path, read);
        let full = self.log.record(reading);
        if full {
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
        say(&kept.notes);
        if let Some(error) = kept.trouble {
            let line = sanitise_line(&error.to_string());
            tracing::warn!(hint = error.hint(), "the ledger cannot be used: {line}");
        }
        for event in &kept.events {
            // What happened stays in the ledger.
            if let Err(error) = self.cx.emit(event.topic(), event).await {
                tracing::debug!(%error, "an event of the ledger was not published");
            }
        }
    }
}

fn say(notes: &[LedgerNote]) {
    notes.iter().for_each(|note| tracing::warn!("{}", sanitise_line(&note.to_string())));
}
