//! Stored texts that are no longer what their digest says, and where else the same text may be.
//!
//! Every content is hashed when it is read, so a damaged one is never written, shown or approved. The
//! same text may still be the file on the disk, or follow from a proposal: its diff, in the database
//! or in the proposal's file, applied to the text it was made for.

use std::sync::Arc;

use skill_format::Digest;

use crate::diff;
use crate::ledger::error::LedgerError;
use crate::ledger::session::LedgerWork;
use crate::ledger::tree::CapturedTree;
use crate::proposal_file;

/// A diff and the text it was made for.
struct Derivation {
    base: Option<Digest>,
    diff: String,
    path: String,
}

impl LedgerWork<'_, '_> {
    /// Returns the content that has a digest: as it is stored, as a file has it now, or as a proposal
    /// makes it; `None` where none of them has the digest.
    pub(super) fn verified(
        &self,
        digest: Digest,
        now: Option<&CapturedTree>,
    ) -> Result<Option<Arc<[u8]>>, LedgerError> {
        let known = |digest: Digest| -> Result<Option<Arc<[u8]>>, LedgerError> {
            if let Some(content) = self.blob(digest)? {
                return Ok(Some(content));
            }
            let mut files = now.into_iter().flat_map(|captured| &captured.files);
            let file = files.find(|file| file.digest == digest);
            Ok(file.map(|file| Arc::clone(&file.content)))
        };
        if let Some(content) = known(digest)? {
            return Ok(Some(content));
        }
        for id in self.proposals_making(digest)? {
            let Some(stored) = self.proposal(&id)? else { continue };
            let proposal = &stored.proposal;
            let base = match proposal.summary.base_digest {
                Some(base) => known(base)?,
                None => Some(Arc::default()),
            };
            let Some(base) = base else { continue };
            let mirror = self.proposal_file(&proposal.file);
            let derivations = [
                Some(Derivation {
                    base: proposal.summary.base_digest,
                    diff: proposal.diff.clone(),
                    path: proposal.summary.path.clone(),
                }),
                mirror,
            ];
            for derivation in derivations.into_iter().flatten() {
                if derivation.base != proposal.summary.base_digest {
                    continue;
                }
                if let Some(text) = derivation.applied(&base)
                    && Digest::compute(text.as_bytes()) == digest
                {
                    return Ok(Some(text.into_bytes().into()));
                }
            }
        }
        Ok(None)
    }

    /// Reads the diff out of a proposal's file.
    fn proposal_file(&self, name: &std::path::Path) -> Option<Derivation> {
        let path = self.proposals_dir().join(name);
        let metadata = std::fs::symlink_metadata(&path).ok()?;
        if !metadata.is_file() || metadata.len() > proposal_file::LIMIT {
            return None;
        }
        let read = proposal_file::parse_proposal(&std::fs::read_to_string(path).ok()?)?;
        Some(Derivation { base: read.base_digest, diff: read.diff, path: read.path })
    }
}

impl Derivation {
    fn applied(&self, base: &[u8]) -> Option<String> {
        let base = std::str::from_utf8(base).ok()?;
        Some(diff::apply_diff(base, &self.diff, &self.path).ok()?.text)
    }
}
