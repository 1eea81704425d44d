//! The tables, as migrations: a released step is never changed, only followed by another one.

use rusqlite_migration::{M, Migrations};

/// The steps, in order; `user_version` counts them.
const STEPS: &[M<'static>] = &[
    M::up(FIRST),
    M::up(CATALOG),
    M::up(ADVICE),
    M::up(APPROVALS),
    M::up(ACCEPTANCE),
    M::up(MODEL_EVIDENCE),
    M::up(USAGE),
    M::up(SCRIPT_USAGE),
];

/// The steps in the form of the library.
pub(super) const MIGRATIONS: Migrations<'static> = Migrations::from_slice(STEPS);

/// The number of steps that this program knows.
pub(super) const LATEST: i64 = STEPS.len() as i64;

/// Texts by digest, proposals, versions as trees of digests, intents to write files, the audit log
/// that numbers every change, skills that agents created, and reads.
const FIRST: &str = "
CREATE TABLE ids (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    last TEXT NOT NULL
) STRICT;

CREATE TABLE blobs (
    digest BLOB PRIMARY KEY NOT NULL CHECK (length(digest) = 32),
    content BLOB NOT NULL
) STRICT;

CREATE TABLE audit (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    at_ms INTEGER NOT NULL,
    instance TEXT NOT NULL,
    action TEXT NOT NULL,
    by TEXT NOT NULL,
    via TEXT NOT NULL,
    skill_id TEXT,
    proposal TEXT,
    version INTEGER,
    event TEXT,
    detail TEXT NOT NULL
) STRICT;
CREATE INDEX audit_of_skill ON audit (skill_id, seq);
CREATE INDEX audit_of_proposal ON audit (proposal, seq);

CREATE TABLE proposals (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    changed INTEGER NOT NULL,
    skill_id TEXT NOT NULL,
    path TEXT NOT NULL,
    state TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    author TEXT NOT NULL,
    justification TEXT NOT NULL,
    evidence TEXT NOT NULL,
    diff TEXT NOT NULL,
    base BLOB,
    new BLOB NOT NULL,
    added INTEGER NOT NULL,
    removed INTEGER NOT NULL,
    count INTEGER NOT NULL,
    flags TEXT NOT NULL,
    fuzz TEXT NOT NULL,
    lint TEXT NOT NULL,
    tokens_before INTEGER NOT NULL,
    tokens_after INTEGER NOT NULL,
    decided_by TEXT,
    decided_ms INTEGER,
    reason TEXT,
    version INTEGER,
    file TEXT NOT NULL UNIQUE,
    file_digest BLOB NOT NULL,
    file_before BLOB
) STRICT;
CREATE INDEX proposals_of_skill ON proposals (skill_id, state);
CREATE INDEX proposals_in_state ON proposals (state);

CREATE TABLE versions (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    changed INTEGER NOT NULL,
    skill_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    author TEXT NOT NULL,
    approved_by TEXT,
    reason TEXT,
    proposal TEXT,
    tree BLOB NOT NULL,
    files INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    complete INTEGER NOT NULL,
    root TEXT NOT NULL,
    place TEXT NOT NULL,
    UNIQUE (skill_id, number)
) STRICT;

CREATE TABLE version_files (
    version INTEGER NOT NULL REFERENCES versions (seq),
    path TEXT NOT NULL,
    mode INTEGER NOT NULL,
    size INTEGER NOT NULL,
    digest BLOB NOT NULL REFERENCES blobs (digest),
    PRIMARY KEY (version, path)
) STRICT, WITHOUT ROWID;

CREATE TABLE intents (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    changed INTEGER NOT NULL,
    state TEXT NOT NULL,
    skill_id TEXT NOT NULL,
    root TEXT NOT NULL,
    root_path BLOB NOT NULL,
    place TEXT NOT NULL,
    before INTEGER REFERENCES versions (seq),
    proposal TEXT,
    by TEXT NOT NULL,
    via TEXT NOT NULL,
    reason TEXT,
    author TEXT NOT NULL
) STRICT;
CREATE INDEX intents_in_state ON intents (state);

