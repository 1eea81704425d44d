//! The kernel against real libraries: those that behave, those that do not, and files that are none.
//!
//! Nothing here waits for time to pass. A misbehaving extension says where it is through the gate
//! (see `examples/misbehave.rs`), and a limit is only ever reached by what never ends.

mod agents;
mod calls;
mod chain;
mod control;
mod dependencies;
mod embeddings;
mod events;
mod handlers;
mod ledger;
mod lifecycle;
mod loading;
mod logs;
mod refused;
mod reload;
mod reviewer;
mod rig;
mod runs;
mod schedules;
mod search;
mod templates;
