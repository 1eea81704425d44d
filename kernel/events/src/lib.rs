//! The journal of events behind the kernel: kept, delivered, retried.
//!
//! A [`Journal`] is one SQLite file. An event that [`Journal::append`] returned is on the disk; each
//! of the [`Subscriber`]s gets it as a [`Delivery`] until it is acknowledged or dead. The journal
//! knows nothing of what handlers do, and waits for nobody: who delivers asks
//! [`Journal::claim_due`] and says what came of it.
//!
//! What holds, whenever the process ends: an event that was appended is kept; a delivery that was
//! not acknowledged is made again, so a handler may see an event more than once; attempts are
//! counted before they begin, so a handler that ends the process is not tried for ever.
//!
//! Several processes may append to one file at once; one of them delivers.

mod clock;
mod error;
mod event;
mod journal;
mod place;
mod store;

pub use clock::Clock;
pub use error::{JournalError, JournalErrorKind};
pub use event::{
    ClaimedDeliveries, DeadLetter, Delivery, MAX_PAYLOAD, NewEvent, ScheduleRun, StoredEvent,
    Subscriber, TailQuery, topic_matches,
};
pub use journal::{Journal, PruneReport, RetentionLimits};
