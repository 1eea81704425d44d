//! Recovery of stored texts that no longer have their digest.
//!
//! Every content is hashed when it is read, so a damaged one is never written, displayed or
//! approved. The same text may still be the file on the disk, or follow from a proposal: its diff,
//! from the database or the proposal's file, applied to the base text.

use std::sync::Arc;

use skill_format::Digest;

use crate::files::proposal_file;
use crate::files::tree::CapturedTree;
use crate::records::error::LedgerError;
use crate::session::LedgerWork;

/// A diff and the digest of its base text.
struct Derivation {
    base: Option<Digest>,
    diff: String,
    path: String,
}

impl LedgerWork<'_, '_> {
    /// Returns the content with a digest: from the database, from a current file, or by applying
    /// the diff of a proposal; `None` if no source has it.
    pub(crate) fn verified(
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
        // The diff is small and seldom damaged together with the text.
        for id in self.proposals_making(digest)? {
            let Some(stored) = self.proposal(&id)? else { continue };
            let proposal = &stored.proposal;
            let base = match proposal.summary.base_digest {
                Some(base) => known(base)?,
                // The diff of a new file applies to an empty text.
                None => Some(Arc::default()),
            };
            // The base is damaged, too, so this proposal cannot help.
            let Some(base) = base else { continue };
            let mirror = self.file_derivation(&proposal.file);
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
                // The digest decides; the proposal's file may have been edited by hand.
                if let Some(text) = derivation.apply(&base)
                    && Digest::compute(text.as_bytes()) == digest
                {
                    return Ok(Some(text.into_bytes().into()));
                }
            }
        }
        Ok(None)
    }

    /// Reads the diff from a proposal's file.
    fn file_derivation(&self, name: &std::path::Path) -> Option<Derivation> {
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
    fn apply(&self, base: &[u8]) -> Option<String> {
        let base = std::str::from_utf8(base).ok()?;
        Some(skill_diff::apply_diff(base, &self.diff, &self.path).ok()?.text)
    }
}
