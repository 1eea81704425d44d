//! The recorded versions of a skill, for surfaces of the operator.

use skill_catalog::Snapshot;
use skill_ledger::{Ledger, LedgerError, SkillVersion, VersionAuthor, VersionFile};
use skillhost_payload::{SkillVersionFile, SkillVersionSummary};

/// The length limit of a text, in bytes: a page shows longer ones as other content.
const MAX_TEXT_BYTES: usize = 256 << 10;

/// Lists the versions of a skill, the oldest first. A direct edit since the last one is recorded.
///
/// # Errors
/// As for [`Ledger::history`].
pub fn list_skill_versions(
    ledger: &Ledger,
    snapshot: &Snapshot,
    skill_id: &str,
) -> Result<Vec<SkillVersionSummary>, LedgerError> {
    let versions = ledger.history(snapshot, skill_id)?;
    Ok(versions.into_iter().map(to_summary).collect())
}

/// Returns the files of a version, in the order of their paths.
///
/// # Errors
/// As for [`Ledger::version`].
pub fn read_skill_version(
    ledger: &Ledger,
    skill_id: &str,
    number: u64,
) -> Result<Vec<SkillVersionFile>, LedgerError> {
    let tree = ledger.version(skill_id, Some(number))?;
    Ok(tree.files.into_iter().map(to_file).collect())
}

fn to_summary(version: SkillVersion) -> SkillVersionSummary {
    SkillVersionSummary {
        number: version.number,
        recorded_ms: u64::try_from(version.created_ms).unwrap_or_default(),
        author: match version.author {
            // The surface has its own words for an edit outside of the kernel.
            VersionAuthor::External => String::new(),
            VersionAuthor::Agent(author) if author.agent_id.is_empty() => author.name(),
            VersionAuthor::Agent(author) => format!("agent {}", author.agent_id),
            VersionAuthor::Person { name } => name,
        },
        approved_by: version.approved_by,
        reason: version.reason,
        digest: version.tree.to_string(),
        files: version.files,
        bytes: version.bytes,
        complete: version.complete,
    }
}

fn to_file(file: VersionFile) -> SkillVersionFile {
    // A version may have 16 MiB, more than one reply of an extension should carry.
    let text = file.text().filter(|text| text.len() <= MAX_TEXT_BYTES).map(str::to_owned);
    SkillVersionFile {
        text,
        path: file.path,
        executable: file.mode & 0o111 != 0,
        size: file.size,
        digest: file.digest.to_string(),
    }
}
