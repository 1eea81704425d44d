//! Admission: an extension in `sandbox/extensions` is used only after its approval.
//!
//! Agents write to that directory. Every kind of extension passes here before planning: its
//! directory is read once, compared with the approval in force and written to a private copy.
//! Manifest, prompt, program and library then come from the copy.

use std::fs;
use std::sync::Arc;

use skillhost_files::files_digest;
use skillhost_manifest::ExtensionId;
use skillhost_payload::OperatorCommand;

use crate::approvals::{
    ApprovalRecord, Approvals, ApprovalsError, MANIFEST, changed_files, read_extension_files,
};
use crate::discovered::DiscoveredManifest;
use crate::home::Home;
use crate::installation::library_file_name;
use crate::private_directory::{PrivateDirectory, copies_of};
use crate::rejection::{LoadPhase, LoadRejection};

/// The approvals of a home at one point in time.
pub(crate) struct Admission(Result<Approvals, ApprovalsError>);

/// The reason why an extension is not admitted, with a hint.
struct AdmissionError {
    reason: String,
    hint: String,
}

impl Admission {
    pub(crate) fn open(home: &Home) -> Self {
        Self(Approvals::load(home))
    }

    /// Returns a note about damaged approvals for the operator.
    pub(crate) fn note(&self, home: &Home) -> Option<String> {
        match &self.0 {
            Ok(approvals) => approvals.torn_note(home),
            Err(error) => Some(format!("no extension counts as approved: {error}")),
        }
    }

    /// Checks that a manifest's text is part of an approval. Its directory is not read.
    pub(crate) fn check_manifest(&self, found: &DiscoveredManifest) -> Result<(), LoadRejection> {
        let checked = self.approval(found).and_then(|record| {
            match record.file_sha256(MANIFEST) == Some(&found.text_sha256) {
                true => Ok(()),
                false => Err(changed_files_error(found, &format!("changed {MANIFEST}"))),
            }
        });
        checked.map_err(|error| to_rejection(found, error))
    }

    /// Returns an approved extension with a private copy of its files.
    pub(crate) fn admit(
        &self,
        home: &Home,
        found: &DiscoveredManifest,
    ) -> Result<DiscoveredManifest, LoadRejection> {
        self.load_approved_copy(home, found).map_err(|error| to_rejection(found, error))
    }

    fn load_approved_copy(
        &self,
        home: &Home,
        found: &DiscoveredManifest,
    ) -> Result<DiscoveredManifest, AdmissionError> {
        let id = &found.manifest.id;
        let record = self.approval(found)?;
        let unreadable = |error: skillhost_files::TreeError| AdmissionError {
            reason: error.to_string(),
            hint: error.hint(),
        };
        // Read once: the digest, the manifest and the copy all come from these bytes.
        let files = read_extension_files(found.directory()).map_err(unreadable)?;
        if record.digest != files_digest(&files) {
            return Err(changed_files_error(found, &changed_files(record, &files)));
        }
        let text = files.iter().find(|file| file.path == MANIFEST);
        let text = text.and_then(|file| std::str::from_utf8(&file.bytes).ok());
        // The manifest of the copy decides, because the file may have changed after discovery.
        let parsed =
            text.and_then(|text| Some((text, skillhost_manifest::parse_manifest(text).ok()?)));
        let parsed = parsed.filter(|(_, manifest)| manifest.id == *id);
        let (text, manifest) = parsed.ok_or_else(|| AdmissionError {
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

    fn approval(&self, found: &DiscoveredManifest) -> Result<&ApprovalRecord, AdmissionError> {
        let id = &found.manifest.id;
        let approvals = self.0.as_ref().map_err(|error| AdmissionError {
            reason: format!("no extension counts as approved: {error}"),
            hint: error.hint(),
        })?;
        approvals.approval(id.as_str()).ok_or_else(|| {
            let reason = match approvals.latest(id.as_str()) {
                Some(_) => "its approval was revoked",
                None => "it is not approved",
            };
            AdmissionError { reason: reason.to_owned(), hint: approval_hint(found) }
        })
    }
}

fn changed_files_error(found: &DiscoveredManifest, what: &str) -> AdmissionError {
    let reason = format!("its files have changed since they were approved: {what}");
    // An approval would fail, because the manifest pins the sha256 of the earlier files.
    let is_pinned = found.manifest.command().is_some() && found.manifest.sha256.is_some();
    let hint = if is_pinned { build_hint(&found.manifest.id) } else { approval_hint(found) };
    AdmissionError { reason, hint }
}

/// Returns the hint for an extension that is not approved.
#[must_use]
pub fn approval_hint(found: &DiscoveredManifest) -> String {
    let id = &found.manifest.id;
    let library =
        found.manifest.entrypoint().map(|name| found.path.with_file_name(library_file_name(name)));
    // An approval would fail without a library; a build records one, too.
    match library.is_some_and(|path| fs::symlink_metadata(path).is_err()) {
        true => build_hint(id),
        false => {
            let approve = OperatorCommand::ApproveExtension { id: id.as_str() };
            format!("review and approve it: {approve}")
        }
    }
}

fn build_hint(id: &ExtensionId) -> String {
    let build = OperatorCommand::BuildExtension { id: id.as_str() };
    format!("review, build and approve it: {build}")
}

fn to_rejection(found: &DiscoveredManifest, error: AdmissionError) -> LoadRejection {
    LoadRejection {
        id: found.manifest.id.to_string(),
        phase: LoadPhase::Approve,
        reason: error.reason,
        hint: error.hint,
        manifest: found.path.clone(),
    }
}
