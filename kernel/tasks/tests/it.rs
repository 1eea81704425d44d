//! Tests of the stores through their public interface.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "it/conformance.rs"]
mod conformance;
#[path = "it/fixture.rs"]
mod fixture;
#[path = "it/random.rs"]
mod random;
#[path = "it/sqlite_file.rs"]
mod sqlite_file;
