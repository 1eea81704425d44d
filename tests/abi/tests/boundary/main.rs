//! The kernel against real libraries: working ones, failing ones, and files that are not libraries.
//!
//! No test waits for time to pass. A misbehaving extension reports its state through the gate (see
//! `examples/misbehave.rs`), and only endless operations reach a limit.

mod agents;
mod calls;
mod chain;
mod control;
mod dependencies;
mod embeddings;
mod events;
mod fixture;
mod frozen;
mod handlers;
mod ledger;
mod lifecycle;
mod loading;
mod logs;
mod program_calls;
mod refused;
mod reload;
mod reviewer;
mod runs;
mod schedules;
mod search;
mod tasks;
mod templates;
