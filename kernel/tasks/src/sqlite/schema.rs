//! The tables, as migrations. A released step is never changed, only followed by another one.

use rusqlite_migration::{M, Migrations};

/// The steps in order; `user_version` is the number of applied steps.
const STEPS: &[M<'static>] = &[M::up(INITIAL_TABLES)];

/// The steps in the form of the migration library.
pub(super) const MIGRATIONS: Migrations<'static> = Migrations::from_slice(STEPS);

/// The version of the current schema.
pub(super) const LATEST_VERSION: i64 = STEPS.len() as i64;

/// The tables of version 1.
// Exactly the terminal tasks have `ended_ms`, so it is the condition of the indexes for open ones.
// Inputs are apart, so that a transition does not write them again. Outbox numbers are never used
// again: a late acknowledgment must not remove an event that was appended later.
const INITIAL_TABLES: &str = "
CREATE TABLE tasks (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    target TEXT NOT NULL,
    title TEXT NOT NULL,
    input_sha256 TEXT NOT NULL,
    state TEXT NOT NULL CHECK (
        state IN ('ready', 'running', 'waiting', 'completed', 'failed', 'cancelled')
    ),
    lane TEXT,
    priority INTEGER NOT NULL,
    due_ms INTEGER NOT NULL,
    is_backoff INTEGER NOT NULL,
    deadline_ms INTEGER,
    attempt INTEGER NOT NULL,
    stalled INTEGER NOT NULL,
    retries INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    worker TEXT,
    lease_ms INTEGER,
    budget TEXT,
    spent TEXT,
    reserved TEXT,
    parent TEXT,
    root TEXT NOT NULL,
    depth INTEGER NOT NULL,
    waits TEXT,
    until_ms INTEGER AS (waits ->> '$.until_ms') VIRTUAL,
    scope TEXT NOT NULL,
    key TEXT,
    origin TEXT NOT NULL,
    agent TEXT,
    thread TEXT,
    principal TEXT,
    correlation_id TEXT,
    on_end TEXT NOT NULL,
    progress TEXT,
    cancel TEXT,
    outcome TEXT,
    retry_of TEXT,
    lines INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    started_ms INTEGER,
    changed_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    CHECK ((state IN ('completed', 'failed', 'cancelled')) = (ended_ms IS NOT NULL)),
    CHECK ((ended_ms IS NOT NULL) = (outcome IS NOT NULL)),
    CHECK ((state = 'running') = (lease_ms IS NOT NULL))
) STRICT;
CREATE UNIQUE INDEX tasks_by_key ON tasks (scope, key) WHERE key IS NOT NULL;
CREATE UNIQUE INDEX tasks_by_retry ON tasks (retry_of) WHERE retry_of IS NOT NULL;
CREATE INDEX tasks_by_state ON tasks (state, id);
CREATE INDEX tasks_by_parent ON tasks (parent, id) WHERE parent IS NOT NULL;
CREATE INDEX tasks_by_root ON tasks (root, id) WHERE parent IS NOT NULL;
CREATE INDEX tasks_by_thread ON tasks (thread, id) WHERE thread IS NOT NULL;
CREATE INDEX ready_tasks ON tasks (priority DESC, due_ms, id) WHERE state = 'ready';
CREATE INDEX paused_tasks ON tasks (due_ms) WHERE state = 'ready' AND is_backoff = 1;
CREATE INDEX leased_tasks ON tasks (lease_ms) WHERE state = 'running';
CREATE INDEX timed_tasks ON tasks (until_ms) WHERE state = 'waiting' AND until_ms IS NOT NULL;
CREATE INDEX limited_tasks ON tasks (deadline_ms)
    WHERE deadline_ms IS NOT NULL AND ended_ms IS NULL;
CREATE INDEX open_tasks_by_lane ON tasks (lane, id) WHERE lane IS NOT NULL AND ended_ms IS NULL;
CREATE INDEX open_tasks_by_parent ON tasks (parent, id)
    WHERE parent IS NOT NULL AND ended_ms IS NULL;
CREATE INDEX open_tasks_by_root ON tasks (root) WHERE parent IS NOT NULL AND ended_ms IS NULL;

CREATE TABLE inputs (
    number INTEGER PRIMARY KEY REFERENCES tasks (number),
    input TEXT NOT NULL
) STRICT;

CREATE TABLE waits (
    awaited TEXT NOT NULL,
    task TEXT NOT NULL,
    PRIMARY KEY (awaited, task)
) STRICT, WITHOUT ROWID;
CREATE INDEX waits_by_task ON waits (task);

CREATE TABLE attempts (
    task TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    worker TEXT NOT NULL,
    began_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    how TEXT,
    error TEXT,
    PRIMARY KEY (task, epoch)
) STRICT, WITHOUT ROWID;

CREATE TABLE lines (
    task TEXT NOT NULL,
    seq INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    line TEXT NOT NULL,
    PRIMARY KEY (task, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE questions (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    task TEXT,
    thread TEXT,
    kind TEXT NOT NULL,
    asker TEXT NOT NULL,
    call TEXT NOT NULL,
    title TEXT NOT NULL,
    subject TEXT NOT NULL,
    digest TEXT NOT NULL,
    options TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'decided', 'withdrawn', 'expired')),
    choice TEXT,
    reason TEXT,
    decider TEXT,
    opened_ms INTEGER NOT NULL,
    closed_ms INTEGER,
    CHECK ((state = 'open') = (closed_ms IS NULL))
) STRICT;
CREATE INDEX questions_by_task ON questions (task, call, id) WHERE task IS NOT NULL;
CREATE INDEX questions_by_thread ON questions (thread, call, id) WHERE task IS NULL;
CREATE INDEX questions_by_time ON questions (opened_ms, id);
CREATE INDEX open_questions ON questions (opened_ms, id) WHERE state = 'open';
CREATE INDEX open_questions_by_task ON questions (task, id)
    WHERE state = 'open' AND task IS NOT NULL;
CREATE INDEX open_questions_by_thread ON questions (thread, id)
    WHERE state = 'open' AND task IS NULL;

CREATE TABLE outbox (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    topic TEXT NOT NULL,
    key TEXT NOT NULL,
    correlation_id TEXT,
    payload TEXT NOT NULL,
    UNIQUE (topic, key)
) STRICT;

CREATE TABLE handles (
    sha256 TEXT PRIMARY KEY NOT NULL,
    task TEXT NOT NULL,
    principal TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER terminal_task_is_changed BEFORE UPDATE ON tasks WHEN old.ended_ms IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'a terminal task never changes'); END;
CREATE TRIGGER terminal_task_is_deleted BEFORE DELETE ON tasks WHEN old.ended_ms IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'a terminal task is never deleted'); END;
CREATE TRIGGER task_epoch_decreases BEFORE UPDATE OF epoch ON tasks WHEN new.epoch < old.epoch
BEGIN SELECT RAISE(ABORT, 'the epoch of a task never decreases'); END;
CREATE TRIGGER closed_question_is_changed BEFORE UPDATE ON questions
    WHEN old.closed_ms IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'a closed question never changes'); END;
CREATE TRIGGER closed_question_is_deleted BEFORE DELETE ON questions
    WHEN old.closed_ms IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'a closed question is never deleted'); END;
CREATE TRIGGER input_is_changed BEFORE UPDATE ON inputs
BEGIN SELECT RAISE(ABORT, 'an input never changes'); END;
CREATE TRIGGER input_is_deleted BEFORE DELETE ON inputs
BEGIN SELECT RAISE(ABORT, 'an input is never deleted'); END;

CREATE TRIGGER waits_are_inserted AFTER INSERT ON tasks WHEN new.waits IS NOT NULL
BEGIN
    INSERT INTO waits (awaited, task)
        SELECT value, new.id FROM json_each(new.waits, '$.tasks')
        UNION SELECT value, new.id FROM json_each(new.waits, '$.after');
END;
CREATE TRIGGER waits_are_changed AFTER UPDATE OF waits ON tasks WHEN old.waits IS NOT new.waits
BEGIN
    DELETE FROM waits WHERE task = old.id;
    INSERT INTO waits (awaited, task)
        SELECT value, new.id FROM json_each(new.waits, '$.tasks')
        UNION SELECT value, new.id FROM json_each(new.waits, '$.after');
END;
";