CREATE TABLE intent_files (
    intent INTEGER NOT NULL REFERENCES intents (seq),
    position INTEGER NOT NULL,
    path TEXT NOT NULL,
    old BLOB,
    new BLOB,
    mode INTEGER NOT NULL,
    PRIMARY KEY (intent, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE created (
    skill_id TEXT PRIMARY KEY NOT NULL,
    changed INTEGER NOT NULL,
    author TEXT NOT NULL,
    approved BLOB,
    approved_by TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE activations (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms INTEGER NOT NULL,
    skill_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    path TEXT,
    digest BLOB,
    agent_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    origin TEXT NOT NULL,
    tokens INTEGER NOT NULL
) STRICT;
CREATE INDEX activations_of_skill ON activations (skill_id, at_ms);
";

/// The indexed text of each skill, its words, and vectors that a model made of texts.
const CATALOG: &str = "
CREATE TABLE catalog (
    seq INTEGER PRIMARY KEY,
    skill_id TEXT NOT NULL UNIQUE,
    digest BLOB NOT NULL CHECK (length(digest) = 32)
) STRICT;

CREATE VIRTUAL TABLE catalog_words USING fts5 (
    name, description, tags, headings, body,
    content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 0'
);

CREATE TABLE vectors (
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    model TEXT NOT NULL,
    vectors BLOB NOT NULL,
    PRIMARY KEY (digest, model)
) STRICT, WITHOUT ROWID;
";

/// Recommendations of agents about proposals, as JSON, with the digest of the reviewed text.
const ADVICE: &str = "
CREATE TABLE recommendations (
    proposal TEXT PRIMARY KEY NOT NULL REFERENCES proposals (id),
    changed INTEGER NOT NULL,
    new BLOB NOT NULL CHECK (length(new) = 32),
    body TEXT NOT NULL
) STRICT, WITHOUT ROWID;
";

/// Approvals of skills that no agent created, each with the approved tree.
const APPROVALS: &str = "
CREATE TABLE approvals (
    skill_id TEXT PRIMARY KEY NOT NULL,
    changed INTEGER NOT NULL,
    tree BLOB NOT NULL CHECK (length(tree) = 32),
    approved_by TEXT NOT NULL
) STRICT, WITHOUT ROWID;
";

/// Results of the check of proposals, as JSON, with the digest of the checked text.
const ACCEPTANCE: &str = "
CREATE TABLE acceptance (
    proposal TEXT PRIMARY KEY NOT NULL REFERENCES proposals (id),
    changed INTEGER NOT NULL,
    new BLOB NOT NULL CHECK (length(new) = 32),
    body TEXT NOT NULL
) STRICT, WITHOUT ROWID;
";

/// Results of runs with a model that compared a proposal with its base, as JSON, with the digest of
/// the tested text.
const MODEL_EVIDENCE: &str = "
CREATE TABLE model_evidence (
    proposal TEXT PRIMARY KEY NOT NULL REFERENCES proposals (id),
    changed INTEGER NOT NULL,
    new BLOB NOT NULL CHECK (length(new) = 32),
    body TEXT NOT NULL
) STRICT, WITHOUT ROWID;
";

/// The use of skills by agents, by UTC day since 1970-01-01.
const USAGE: &str = "
CREATE TABLE usage_days (
    skill_id TEXT NOT NULL,
    day INTEGER NOT NULL,
    agent_id TEXT NOT NULL,
    offered INTEGER NOT NULL,
    surfaced INTEGER NOT NULL,
    reads INTEGER NOT NULL,
    resource_reads INTEGER NOT NULL,
    bounced INTEGER NOT NULL,
    PRIMARY KEY (skill_id, day, agent_id)
) STRICT, WITHOUT ROWID;
";

/// Runs of the scripts of skills, in the same rows.
const SCRIPT_USAGE: &str = "
ALTER TABLE usage_days ADD COLUMN scripts INTEGER NOT NULL DEFAULT 0;
";

/// The table of the full-text index, under the name that SQLite uses in messages.
pub(super) const CATALOG_WORDS: &str = "catalog_words";

/// Empties the catalog, even if it is damaged.
pub(super) const EMPTY_CATALOG: &str = "
DELETE FROM catalog;
INSERT INTO catalog_words (catalog_words) VALUES ('delete-all');
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_valid() {
        MIGRATIONS.validate().unwrap();
    }
}
