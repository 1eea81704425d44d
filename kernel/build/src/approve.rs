//! Approving an extension as it lies in its folder, without a build: an agent, a process, or a
//! library that was built by other means.

use std::sync::Arc;

use skillhost_kernel::{
    ApprovalRecord, Approvals, Approver, CallError, Home, PlannedFile, files_digest, pin_digest,
    read_tree,
};
use skillhost_manifest::{ExtensionId, Manifest};

use crate::builder::{CargoExtensionBuilder, asked, blocking, remove_older};
use crate::details::write_details;
use crate::error::{BuildError, PolicyViolation};
use crate::files;
use crate::place::{BuildLock, BuildPaths, library_name, write_all};
use crate::trial;

/// An extension that may be approved.
#[derive(Clone)]
pub struct ApprovalPlan {
    /// The manifest among the files.
    pub manifest: Arc<Manifest>,
    /// Names exactly these files.
    pub digest: String,
    /// What the extension will be able to do, and its files. Untrusted text.
    pub details: String,
    files: Vec<PlannedFile>,
}

impl CargoExtensionBuilder {
    /// Reads an extension that a person may approve. Changes nothing.
    ///
    /// # Errors
    /// Everything that keeps it from being approved.
    pub async fn plan_approval(&self, id: &ExtensionId) -> Result<ApprovalPlan, CallError> {
        let (home, id) = (self.home.clone(), id.clone());
        blocking(move || plan(&home, &id)).await
    }

    /// Tries what a person was shown in a process of its own, and records that it is approved,
    /// with the tools that it lists.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`](skillhost_kernel::ErrorKind) when the files are no longer those of the
    /// plan, and what went wrong in the trial. Nothing is approved then.
    pub async fn approve(
        &self,
        plan: &ApprovalPlan,
        approver: &Approver,
    ) -> Result<ApprovalRecord, CallError> {
        let _turn = self.turn.lock().await;
        let _alone = BuildLock::acquire(&self.home)?;
        let place = BuildPaths::new(&self.home, plan.manifest.id.as_str());
        check_unchanged(&place, plan)?;
        let tools = match plan.manifest.agent() {
            Some(_) => None,
            None => {
                remove_older(&place, &plan.digest)?;
                let folder = place.sources(&plan.digest);
                write_all(&folder, &plan.files)?;
                let (manifest, memory) =
                    (folder.join("manifest.yaml"), self.settings.memory_limit());
                let process = self.process_trial(&plan.manifest);
                let tried =
                    trial::run_trial(&self.program, &place, &manifest, process.as_ref(), memory)
                        .await?;
                let tried = asked(&plan.manifest, tried)?;
                tried.unasked.is_none().then_some(tried.tools)
            }
        };
        let record = ApprovalRecord::approve(&plan.manifest, &plan.files, tools, approver);
        let (home, plan) = (self.home.clone(), plan.clone());
        blocking(move || {
            check_unchanged(&place, &plan)?;
            Approvals::append(&home, &record)?;
            Ok(record)
        })
        .await
    }
}

fn check_unchanged(place: &BuildPaths, plan: &ApprovalPlan) -> Result<(), BuildError> {
    match read_tree(&place.source_dir())? == plan.files {
        true => Ok(()),
        false => Err(BuildError::Changed { id: place.id.clone() }),
    }
}

fn plan(home: &Home, id: &ExtensionId) -> Result<ApprovalPlan, BuildError> {
    let refused = |what: String, remedy: &str| {
        let file = "manifest.yaml".to_owned();
        BuildError::PolicyViolations(vec![PolicyViolation {
            file,
            line: None,
            what,
            remedy: remedy.to_owned(),
        }])
    };
    let files = read_tree(&BuildPaths::new(home, id.as_str()).source_dir())?;
    let text = files::file_text(&files, "manifest.yaml")
        .ok_or_else(|| refused("not there, or not text".to_owned(), "write one"))?;
    let manifest = skillhost_manifest::parse_manifest(text).map_err(|errors| {
        refused(errors.to_string(), "skillhost schema manifest prints its schema")
    })?;
    if manifest.id != *id {
        let what = format!("its id is `{}`, and its folder `{id}`", manifest.id);
        return Err(refused(what, "give both the same name"));
    }
    let (what, actual) = match manifest.entrypoint().map(library_name) {
        Some(name) => match files.iter().find(|file| file.path == name) {
            Some(library) => (format!("`{name}`"), files::sha256_hex(&library.bytes)),
            None => return Err(BuildError::NoLibrary { id: id.to_string(), name }),
        },
        None => ("what is there".to_owned(), pin_digest(&files)),
    };
    let pinned = manifest.sha256.map(|bytes| bytes.map(|byte| format!("{byte:02x}")).concat());
    if let Some(pinned) = pinned.filter(|pinned| *pinned != actual) {
        return Err(BuildError::OtherPin { pinned, actual, what });
    }
    let details = write_details(&manifest, &files, None)?;
    let digest = files_digest(&files);
    Ok(ApprovalPlan { manifest: Arc::new(manifest), digest, details, files })
}
