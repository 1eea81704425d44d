//! Admission: nothing of an extension in `sandbox/extensions` is used before a person approved it.
//!
//! Agents write there. Every kind of extension passes here before anything is planned: its folder is
//! read once, compared with the approval in force and written to a private copy, and from then on
//! manifest, prompt, program and library are those of the copy.

use std::sync::Arc;

use skillhost_manifest::ExtensionId;

use crate::approvals::{
    ApprovalRecord, Approvals, ApprovalsError, MANIFEST, changed_files, files_digest, read_tree,
};
use crate::discovery::DiscoveredManifest;
use crate::home::Home;
use crate::process::{PrivateDirectory, copies_of};
use crate::report::{LoadPhase, LoadRejection};

/// The approvals of a home as of one look.
pub(crate) struct Admission(Result<Approvals, ApprovalsError>);

/// Why an extension is not admitted, and what to do about it.
struct Refusal {
    reason: String,
    hint: String,
}

impl Admission {
    pub(crate) fn open(home: &Home) -> Self {
        Self(Approvals::load(home))
    }

    /// Returns what the operator has to know about the approvals themselves.
    pub(crate) fn note(&self, home: &Home) -> Option<String> {
        match &self.0 {
            Ok(approvals) => approvals.torn_note(home),
            Err(error) => Some(format!("no extension counts as approved: {error}")),
        }
    }

    /// Checks that a manifest's text is part of an approval. Its folder is not looked at.
    pub(crate) fn check_manifest(&self, found: &DiscoveredManifest) -> Result<(), LoadRejection> {
        let checked = self.approval(&found.manifest.id).and_then(|record| {
            match record.file_sha256(MANIFEST) == Some(&found.text_sha256) {
                true => Ok(()),
                false => Err(changed(&found.manifest.id, &format!("changed {MANIFEST}"))),
            }
        });
        checked.map_err(|refusal| rejected(found, refusal))
    }

    /// Returns an extension as it was approved, with a private copy of its files.
    pub(crate) fn admit(
        &self,
        home: &Home,
        found: &DiscoveredManifest,
    ) -> Result<DiscoveredManifest, LoadRejection> {
        self.admitted(home, found).map_err(|refusal| rejected(found, refusal))
    }

    fn admitted(
        &self,
        home: &Home,
        found: &DiscoveredManifest,
    ) -> Result<DiscoveredManifest, Refusal> {
        let id = &found.manifest.id;
        let record = self.approval(id)?;
        let unreadable = |error: crate::approvals::TreeError| Refusal {
            reason: error.to_string(),
            hint: error.hint(),
        };
        let files = read_tree(found.directory()).map_err(unreadable)?;
        if record.digest != files_digest(&files) {
            return Err(changed(id, &changed_files(record, &files)));
        }
        let text = files.iter().find(|file| file.path == MANIFEST);
        let text = text.and_then(|file| std::str::from_utf8(&file.bytes).ok());
        let parsed =
            text.and_then(|text| Some((text, skillhost_manifest::parse_manifest(text).ok()?)));
        let parsed = parsed.filter(|(_, manifest)| manifest.id == *id);
        let (text, manifest) = parsed.ok_or_else(|| Refusal {
            reason: "its manifest was changed while it was read".to_owned(),
            hint: "try again".to_owned(),
        })?;
        let copy = PrivateDirectory::with_files(&files, &copies_of(home, &manifest));
        let copy = Some(Arc::new(copy.map_err(unreadable)?));
        let approval = Some(Arc::new(record.clone()));
        Ok(DiscoveredManifest {
            approval,
            copy,
            ..DiscoveredManifest::of_sandbox(manifest, found.path.clone(), text)
        })
    }

    fn approval(&self, id: &ExtensionId) -> Result<&ApprovalRecord, Refusal> {
        let approvals = self.0.as_ref().map_err(|error| Refusal {
            reason: format!("no extension counts as approved: {error}"),
            hint: error.hint(),
        })?;
        approvals.approval(id.as_str()).ok_or_else(|| {
            let reason = match approvals.latest(id.as_str()) {
                Some(_) => "its approval was revoked",
                None => "it is not approved",
            };
            Refusal { reason: reason.to_owned(), hint: approve(id) }
        })
    }
}

fn changed(id: &ExtensionId, what: &str) -> Refusal {
    let reason = format!("its files have changed since they were approved: {what}");
    Refusal { reason, hint: approve(id) }
}

/// What to do about an extension that is not approved.
pub(crate) fn approve(id: &ExtensionId) -> String {
    format!("look at it and approve it: skillhost ext approve {id}")
}

fn rejected(found: &DiscoveredManifest, refusal: Refusal) -> LoadRejection {
    LoadRejection {
        id: found.manifest.id.to_string(),
        phase: LoadPhase::Approve,
        reason: refusal.reason,
        hint: refusal.hint,
        manifest: found.path.clone(),
    }
}
