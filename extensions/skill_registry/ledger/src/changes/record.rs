//! Records of what was found or written on the disk: versions, and proposals that became stale.

use serde_json::json;
use skill_format::Digest;

use crate::files::skill_directory::SkillDirectory;
use crate::files::tree::CapturedTree;
use crate::records::error::LedgerError;
use crate::records::event::{LedgerEvent, VersionEvent};
use crate::records::proposal::ProposalState;
use crate::records::version::VersionAuthor;
use crate::session::LedgerWork;
use crate::sqlite::{NewAuditEntry, NewVersion};

/// Records a skill's files as a version unless the last version has the same tree; returns the
/// version's number in the database, if the skill has any version or file.
pub(crate) fn record_version(
    work: &LedgerWork<'_, '_>,
    skill_id: &str,
    place: &SkillDirectory,
    captured: &CapturedTree,
    author: &VersionAuthor,
) -> Result<(Option<u64>, Option<LedgerEvent>), LedgerError> {
    let last = work.version(skill_id, None)?;
    let tree = captured.digest();
    match last {
        Some(last) if last.version.tree == tree => return Ok((Some(last.seq), None)),
        None if captured.files.is_empty() => return Ok((None, None)),
        _ => {}
    }
    work.add_blobs(captured.contents())?;
    let version = NewVersion {
        skill_id,
        author,
        approved_by: None,
        reason: None,
        proposal: None,
        tree,
        files: &captured.files,
        complete: captured.complete,
        root: &place.root,
        place: &place.rel,
    };
    let (_, seq, event) = add_version(work, &version, "", "disk")?;
    Ok((Some(seq), Some(event)))
}

/// Returns the author of a skill's first version: a skill that an agent reported and no person has
/// approved is the agent's.
pub(crate) fn first_author(
    work: &LedgerWork<'_, '_>,
    skill_id: &str,
) -> Result<VersionAuthor, LedgerError> {
    Ok(match work.created(skill_id)? {
        Some(created) if created.approved.is_none() => VersionAuthor::Agent(created.author),
        _ => VersionAuthor::External,
    })
}

/// Adds a version; returns its number in the skill, its number in the database, and the event.
pub(super) fn add_version(
    work: &LedgerWork<'_, '_>,
    version: &NewVersion<'_>,
    by: &str,
    via: &str,
) -> Result<(u64, u64, LedgerEvent), LedgerError> {
    let number = work.next_number(version.skill_id)?;
    let event = LedgerEvent::VersionCreated(VersionEvent {
        skill_id: version.skill_id.to_owned(),
        version: number,
        tree: version.tree,
        author: version.author.clone(),
    });
    let changed = work.append_audit(&NewAuditEntry {
        action: "version.created",
        by,
        via,
        skill_id: Some(version.skill_id),
        proposal: version.proposal,
        version: Some(number),
        event: Some(&event),
        detail: json!({"tree": version.tree, "complete": version.complete}),
    })?;
    let seq = work.add_version(version, changed, number)?;
    Ok((number, seq, event))
}

/// Marks the open proposals of a skill that no longer fit their file. `known` returns the digest of
/// a file, `Some(None)` for a missing file, and `None` if it is not known.
pub(crate) fn mark_stale(
    work: &LedgerWork<'_, '_>,
    skill_id: &str,
    known: &dyn Fn(&str) -> Option<Option<Digest>>,
) -> Result<Vec<LedgerEvent>, LedgerError> {
    let mut events = Vec::new();
    for waiting in work.undecided_proposals(skill_id)? {
        let Some(now) = known(&waiting.path) else { continue };
        if waiting.state != ProposalState::Open || now == waiting.base {
            continue;
        }
        let mut stored = work.find(&waiting.id)?;
        // The file already has the proposed text: a rebase is not required.
        let superseded = now == Some(waiting.new);
        let event = LedgerEvent::ProposalStale(stored.proposal.to_event(""));
        let changed = work.append_audit(&NewAuditEntry {
            action: if superseded { "proposal.superseded" } else { "proposal.stale" },
            skill_id: Some(skill_id),
            proposal: Some(&waiting.id),
            event: (!superseded).then_some(&event),
            detail: json!({"base": waiting.base, "now": now}),
            ..disk_audit_entry()
        })?;
        stored.proposal.summary.state =
            if superseded { ProposalState::Superseded } else { ProposalState::Stale };
        work.save(&mut stored, changed)?;
        if !superseded {
            events.push(event);
        }
    }
    Ok(events)
}

/// Returns an audit entry for a change that was detected on the disk.
pub(crate) fn disk_audit_entry() -> NewAuditEntry<'static> {
    NewAuditEntry { via: "disk", ..NewAuditEntry::default() }
}
