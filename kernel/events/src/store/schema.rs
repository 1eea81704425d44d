//! The tables, as migrations: what was released is never changed, only followed by another step.

use rusqlite_migration::{M, Migrations};

/// The steps, in order; `user_version` counts them.
const STEPS: &[M<'static>] = &[M::up(FIRST)];

/// The steps as the library takes them.
pub(super) const MIGRATIONS: Migrations<'static> = Migrations::from_slice(STEPS);

/// How many steps this program knows.
pub(super) const LATEST: i64 = STEPS.len() as i64;

/// Events; subscribers with the last event for which deliveries were planned; deliveries that are not
/// done; the last run of each schedule.
const FIRST: &str = "
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
