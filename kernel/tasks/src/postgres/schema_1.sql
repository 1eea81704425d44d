-- Version 1. The program sets the search path to the schema.
--
-- A row keeps the whole value as JSON; the other columns are those that statements search by.
-- There are no foreign keys: only the state machine writes, and rows are never deleted. `home` is the
-- identity of the home that has inserted a row.

CREATE TABLE schema_version (version int NOT NULL);
INSERT INTO schema_version VALUES (0);

CREATE TABLE tasks (
    id text COLLATE "C" PRIMARY KEY,
    doc text NOT NULL,
    input text NOT NULL,
    state text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    target text COLLATE "C" NOT NULL,
    priority int NOT NULL,
    due_ms bigint NOT NULL,
    lane text COLLATE "C",
    lease_ms bigint,
    deadline_ms bigint,
    until_ms bigint,
    is_backoff boolean NOT NULL,
    parent text COLLATE "C",
    root text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    key text COLLATE "C",
    retry_of text COLLATE "C",
    thread text COLLATE "C",
    waits_for text[] NOT NULL,
    home text COLLATE "C" NOT NULL
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);

CREATE UNIQUE INDEX tasks_key ON tasks (scope, key) WHERE key IS NOT NULL;
CREATE UNIQUE INDEX tasks_retry_of ON tasks (retry_of) WHERE retry_of IS NOT NULL;
CREATE INDEX tasks_ready ON tasks (priority DESC, due_ms, id) WHERE state = 'ready';
CREATE INDEX tasks_pause ON tasks (due_ms) WHERE state = 'ready' AND is_backoff;
-- Without the lease, so that a heartbeat changes no index.
CREATE INDEX tasks_running ON tasks (id) WHERE state = 'running';
CREATE INDEX tasks_until ON tasks (until_ms) WHERE state = 'waiting' AND until_ms IS NOT NULL;
CREATE INDEX tasks_deadline ON tasks (deadline_ms)
    WHERE deadline_ms IS NOT NULL AND state IN ('ready', 'running', 'waiting');
CREATE INDEX tasks_lane ON tasks (lane, id)
    WHERE lane IS NOT NULL AND state IN ('ready', 'running', 'waiting');
CREATE INDEX tasks_waits_for ON tasks USING gin (waits_for) WHERE state = 'waiting';
CREATE INDEX tasks_parent ON tasks (parent, id) WHERE parent IS NOT NULL;
CREATE INDEX tasks_root ON tasks (root, id) WHERE parent IS NOT NULL;
-- Threads have names of any length.
CREATE INDEX tasks_thread ON tasks (md5(thread), id) WHERE thread IS NOT NULL;

-- One row for each lane. A claim locks it, so that two machines cannot start two tasks of it.
CREATE TABLE lanes (lane text COLLATE "C" PRIMARY KEY);

CREATE TABLE attempts (
    task text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    worker text NOT NULL,
    began_ms bigint NOT NULL,
    ended_ms bigint,
    how text,
    error text,
    PRIMARY KEY (task, epoch)
) WITH (fillfactor = 80);

CREATE TABLE lines (
    task text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    epoch bigint NOT NULL,
    line text NOT NULL,
    PRIMARY KEY (task, seq)
);

CREATE TABLE questions (
    id text COLLATE "C" PRIMARY KEY,
    doc text NOT NULL,
    state text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    task text COLLATE "C",
    thread text COLLATE "C",
    call text COLLATE "C" NOT NULL,
    opened_ms bigint NOT NULL,
    home text COLLATE "C" NOT NULL
);

CREATE INDEX questions_task ON questions (task, md5(call), id) WHERE task IS NOT NULL;
CREATE INDEX questions_thread ON questions (md5(thread), md5(call), id) WHERE thread IS NOT NULL;
CREATE INDEX questions_open ON questions (opened_ms, id) WHERE state = 'open';
-- A call has at most one open question, also when two machines ask at once.
CREATE UNIQUE INDEX questions_open_of_task ON questions (task, md5(call))
    WHERE state = 'open' AND task IS NOT NULL;
CREATE UNIQUE INDEX questions_open_of_thread ON questions (coalesce(md5(thread), ''), md5(call))
    WHERE state = 'open' AND task IS NULL;

CREATE TABLE outbox (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    correlation_id text,
    payload text NOT NULL,
    home text COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05);

CREATE UNIQUE INDEX outbox_key ON outbox (topic, key);
-- Events go to the home that has submitted the task or asked the question.
CREATE INDEX outbox_home ON outbox (home, seq);

CREATE TABLE handles (
    sha256 text COLLATE "C" PRIMARY KEY,
    task text COLLATE "C" NOT NULL,
    principal text NOT NULL
);

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% of % is closed', TG_TABLE_NAME, OLD.id;
END
$$;

CREATE TRIGGER terminal_task BEFORE UPDATE ON tasks FOR EACH ROW
    WHEN (OLD.state IN ('completed', 'failed', 'cancelled')) EXECUTE FUNCTION refuse_change();
CREATE TRIGGER closed_question BEFORE UPDATE ON questions FOR EACH ROW
    WHEN (OLD.state <> 'open') EXECUTE FUNCTION refuse_change();
