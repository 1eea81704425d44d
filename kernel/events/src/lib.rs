//! The events of the kernel: the journal with deliveries and retries, and the bus.
//!
//! A [`Journal`] is one SQLite file. An event that [`Journal::append`] returned is durable; each
//! [`Subscriber`] receives it as a [`Delivery`] until the delivery is acknowledged or dead. The
//! journal calls no handlers: the delivering process calls [`Journal::claim_due`] and reports each
//! outcome.
//!
//! The guarantees hold whenever the process ends: an appended event is stored; a delivery that was
//! not acknowledged is repeated, so a handler may see an event more than once; attempts are counted
//! before they start, so a handler that ends the process is not retried forever.
//!
//! Several processes may append to one file at once; one of them delivers. An [`EventBus`] also
//! passes events on to the listeners in its process.

mod bus;
mod clock;
mod error;
mod event;
mod journal;
mod journal_file;
mod store;

pub use bus::{EventBus, to_event, topic};
pub use clock::Clock;
pub use error::{JournalError, JournalErrorKind};
pub use event::{
    ClaimedDeliveries, DeadLetter, Delivery, NewEvent, ScheduleRun, StoredEvent, Subscriber,
    TailQuery,
};
pub use journal::{Journal, PruneReport, RetentionLimits};
