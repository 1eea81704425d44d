//! Rebuild of a lost or damaged database from the files next to it.
//!
//! Every program that can write to the data directory can edit these files, so a rebuilt proposal
//! is never decided: every one is open again. Its new text is restored if the skill still has the
//! base text, and only if it has the digest that the file names; otherwise the proposal is stale.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use skill_catalog::Snapshot;
use skill_format::Digest;

use crate::changes::record::disk_audit_entry;
use crate::examine::{DigestedText, flags_of_diff};
use crate::files::created_mirror::{Mirror, read_mirror};
use crate::files::proposal_file::{self, RecoveredProposal};
use crate::ledger::PROPOSALS;
use crate::proposals::stored::{find_target, replace_text};
use crate::records::error::LedgerError;
use crate::records::event::LedgerEvent;
use crate::records::note::LedgerNote;
use crate::records::proposal::{
    LintDelta, Proposal, ProposalFileState, ProposalState, ProposalSummary, first_line,
};
use crate::session::{LedgerSession, LedgerWork};
use crate::sqlite::{CreatedSkillRow, LedgerTransaction, NewAuditEntry, StoredProposal};

/// A parsed proposal file.
struct FoundProposalFile {
    name: PathBuf,
    digest: Digest,
    recovered: RecoveredProposal,
}

impl LedgerSession<'_> {
    /// Fills an unused database from the files next to it.
    pub(crate) fn rebuild(&mut self, moved_to: Option<PathBuf>) -> Result<(), LedgerError> {
        let (found, unreadable) = read_proposal_files(&self.ledger.data_dir.join(PROPOSALS));
        let (created, lost) = match read_mirror(&self.ledger.data_dir) {
            Mirror::Lines(created) => (created, false),
            // Every ledger has a copy of these records: without it, the lost database may have had
            // some.
            Mirror::Missing => (Vec::new(), moved_to.is_some()),
            Mirror::Unreadable => (Vec::new(), true),
        };
        if found.is_empty() && created.is_empty() && moved_to.is_none() && !lost {
            return Ok(());
        }
        // The unreadable copy is kept for a person; a new one is written afterwards.
        if lost {
            self.set_mirror_aside()?;
        }
        let created: Vec<CreatedSkillRow> =
            created.into_iter().chain(lost.then(CreatedSkillRow::unknown_origins)).collect();
        let proposals = found.len();
        self.db.write(&self.stamp, |tx| {
            // All in one transaction: a crash leaves an unused database, which is rebuilt again.
            for found in found {
                restore_proposal(tx, found)?;
            }
            let moved = moved_to.as_ref().map(|path| path.display().to_string());
            let changed = tx.append_audit(&NewAuditEntry {
                action: "ledger.rebuilt",
                detail: json!({"moved_to": moved, "proposals": proposals}),
                ..disk_audit_entry()
            })?;
            created
                .iter()
                .try_for_each(|created: &CreatedSkillRow| tx.put_created(created, changed))
        })?;
        self.ledger.note(LedgerNote::Rebuilt { moved_to, proposals, unreadable });
        if lost {
            self.ledger.note(LedgerNote::OriginsLost);
        }
        Ok(())
    }

    /// Restores the texts of rebuilt proposals, now that the skills are known.
    pub(crate) fn restore_texts(&mut self, snapshot: &Snapshot) -> Result<(), LedgerError> {
        if self.peeks {
            return Ok(());
        }
        for id in self.read(|work| work.proposals_without_text())? {
            let stored = self.read(|work| work.find(&id))?;
            let restored = restore_text(snapshot, &stored);
            self.change(|work| match restored {
                Some((proposal, base)) => {
                    let stored = StoredProposal { proposal, ..stored };
                    store_restored(work, stored, base.as_ref())
                }
                None => mark_unrestorable(work, stored),
            })?;
        }
        Ok(())
    }
}

fn read_proposal_files(dir: &Path) -> (Vec<FoundProposalFile>, Vec<PathBuf>) {
    let mut paths: Vec<PathBuf> = match fs::read_dir(dir) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(_) => Vec::new(),
    };
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    let (mut found, mut unreadable, mut ids) = (Vec::new(), Vec::new(), HashSet::new());
    for path in paths {
        // A copied file has the id of another one; the first in order of names counts.
        match read_proposal_file(&path) {
            Some(file) if ids.insert(file.recovered.id.clone()) => found.push(file),
            _ => unreadable.push(path),
        }
    }
    // In the order of their creation, which ids keep: numbers count up with it.
    found.sort_by(|a, b| a.recovered.id.cmp(&b.recovered.id));
    (found, unreadable)
}

