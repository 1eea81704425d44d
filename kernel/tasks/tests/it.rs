//! Tests of the stores through their public interface.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "it/all_rows.rs"]
mod all_rows;
#[path = "it/conformance.rs"]
mod conformance;
#[cfg(unix)]
#[path = "it/crashes.rs"]
mod crashes;
#[path = "it/fixture.rs"]
mod fixture;
#[path = "it/random.rs"]
mod random;
#[path = "it/scenario.rs"]
mod scenario;
#[path = "it/sqlite_file.rs"]
mod sqlite_file;
