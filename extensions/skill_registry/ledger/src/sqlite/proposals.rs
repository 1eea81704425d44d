//! Stored proposals and recommendations.

use rusqlite::{OptionalExtension, Row, ToSql};
use serde::Serialize;
use skill_catalog::AgentAuthor;
use skill_diff::FuzzNote;
use skill_format::Digest;

use super::{DbResult, LedgerTransaction, SqlDigest, SqlJson};
use crate::records::acceptance::AcceptanceEvidence;
use crate::records::model_evidence::ModelEvidence;
use crate::records::proposal::{
    LintDelta, Proposal, ProposalDecision, ProposalFileState, ProposalFilter, ProposalState,
    ProposalSummary, Recommendation, ReviewFlag, first_line,
};

/// A proposal with the digests of its file.
///
/// `proposal.file` is the bare name, and its `file_state` is not determined yet.
#[derive(Clone, Debug)]
pub(crate) struct StoredProposal {
    pub(crate) proposal: Proposal,
    pub(crate) file_digest: Digest,
    /// The digest of the former content: a crash may have left it in place.
    pub(crate) file_before: Option<Digest>,
}

/// The part of an undecided proposal that decides whether a change of a file affects it.
#[derive(Clone, Debug)]
pub(crate) struct UndecidedProposal {
    pub(crate) id: String,
    pub(crate) path: String,
    pub(crate) state: ProposalState,
    pub(crate) base: Option<Digest>,
    pub(crate) new: Digest,
}

const COLUMNS: &str = "id, seq, skill_id, path, state, created_ms, author, justification, base,
    new, added, removed, count, flags, evidence, diff, fuzz, lint, tokens_before, tokens_after,
    decided_by, decided_ms, reason, version, file, file_digest, file_before,
    (SELECT body FROM recommendations AS advice
     WHERE advice.proposal = proposals.id AND advice.new = proposals.new),
    (SELECT body FROM acceptance
     WHERE acceptance.proposal = proposals.id AND acceptance.new = proposals.new),
    (SELECT body FROM model_evidence AS tested
     WHERE tested.proposal = proposals.id AND tested.new = proposals.new)";

/// The same columns for a list, without the long texts.
const COLUMNS_OF_LIST: &str = "id, seq, skill_id, path, state, created_ms, author, justification,
    base, new, added, removed, count, flags, '[]', '', '[]', '{\"new\":[],\"gone\":[]}',
    tokens_before, tokens_after, decided_by, decided_ms, reason, version, file, file_digest, file_before,
    (SELECT body FROM recommendations AS advice
     WHERE advice.proposal = proposals.id AND advice.new = proposals.new),
    (SELECT body FROM acceptance
     WHERE acceptance.proposal = proposals.id AND acceptance.new = proposals.new),
    (SELECT body FROM model_evidence AS tested
     WHERE tested.proposal = proposals.id AND tested.new = proposals.new)";

/// The states that require a decision, as SQL.
const WAITING: &str = "state IN ('open', 'approved', 'stale', 'failed')";

