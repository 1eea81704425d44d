//! Making a lost or damaged database again from the files beside it.
//!
//! A file can be edited by anybody who can write to the data directory, so nothing in it is trusted
//! to be decided: every proposal is open again. Its new text is made again where the skill still has
//! the text the proposal was made for, and only if it has the digest the file names; a proposal for
//! which that fails is stale.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use skill_format::Digest;

use crate::db::{Created, Entry, Stored, Tx};
use crate::diff;
use crate::ledger::PROPOSALS;
use crate::ledger::apply::by_disk;
use crate::ledger::error::LedgerError;
use crate::ledger::event::LedgerEvent;
use crate::ledger::examine::{Text, flags_of_diff};
use crate::ledger::note::LedgerNote;
use crate::ledger::proposal::{FileState, LintDelta, Proposal, ProposalState, ProposalSummary};
use crate::ledger::propose::{first_line, told};
use crate::ledger::revise::{reword, subject_of};
use crate::ledger::session::{Session, Work};
use crate::ledger::standing::{self, Mirror};
use crate::proposal_file::{self, Recovered};
use crate::snapshot::Snapshot;

/// A proposal's file that was read.
struct Found {
    name: PathBuf,
    digest: Digest,
    recovered: Recovered,
}

impl Session<'_> {
    /// Fills an unused database from the files beside it.
    pub(super) fn rebuild(&mut self, moved_to: Option<PathBuf>) -> Result<(), LedgerError> {
        let (found, unreadable) = read_files(&self.ledger.data_dir.join(PROPOSALS));
        let (created, lost) = match standing::read_mirror(&self.ledger.data_dir) {
            Mirror::Lines(created) => (created, false),
            // Every ledger has a copy of these records: without it, what was lost may have had some.
            Mirror::Missing => (Vec::new(), moved_to.is_some()),
            Mirror::Unreadable => (Vec::new(), true),
        };
        if found.is_empty() && created.is_empty() && moved_to.is_none() && !lost {
            return Ok(());
        }
        if lost {
            self.set_mirror_aside()?;
        }
        let created: Vec<Created> =
            created.into_iter().chain(lost.then(Created::unknown_origins)).collect();
        let proposals = found.len();
        self.db.write(&self.stamp, |tx| {
            for found in found {
                restore(tx, found)?;
            }
            let moved = moved_to.as_ref().map(|path| path.display().to_string());
            let changed = tx.log(&Entry {
                action: "ledger.rebuilt",
                detail: json!({"moved_to": moved, "proposals": proposals}),
                ..by_disk()
            })?;
            created.iter().try_for_each(|created: &Created| tx.put_created(created, changed))
        })?;
        self.ledger.note(LedgerNote::Rebuilt { moved_to, proposals, unreadable });
        if lost {
            self.ledger.note(LedgerNote::OriginsLost);
        }
        Ok(())
    }

    /// Makes the texts of rebuilt proposals again, now that the skills are known.
    pub(super) fn settle(&mut self, snapshot: &Snapshot) -> Result<(), LedgerError> {
        if self.peeks {
            return Ok(());
        }
        for id in self.read(|work| work.without_text())? {
            let stored = self.read(|work| work.find(&id))?;
            let settled = settled(snapshot, &stored);
            self.change(|work| match settled {
                Some((proposal, base)) => {
                    let stored = Stored { proposal, ..stored };
                    keep(work, stored, base.as_ref())
                }
                None => outdated(work, stored),
            })?;
        }
        Ok(())
    }
}

fn read_files(dir: &Path) -> (Vec<Found>, Vec<PathBuf>) {
    let mut paths: Vec<PathBuf> = match fs::read_dir(dir) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(_) => Vec::new(),
    };
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    let (mut found, mut unreadable, mut ids) = (Vec::new(), Vec::new(), HashSet::new());
    for path in paths {
        match read_file(&path) {
            Some(file) if ids.insert(file.recovered.id.clone()) => found.push(file),
            _ => unreadable.push(path),
        }
    }
    found.sort_by(|a, b| a.recovered.id.cmp(&b.recovered.id));
    (found, unreadable)
}

fn read_file(path: &Path) -> Option<Found> {
    let metadata = fs::symlink_metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > proposal_file::LIMIT {
        return None;
    }
    let bytes = fs::read(path).ok()?;
    let recovered = proposal_file::parse(std::str::from_utf8(&bytes).ok()?)?;
    let name = path.file_name()?.to_str()?.into();
    Some(Found { name, digest: Digest::compute(&bytes), recovered })
}

fn restore(tx: &Tx<'_>, found: Found) -> Result<(), LedgerError> {
    let Recovered {
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
        id,
        skill_id,
        path,
        author,
        base_digest,
        new_digest,
    };
    tx.after_id(&summary.id)?;
    let changed = tx.log(&Entry {
        action: "proposal.restored",
        skill_id: Some(&summary.skill_id),
        proposal: Some(&summary.id),
        detail: json!({"base": base_digest, "new": new_digest}),
        ..by_disk()
    })?;
    let mut stored = Stored {
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
            file_state: FileState::AsWritten,
        },
        file_digest: found.digest,
        file_before: None,
    };
    tx.add_proposal(&mut stored, changed)
}

/// Makes a proposal's texts again; nothing if the skill does not allow it.
fn settled(snapshot: &Snapshot, stored: &Stored) -> Option<(Proposal, Option<Text>)> {
    let mut proposal = stored.proposal.clone();
    let subject = subject_of(snapshot, &proposal).ok()?;
    let base = subject.read().ok()?;
    if base.as_ref().map(|base| base.digest) != proposal.summary.base_digest {
        return None;
    }
    let before = base.as_ref().map_or("", |base| base.text.as_str());
    let new = diff::apply_diff(before, &proposal.diff, subject.path.as_str()).ok()?.text;
    if Digest::compute(new.as_bytes()) != proposal.summary.new_digest {
        return None;
    }
    reword(&subject, &mut proposal, base.as_ref(), &new).ok()?;
    Some((proposal, base))
}

fn keep(work: &Work<'_, '_>, mut stored: Stored, base: Option<&Text>) -> Result<(), LedgerError> {
    let summary = &stored.proposal.summary;
    work.add_blobs(base.map(|base| (base.digest, base.text.as_bytes())))?;
    let new = stored.proposal.new_text.as_deref();
    work.add_blobs(new.map(|new| (summary.new_digest, new.as_bytes())))?;
    let changed = work.log(&Entry {
        action: "proposal.settled",
        skill_id: Some(&summary.skill_id),
        proposal: Some(&summary.id),
        detail: json!({}),
        ..by_disk()
    })?;
    work.save(&mut stored, changed)
}

fn outdated(work: &Work<'_, '_>, mut stored: Stored) -> Result<(), LedgerError> {
    stored.proposal.summary.state = ProposalState::Stale;
    let summary = &stored.proposal.summary;
    let event = LedgerEvent::ProposalStale(told(&stored.proposal, ""));
    let changed = work.log(&Entry {
        action: "proposal.stale",
        skill_id: Some(&summary.skill_id),
        proposal: Some(&summary.id),
        event: Some(&event),
        detail: json!({"because": "its texts were lost with the database"}),
        ..by_disk()
    })?;
    work.save(&mut stored, changed)
}