fn read_proposal_file(path: &Path) -> Option<FoundProposalFile> {
    let metadata = fs::symlink_metadata(path).ok()?;
    // Neither a link nor a huge file: anything may lie in the directory.
    if !metadata.is_file() || metadata.len() > proposal_file::LIMIT {
        return None;
    }
    let bytes = fs::read(path).ok()?;
    let recovered = proposal_file::parse_proposal(std::str::from_utf8(&bytes).ok()?)?;
    let name = path.file_name()?.to_str()?.into();
    Some(FoundProposalFile { name, digest: Digest::compute(&bytes), recovered })
}

fn restore_proposal(
    tx: &LedgerTransaction<'_>,
    found: FoundProposalFile,
) -> Result<(), LedgerError> {
    let RecoveredProposal {
        id,
        created_ms,
        skill_id,
        path,
        author,
        base_digest,
        new_digest,
        count,
        diff,
        justification,
        evidence,
    } = found.recovered;
    let words: Vec<&str> =
        std::iter::once(&justification).chain(&evidence).map(String::as_str).collect();
    // The two lines of a header start with the marks of changed lines, too.
    let lines = |mark: &str, header: &str| {
        diff.lines().filter(|line| line.starts_with(mark) && !line.starts_with(header)).count()
    };
    let summary = ProposalSummary {
        seq: 0,
        state: ProposalState::Open,
        created_ms,
        justification_line: first_line(&justification),
        added: lines("+", "+++ "),
        removed: lines("-", "--- "),
        count,
        flags: flags_of_diff(&diff, &words),
        recommendation: None,
        acceptance: None,
        model_evidence: None,
        id,
        skill_id,
        path,
        author,
        base_digest,
        new_digest,
    };
    // New ids have to sort after restored ones, also if the clock went back.
    tx.advance_ids_past(&summary.id)?;
    let changed = tx.append_audit(&NewAuditEntry {
        action: "proposal.restored",
        skill_id: Some(&summary.skill_id),
        proposal: Some(&summary.id),
        detail: json!({"base": base_digest, "new": new_digest}),
        ..disk_audit_entry()
    })?;
    let mut stored = StoredProposal {
        proposal: Proposal {
            summary,
            justification,
            evidence,
            diff,
            base_text: None,
            new_text: None,
            fuzz: Vec::new(),
            lint: LintDelta::default(),
            tokens: (0, 0),
            decided: None,
            version: None,
            file: found.name,
            file_state: ProposalFileState::AsWritten,
        },
        file_digest: found.digest,
        file_before: None,
    };
    tx.add_proposal(&mut stored, changed)
}

/// Restores a proposal's texts; returns `None` if the skill's file does not allow it.
fn restore_text(
    snapshot: &Snapshot,
    stored: &StoredProposal,
) -> Option<(Proposal, Option<DigestedText>)> {
    let mut proposal = stored.proposal.clone();
    let target = find_target(snapshot, &proposal).ok()?;
    let base = target.read().ok()?;
    if base.as_ref().map(|base| base.digest) != proposal.summary.base_digest {
        return None;
    }
    let before = base.as_ref().map_or("", |base| base.text.as_str());
    // The file may have been edited by hand: the digest decides whether the diff still is the
    // reviewed one.
    let new = skill_diff::apply_diff(before, &proposal.diff, target.path.as_str()).ok()?.text;
    if Digest::compute(new.as_bytes()) != proposal.summary.new_digest {
        return None;
    }
    replace_text(&target, &mut proposal, base.as_ref(), &new).ok()?;
    Some((proposal, base))
}

fn store_restored(
    work: &LedgerWork<'_, '_>,
    mut stored: StoredProposal,
    base: Option<&DigestedText>,
) -> Result<(), LedgerError> {
    let summary = &stored.proposal.summary;
    work.add_blobs(base.map(|base| (base.digest, base.text.as_bytes())))?;
    let new = stored.proposal.new_text.as_deref();
    work.add_blobs(new.map(|new| (summary.new_digest, new.as_bytes())))?;
    let changed = work.append_audit(&NewAuditEntry {
        action: "proposal.settled",
        skill_id: Some(&summary.skill_id),
        proposal: Some(&summary.id),
        detail: json!({}),
        ..disk_audit_entry()
    })?;
    work.save(&mut stored, changed)
}

fn mark_unrestorable(
    work: &LedgerWork<'_, '_>,
    mut stored: StoredProposal,
) -> Result<(), LedgerError> {
    stored.proposal.summary.state = ProposalState::Stale;
    let summary = &stored.proposal.summary;
    let event = LedgerEvent::ProposalStale(stored.proposal.to_event(""));
    let changed = work.append_audit(&NewAuditEntry {
        action: "proposal.stale",
        skill_id: Some(&summary.skill_id),
        proposal: Some(&summary.id),
        event: Some(&event),
        detail: json!({"because": "its texts were lost with the database"}),
        ..disk_audit_entry()
    })?;
    work.save(&mut stored, changed)
}