impl LedgerTransaction<'_> {
    /// Adds a proposal and sets its number.
    pub(crate) fn add_proposal(&self, stored: &mut StoredProposal, changed: u64) -> DbResult<()> {
        let proposal = &stored.proposal;
        let summary = &proposal.summary;
        self.tx.execute(
            "INSERT INTO proposals
                 (id, changed, skill_id, path, state, created_ms, author, justification, evidence,
                  diff, base, new, added, removed, count, flags, fuzz, lint, tokens_before,
                  tokens_after, file, file_digest, file_before)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,
                 ?18, ?19, ?20, ?21, ?22, ?23)",
            rusqlite::params![
                summary.id,
                changed as i64,
                summary.skill_id,
                summary.path,
                summary.state.as_str(),
                summary.created_ms,
                SqlJson(&summary.author),
                proposal.justification,
                SqlJson(&proposal.evidence),
                proposal.diff,
                summary.base_digest.map(SqlDigest),
                SqlDigest(summary.new_digest),
                summary.added as i64,
                summary.removed as i64,
                summary.count as i64,
                SqlJson(&summary.flags),
                SqlJson(&proposal.fuzz),
                SqlJson(&proposal.lint),
                proposal.tokens.0,
                proposal.tokens.1,
                proposal.file.to_string_lossy(),
                SqlDigest(stored.file_digest),
                stored.file_before.map(SqlDigest),
            ],
        )?;
        stored.proposal.summary.seq = self.tx.last_insert_rowid() as u64;
        Ok(())
    }

    /// Updates a proposal: all columns but its author, time, reasons and file name.
    pub(crate) fn update_proposal(&self, stored: &StoredProposal, changed: u64) -> DbResult<()> {
        let proposal = &stored.proposal;
        let summary = &proposal.summary;
        let decided = proposal.decided.as_ref();
        self.tx.execute(
            "UPDATE proposals SET
                 changed = ?2, state = ?3, diff = ?4, base = ?5, new = ?6, added = ?7, removed = ?8,
                 count = ?9, flags = ?10, fuzz = ?11, lint = ?12, tokens_before = ?13,
                 tokens_after = ?14, decided_by = ?15, decided_ms = ?16, reason = ?17,
                 version = ?18, file_digest = ?19, file_before = ?20
             WHERE id = ?1",
            rusqlite::params![
                summary.id,
                changed as i64,
                summary.state.as_str(),
                proposal.diff,
                summary.base_digest.map(SqlDigest),
                SqlDigest(summary.new_digest),
                summary.added as i64,
                summary.removed as i64,
                summary.count as i64,
                SqlJson(&summary.flags),
                SqlJson(&proposal.fuzz),
                SqlJson(&proposal.lint),
                proposal.tokens.0,
                proposal.tokens.1,
                decided.map(|decided| &decided.by),
                decided.map(|decided| decided.at_ms),
                decided.and_then(|decided| decided.reason.as_ref()),
                proposal.version.map(|version| version as i64),
                SqlDigest(stored.file_digest),
                stored.file_before.map(SqlDigest),
            ],
        )?;
        Ok(())
    }

    /// Finds a proposal by its full id.
    pub(crate) fn proposal(&self, id: &str) -> DbResult<Option<StoredProposal>> {
        let sql = format!("SELECT {COLUMNS} FROM proposals WHERE id = ?1");
        let Some(mut stored) = self.tx.query_row(&sql, [id], stored_from_row).optional()? else {
            return Ok(None);
        };
        let summary = &stored.proposal.summary;
        let (base, new) = (summary.base_digest, summary.new_digest);
        stored.proposal.base_text = base.map(|base| self.text(base)).transpose()?.flatten();
        stored.proposal.new_text = self.text(new)?;
        Ok(Some(stored))
    }

    fn text(&self, digest: Digest) -> DbResult<Option<String>> {
        let content = self.blob(digest)?;
        Ok(content.and_then(|content| String::from_utf8(content.to_vec()).ok()))
    }

    /// Returns up to `limit` ids with a prefix, the newest first.
    pub(crate) fn proposal_ids(&self, start: &str, limit: usize) -> DbResult<Vec<String>> {
        let sql = "SELECT id FROM proposals WHERE substr(id, 1, length(?1)) = ?1
             ORDER BY id DESC LIMIT ?2";
        self.select_texts(sql, (start, limit as i64))
    }

    /// Returns the id of the proposal with a number.
    pub(crate) fn proposal_id_by_number(&self, seq: u64) -> DbResult<Option<String>> {
        let sql = "SELECT id FROM proposals WHERE seq = ?1";
        Ok(self.tx.query_row(sql, [seq as i64], |row| row.get(0)).optional()?)
    }

    /// Returns proposals, the oldest first.
    pub(crate) fn proposals(&self, filter: &ProposalFilter<'_>) -> DbResult<Vec<ProposalSummary>> {
        let mut sql = format!("SELECT {COLUMNS_OF_LIST} FROM proposals WHERE true");
        let state = filter.state.map(ProposalState::as_str);
        let mut values: Vec<&dyn ToSql> = Vec::new();
        if state.is_some() {
            values.push(&state);
            sql.push_str(&format!(" AND state = ?{}", values.len()));
        } else if !filter.all {
            sql.push_str(&format!(" AND {WAITING}"));
        }
        if filter.skill.is_some() {
            values.push(&filter.skill);
            sql.push_str(&format!(" AND skill_id = ?{}", values.len()));
        }
        sql.push_str(" ORDER BY seq");
        // The values and their numbers in the text are added together, in the same order.
        self.select_rows(&sql, values.as_slice(), |row| Ok(stored_from_row(row)?.proposal.summary))
    }

    /// Returns the undecided proposals of a skill, the oldest first.
    pub(crate) fn undecided_proposals(&self, skill_id: &str) -> DbResult<Vec<UndecidedProposal>> {
        let sql = format!(
            "SELECT id, path, state, base, new FROM proposals
             WHERE skill_id = ?1 AND {WAITING} ORDER BY seq"
        );
        self.select_rows(&sql, [skill_id], |row| {
            Ok(UndecidedProposal {
                id: row.get(0)?,
                path: row.get(1)?,
                state: state_from_row(row, 2)?,
                base: row.get::<_, Option<SqlDigest>>(3)?.map(|hash| hash.0),
                new: row.get::<_, SqlDigest>(4)?.0,
            })
        })
    }

    /// Returns the ids of the open proposals whose texts are not stored.
    pub(crate) fn proposals_without_text(&self) -> DbResult<Vec<String>> {
        let sql = "SELECT id FROM proposals WHERE state = 'open'
                 AND NOT EXISTS (SELECT 1 FROM blobs WHERE digest = new) ORDER BY seq";
        self.select_texts(sql, [])
    }

    /// Returns the ids of the most recently changed proposals.
    pub(crate) fn recently_changed_ids(&self, limit: usize) -> DbResult<Vec<String>> {
        let sql = "SELECT id FROM proposals ORDER BY changed DESC LIMIT ?1";
        self.select_texts(sql, [limit as i64])
    }

    /// Counts the undecided proposals: of a skill, and in total.
    pub(crate) fn count_undecided(&self, skill_id: &str) -> DbResult<(u64, u64)> {
        let sql = format!(
            "SELECT coalesce(sum(skill_id = ?1), 0), count(*) FROM proposals WHERE {WAITING}"
        );
        let counts = self.tx.query_row(&sql, [skill_id], |row| {
            Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64))
        });
        Ok(counts?)
    }

    /// Records an agent's advice about a proposal's text, and replaces its former advice.
    pub(crate) fn put_recommendation(
        &self,
        id: &str,
        new: Digest,
        recommendation: &Recommendation,
        changed: u64,
    ) -> DbResult<()> {
        self.put_of_text("recommendations", id, new, recommendation, changed)
    }

    /// Records the result of the check of a proposal's text, and replaces the former one.
    pub(crate) fn put_acceptance(
        &self,
        id: &str,
        evidence: &AcceptanceEvidence,
        changed: u64,
    ) -> DbResult<()> {
        self.put_of_text("acceptance", id, evidence.new, evidence, changed)
    }

    /// Records the result of runs with a model for a proposal's text, and replaces the former one.
    pub(crate) fn put_model_evidence(
        &self,
        id: &str,
        evidence: &ModelEvidence,
        changed: u64,
    ) -> DbResult<()> {
        self.put_of_text("model_evidence", id, evidence.new, evidence, changed)
    }

    /// Records a value about a proposal's text in a table, and replaces the former one.
    fn put_of_text(
        &self,
        table: &'static str,
        id: &str,
        new: Digest,
        value: &impl Serialize,
        changed: u64,
    ) -> DbResult<()> {
        let sql = format!(
            "INSERT OR REPLACE INTO {table} (proposal, changed, new, body) VALUES (?1, ?2, ?3, ?4)"
        );
        let values = rusqlite::params![id, changed as i64, SqlDigest(new), SqlJson(value)];
        self.tx.execute(&sql, values)?;
        Ok(())
    }

    /// Returns the rejected proposals for a file, the newest first, without their texts.
    pub(crate) fn rejected_proposals(
        &self,
        skill_id: &str,
        path: &str,
        limit: usize,
    ) -> DbResult<Vec<Proposal>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM proposals
             WHERE skill_id = ?1 AND path = ?2 AND state = 'rejected'
             ORDER BY seq DESC LIMIT ?3"
        );
        self.select_rows(&sql, (skill_id, path, limit as i64), |row| {
            Ok(stored_from_row(row)?.proposal)
        })
    }

    /// Returns `true` if a proposal has a file of this name.
    pub(crate) fn has_file(&self, name: &str) -> DbResult<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM proposals WHERE file = ?1)";
        Ok(self.tx.query_row(sql, [name], |row| row.get(0))?)
    }
}

