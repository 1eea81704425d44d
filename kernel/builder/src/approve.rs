//! Approval of the files of an extension without a build: of an agent, a process, or a library that
//! was built by other means.

use std::sync::Arc;

use skillhost_files::{TreeFile, files_digest, sha256_hex};
use skillhost_home::{
    ApprovalRecord, Approvals, Approver, Home, library_file_name, pin_digest, read_extension_files,
};
use skillhost_manifest::{ExtensionId, Manifest};
use skillhost_payload::CallError;

use crate::build_paths::{BuildLock, BuildPaths, write_files};
use crate::builder::{
    CargoExtensionBuilder, remove_older_sources, require_tool_list, run_blocking,
};
use crate::changes::keep_approved_texts;
use crate::containment::{BuildContainment, describe_isolation};
use crate::details::write_details;
use crate::error::BuildError;
use crate::files;
use crate::manifest::{manifest_violation, parse_manifest_of};
use crate::trial;

/// An extension for approval.
#[derive(Clone)]
pub struct ApprovalPlan {
    /// The manifest among the files.
    pub manifest: Arc<Manifest>,
    /// The digest of exactly these files.
    pub digest: String,
    /// The capabilities of the extension and its files. Untrusted text.
    pub details: String,
    files: Vec<TreeFile>,
}

impl CargoExtensionBuilder {
    /// Reads an extension for approval, without side effects.
    ///
    /// # Errors
    /// All obstacles to its approval.
    pub async fn plan_approval(&self, id: &ExtensionId) -> Result<ApprovalPlan, CallError> {
        let (home, id) = (self.home.clone(), id.clone());
        run_blocking(move || plan_approval(&home, &id)).await
    }

    /// Loads the reviewed files in a separate process and records their approval, with the tools
    /// that they list.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`](skillhost_payload::ErrorKind) if the files are no longer those of the
    /// plan, and the errors of the trial. No approval is recorded then.
    pub async fn approve(
        &self,
        plan: &ApprovalPlan,
        approver: &Approver,
    ) -> Result<ApprovalRecord, CallError> {
        let _turn = self.turn.lock().await;
        let _alone = BuildLock::acquire(&self.home)?;
        let place = BuildPaths::new(&self.home, plan.manifest.id.as_str());
        check_unchanged(&place, plan)?;
        let (tools, isolation) = match plan.manifest.agent() {
            Some(_) => (None, None),
            None => {
                // The trial uses a copy, so that the author cannot change the files during it.
                remove_older_sources(&place, &plan.digest)?;
                let directory = place.sources(&plan.digest);
                write_files(&directory, &plan.files)?;
                let (manifest, memory) =
                    (directory.join("manifest.yaml"), self.settings.memory_limit());
                let process = self.process_trial(&plan.manifest)?;
                let containment = BuildContainment::load(&self.home, &place.id)?;
                let limits = (memory, &containment);
                let tried =
                    trial::run_trial(&self.program, &place, &manifest, process.as_ref(), limits)
                        .await?;
                let tried = require_tool_list(&plan.manifest, tried)?;
                let isolation = tried.isolation.as_ref().map(|report| report.level);
                (tried.unasked.is_none().then_some(tried.tools), isolation)
            }
        };
        let mut record = ApprovalRecord::approve(&plan.manifest, &plan.files, tools, approver);
        record.isolation = isolation;
        let (home, plan) = (self.home.clone(), plan.clone());
        run_blocking(move || {
            // The trial takes seconds, in which the files may have changed.
            check_unchanged(&place, &plan)?;
            let earlier = Approvals::load(&home)?.approval(&place.id).cloned();
            Approvals::append(&home, &record)?;
            keep_approved_texts(&place, earlier.as_ref(), &plan.files);
            Ok(record)
        })
        .await
    }
}

fn check_unchanged(place: &BuildPaths, plan: &ApprovalPlan) -> Result<(), BuildError> {
    match read_extension_files(&place.source_dir())? == plan.files {
        true => Ok(()),
        false => Err(BuildError::Changed { id: place.id.clone() }),
    }
}

fn plan_approval(home: &Home, id: &ExtensionId) -> Result<ApprovalPlan, BuildError> {
    let place = BuildPaths::new(home, id.as_str());
    let files = read_extension_files(&place.source_dir())?;
    let text = files::file_text(&files, "manifest.yaml")
        .ok_or_else(|| manifest_violation("not found or not text", "write one"))?;
    let manifest = parse_manifest_of(id, text)?;
    let (what, actual) = match manifest.entrypoint().map(library_file_name) {
        Some(name) => match files.iter().find(|file| file.path == name) {
            Some(library) => (format!("`{name}`"), sha256_hex(&library.bytes)),
            None => return Err(BuildError::NoLibrary { id: id.to_string(), name }),
        },
        None => ("the extension".to_owned(), pin_digest(&files)),
    };
    let pinned = manifest.sha256.map(|bytes| bytes.map(|byte| format!("{byte:02x}")).concat());
    if let Some(pinned) = pinned.filter(|pinned| *pinned != actual) {
        return Err(BuildError::OtherPin { pinned, actual, what });
    }
    let notes = describe_isolation(home, &manifest);
    let details = write_details(&place, &manifest, &files, (None, notes))?;
    let digest = files_digest(&files);
    Ok(ApprovalPlan { manifest: Arc::new(manifest), digest, details, files })
}
