//! Tests of the PostgreSQL store with a private server.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::print_stdout, reason = "figures")]

#[path = "postgres/differential.rs"]
mod differential;
#[path = "postgres/encryption.rs"]
mod encryption;
#[path = "postgres/fleet.rs"]
mod fleet;
#[path = "postgres/homes.rs"]
mod homes;
#[path = "postgres/kills.rs"]
mod kills;
#[path = "postgres/schema.rs"]
mod schema;
#[path = "postgres/server.rs"]
mod server;
