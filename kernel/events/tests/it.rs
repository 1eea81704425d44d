//! Tests of the journal's public interface with real files.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "it/crashes.rs"]
mod crashes;
#[path = "it/deliveries.rs"]
mod deliveries;
#[path = "it/files.rs"]
mod files;
#[path = "it/fixture.rs"]
mod fixture;
#[path = "it/storage.rs"]
mod storage;
