//! The tables, as migrations. A released step is never changed, only followed by another one.

use rusqlite_migration::{M, Migrations};

/// The steps in order; `user_version` is the number of applied steps.
const STEPS: &[M<'static>] = &[M::up(INITIAL_TABLES)];

/// The steps in the form of the migration library.
pub(super) const MIGRATIONS: Migrations<'static> = Migrations::from_slice(STEPS);

/// The version of the current schema.
pub(super) const LATEST_VERSION: i64 = STEPS.len() as i64;

/// The tables of version 1.
// Subscribers have the last event for which deliveries were planned; acknowledged deliveries are
// deleted; AUTOINCREMENT keeps ids of pruned events from being used again.
const INITIAL_TABLES: &str = "
CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms INTEGER NOT NULL,
    topic TEXT NOT NULL,
    source TEXT NOT NULL,
    payload TEXT NOT NULL,
    correlation_id TEXT,
    key TEXT
) STRICT;
CREATE UNIQUE INDEX events_by_key ON events (topic, key) WHERE key IS NOT NULL;

CREATE TABLE subscribers (
    id TEXT PRIMARY KEY NOT NULL,
    topic TEXT NOT NULL,
    planned INTEGER NOT NULL,
    gone_ms INTEGER
) STRICT;

CREATE TABLE deliveries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    event INTEGER NOT NULL REFERENCES events (id) ON DELETE CASCADE,
    subscriber TEXT NOT NULL,
    lane TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'claimed', 'released', 'dead')),
    attempts INTEGER NOT NULL,
    due_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL,
    error TEXT,
    UNIQUE (event, subscriber)
) STRICT;
CREATE INDEX deliveries_by_lane ON deliveries (subscriber, lane, event);
CREATE INDEX deliveries_by_state ON deliveries (state, due_ms);

CREATE TABLE schedules (
    id TEXT PRIMARY KEY NOT NULL,
    due_ms INTEGER NOT NULL,
    started_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    error TEXT
) STRICT;
";