fn state_from_row(row: &Row<'_>, at: usize) -> rusqlite::Result<ProposalState> {
    let name: String = row.get(at)?;
    ProposalState::from_name(&name).ok_or(rusqlite::Error::InvalidColumnType(
        at,
        name,
        rusqlite::types::Type::Text,
    ))
}

fn stored_from_row(row: &Row<'_>) -> rusqlite::Result<StoredProposal> {
    let count = |at| row.get::<_, i64>(at).map(|count| count as u64);
    let justification: String = row.get(7)?;
    // By position: both lists of columns have the same order.
    let summary = ProposalSummary {
        id: row.get(0)?,
        seq: count(1)?,
        skill_id: row.get(2)?,
        path: row.get(3)?,
        state: state_from_row(row, 4)?,
        created_ms: row.get(5)?,
        author: row.get::<_, SqlJson<AgentAuthor>>(6)?.0,
        justification_line: first_line(&justification),
        base_digest: row.get::<_, Option<SqlDigest>>(8)?.map(|hash| hash.0),
        new_digest: row.get::<_, SqlDigest>(9)?.0,
        added: count(10)? as usize,
        removed: count(11)? as usize,
        count: count(12)?,
        flags: row.get::<_, SqlJson<Vec<ReviewFlag>>>(13)?.0,
        recommendation: row.get::<_, Option<SqlJson<Recommendation>>>(27)?.map(|body| body.0),
        acceptance: row.get::<_, Option<SqlJson<AcceptanceEvidence>>>(28)?.map(|body| body.0),
        model_evidence: row.get::<_, Option<SqlJson<ModelEvidence>>>(29)?.map(|body| body.0),
    };
    let decided = match row.get::<_, Option<String>>(20)? {
        Some(by) => Some(ProposalDecision { by, at_ms: row.get(21)?, reason: row.get(22)? }),
        None => None,
    };
    let proposal = Proposal {
        summary,
        justification,
        evidence: row.get::<_, SqlJson<Vec<String>>>(14)?.0,
        diff: row.get(15)?,
        base_text: None,
        new_text: None,
        fuzz: row.get::<_, SqlJson<Vec<FuzzNote>>>(16)?.0,
        lint: row.get::<_, SqlJson<LintDelta>>(17)?.0,
        tokens: (row.get(18)?, row.get(19)?),
        decided,
        version: row.get::<_, Option<i64>>(23)?.map(|version| version as u64),
        file: row.get::<_, String>(24)?.into(),
        // Replaced when the file is looked at.
        file_state: ProposalFileState::Missing,
    };
    let file_before = row.get::<_, Option<SqlDigest>>(26)?.map(|hash| hash.0);
    Ok(StoredProposal { proposal, file_digest: row.get::<_, SqlDigest>(25)?.0, file_before })
}
