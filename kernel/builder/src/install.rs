//! Installs a build: the library, the pin in the manifest and the approval record.
//!
//! These are several files, so the complete intent is written first, with backups of the replaced
//! files. From then on each step is idempotent in either direction: an installation is finished or
//! undone, by its own process or by the next start, and never left incomplete.

mod steps;

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use skillhost_files::{TreeFile, sha256_hex};
use skillhost_home::{
    ApprovalRecord, Approvals, Approver, library_file_name, read_extension_files,
};

use crate::build_paths::BuildPaths;
use crate::error::BuildError;
use crate::files::file_text;
use crate::installed::installed_files;
use crate::pin::set_pin;
use steps::{FORWARD, Step, UNDO, is_executable, perform, read, remove, write, write_json};

/// The intent of an active installation.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct InstallIntent {
    /// The library's file name; `None` for a process extension, whose code is its files.
    library: Option<String>,
    /// The digest of the library or of the files; hexadecimal.
    sha256: String,
    /// The manifest before the installation.
    manifest_before: String,
    /// The manifest after the installation.
    manifest: String,
    /// The replaced library, which is kept for a rollback.
    before: Option<PreviousBuild>,
    /// The approval of the new build. Without one the extension waits for an approval.
    #[serde(default)]
    record: Option<ApprovalRecord>,
    /// The latest record of the extension before the installation.
    #[serde(default)]
    record_before: Option<ApprovalRecord>,
    /// The executable bits before the installation, of the library and of the manifest.
    #[serde(default)]
    executable_before: (bool, bool),
    /// `true` after a failed step: the installation is undone.
    #[serde(default)]
    undo: bool,
}

/// A build that a rollback can restore.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PreviousBuild {
    pub(crate) library: String,
    pub(crate) sha256: String,
}

/// A build to install.
pub(crate) struct NewBuild<'n> {
    /// The base name of the library in the manifest and its bytes; `None` for a process extension.
    pub(crate) library: Option<(&'n str, &'n [u8])>,
    pub(crate) sha256: &'n str,
    /// The approval of all files after the installation.
    pub(crate) record: Option<ApprovalRecord>,
}

/// The outcome of the recovery of an interrupted installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecoveryOutcome {
    Finished,
    Undone,
}

/// The result of a rollback.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RollbackResult {
    /// The sha256 of the replaced library.
    pub(crate) from: String,
    /// The sha256 of the restored library.
    pub(crate) to: String,
    /// `true` if the extension is approved with the restored library.
    pub(crate) approved: bool,
}

/// Installs a build for a manifest whose text must still be `manifest`.
///
/// # Errors
/// [`BuildError::Changed`] and [`BuildError::Unpinnable`] before any change. After a failed step
/// the installation is undone; if that fails, too, [`BuildError::Unsettled`] names the action of
/// the next start.
pub(crate) fn install_build(
    place: &BuildPaths,
    manifest: &str,
    new: &NewBuild<'_>,
) -> Result<(), BuildError> {
    let intent = plan_install(place, manifest, new)?;
    if let Err(error) = write_intent(place, &intent, new) {
        // No installed file has changed yet, and without an intent none will.
        return Err(match perform(place, &intent, Step::Done) {
            Ok(()) => error,
            Err(_) if !path_exists(&place.intent()) => error,
            // The intent may have been written after all, so the next start acts on it.
            Err(_) => unsettled_error(error, FINISHES),
        });
    }
    for step in FORWARD {
        if let Err(error) = perform(place, &intent, step) {
            return Err(undo_install(place, intent, error));
        }
    }
    if let Err(error) = perform(place, &intent, Step::Done) {
        let id = &place.id;
        // Harmless: the next start repeats the steps, which then have no effect.
        tracing::warn!(%id, %error, "installation is done, but its intent was not removed");
    }
    Ok(())
}

const FINISHES: &str = "finishes it";
const UNDOES: &str = "undoes it";

/// Undoes the steps of a failed installation and returns the error to report.
fn undo_install(place: &BuildPaths, intent: InstallIntent, error: BuildError) -> BuildError {
    let undo = InstallIntent { undo: true, ..intent };
    if write_json(&place.intent(), &undo).is_err() {
        // The write may have succeeded without its flush. The next start follows the intent on the
        // disk, so this process must follow the same one.
        let written = read(&place.intent()).ok().flatten();
        let written =
            written.and_then(|bytes| serde_json::from_slice::<InstallIntent>(&bytes).ok());
        if !written.is_some_and(|intent| intent.undo) {
            return unsettled_error(error, FINISHES);
        }
    }
    let undone = UNDO.into_iter().try_for_each(|step| perform(place, &undo, step));
    match undone {
        Ok(()) => error,
        Err(_) => unsettled_error(error, UNDOES),
    }
}

fn unsettled_error(source: BuildError, what: &'static str) -> BuildError {
    BuildError::Unsettled { source: Box::new(source), what }
}

fn path_exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Restores the previous library.
///
/// It is approved if it was approved before and all other files have their latest approval.
///
/// # Errors
/// The errors of [`install_build`], [`BuildError::NoPreviousBuild`] and
/// [`BuildError::PreviousBuildMismatch`].
pub(crate) fn rollback(
    place: &BuildPaths,
    approver: &Approver,
) -> Result<RollbackResult, BuildError> {
    let path = place.manifest();
    let manifest = fs::read_to_string(&path).map_err(BuildError::io(&path))?;
    let entrypoint = skillhost_manifest::parse_manifest(&manifest)
        .ok()
        .and_then(|manifest| manifest.entrypoint().map(str::to_owned));
    let no_previous =
        |hint: &str| BuildError::NoPreviousBuild { id: place.id.clone(), hint: hint.to_owned() };
    let Some(entrypoint) = entrypoint else {
        return Err(no_previous(
            "restore the files, then build; earlier builds are kept only of libraries",
        ));
    };
    let (library, metadata) = place.previous();
    let kept: Option<PreviousBuild> =
        fs::read(&metadata).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let kept = kept.ok_or_else(|| no_previous("it was built only once, or by other means"))?;
    let name = library_file_name(&entrypoint);
    if kept.library != name {
        let (id, was) = (place.id.clone(), kept.library);
        return Err(BuildError::PreviousBuildMismatch { id, was, is: name });
    }
    let bytes = fs::read(&library).map_err(BuildError::io(&library))?;
    if sha256_hex(&bytes) != kept.sha256 {
        return Err(no_previous("the stored build is damaged"));
    }
    let approvals = Approvals::load(&place.home)?;
    let known = approvals.approval_of_library(&place.id, &kept.sha256);
    let known = known.ok_or_else(|| no_previous("the earlier library was never approved"))?;
    let record = rollback_record(place, &approvals, known, (&entrypoint, &bytes), approver)?;
    let from =
        read(&place.source_dir().join(&name))?.map(|bytes| sha256_hex(&bytes)).unwrap_or_default();
    let approved = record.is_some();
    let new = NewBuild { library: Some((&entrypoint, &bytes)), sha256: &kept.sha256, record };
    install_build(place, &manifest, &new)?;
    Ok(RollbackResult { from, to: kept.sha256, approved })
}

/// Returns the approval of the directory with an earlier library, or `None` if the current approval
/// does not cover the other files.
fn rollback_record(
    place: &BuildPaths,
    approvals: &Approvals,
    known: &ApprovalRecord,
    (entrypoint, bytes): (&str, &[u8]),
    approver: &Approver,
) -> Result<Option<ApprovalRecord>, BuildError> {
    let Some(current) = approvals.approval(&place.id) else { return Ok(None) };
    let files = read_extension_files(&place.source_dir())?;
    let Some(manifest) = file_text(&files, "manifest.yaml") else { return Ok(None) };
    let name = library_file_name(entrypoint);
    let covered = |file: &TreeFile| {
        let mode = if file.executable { "755" } else { "644" };
        let mut approved = current.files.iter().filter(|approved| approved.path == file.path);
        approved.any(|approved| approved.sha256 == sha256_hex(&file.bytes) && approved.mode == mode)
    };
    // The pin differs with the library; the rest of the manifest must be the approved one.
    let as_approved = current
        .library_sha256
        .as_ref()
        .and_then(|sha256| set_pin(manifest, sha256).ok())
        .is_some_and(|text| {
            current.file_sha256("manifest.yaml") == Some(&sha256_hex(text.as_bytes()))
        });
    let others = files.iter().filter(|file| file.path != name && file.path != "manifest.yaml");
    let (others, all_covered) =
        others.fold((0, true), |(number, all), file| (number + 1, all && covered(file)));
    let is_other = |path: &str| path != name && path != "manifest.yaml";
    // A removed file would not be found above, so the counts must agree, too.
    let expected = current.files.iter().filter(|file| is_other(&file.path)).count();
    if !as_approved || !all_covered || others != expected {
        return Ok(None);
    }
    let text = set_pin(manifest, &sha256_hex(bytes))?;
    let parsed = skillhost_manifest::parse_manifest(&text).map_err(|_| BuildError::Unpinnable)?;
    let files = installed_files(&files, text, Some((entrypoint, bytes)));
    Ok(Some(ApprovalRecord::approve(&parsed, &files, known.tools.clone(), approver)))
}

/// Finishes or undoes an installation that another process has left; returns `None` without one.
///
/// # Errors
/// [`BuildError::Io`]; the intent remains, and the next start retries.
pub(crate) fn recover_install(place: &BuildPaths) -> Result<Option<RecoveryOutcome>, BuildError> {
    let path = place.intent();
    let Some(bytes) = read(&path)? else {
        // The process died before it wrote the intent, so its other files are garbage.
        return place.leftovers().iter().try_for_each(|path| remove(path)).map(|()| None);
    };
    let intent: InstallIntent = match serde_json::from_slice(&bytes) {
        Ok(intent) => intent,
        // Intents are written atomically, so this file was not written by an installation.
        Err(error) => return Err(BuildError::io(&path)(error.into())),
    };
    if intent.undo {
        UNDO.into_iter().try_for_each(|step| perform(place, &intent, step))?;
        return Ok(Some(RecoveryOutcome::Undone));
    }
    FORWARD.into_iter().try_for_each(|step| perform(place, &intent, step))?;
    perform(place, &intent, Step::Done)?;
    Ok(Some(RecoveryOutcome::Finished))
}

/// Checks an installation and returns its intent.
fn plan_install(
    place: &BuildPaths,
    manifest: &str,
    new: &NewBuild<'_>,
) -> Result<InstallIntent, BuildError> {
    let directory = place.source_dir();
    let metadata = fs::symlink_metadata(&directory).map_err(BuildError::io(&directory))?;
    let text = read(&place.manifest())?;
    if !metadata.is_dir() || text.as_deref() != Some(manifest.as_bytes()) {
        return Err(BuildError::Changed { id: place.id.clone() });
    }
    let library = new.library.map(|(entrypoint, _)| library_file_name(entrypoint));
    let before = match &library {
        Some(name) => read(&directory.join(name))?.map(|bytes| sha256_hex(&bytes)),
        None => None,
    };
    let executable = (
        library.iter().any(|name| is_executable(&directory.join(name))),
        is_executable(&place.manifest()),
    );
    // The same library again must not replace the earlier one as the target of a rollback.
    let before = before
        .filter(|before| before != new.sha256)
        .zip(library.clone())
        .map(|(sha256, library)| PreviousBuild { library, sha256 });
    Ok(InstallIntent {
        library,
        sha256: new.sha256.to_owned(),
        manifest_before: manifest.to_owned(),
        manifest: set_pin(manifest, new.sha256)?,
        before,
        record: new.record.clone(),
        record_before: Approvals::load(&place.home)?.latest(&place.id).cloned(),
        executable_before: executable,
        undo: false,
    })
}

/// Writes the new library and the backups, then the intent, which commits the installation.
fn write_intent(
    place: &BuildPaths,
    intent: &InstallIntent,
    new: &NewBuild<'_>,
) -> Result<(), BuildError> {
    place.create_private_dir()?;
    if let Some((_, bytes)) = new.library {
        write(&place.staged(), bytes)?;
    }
    let library = intent.library.as_ref().map(|name| place.source_dir().join(name));
    let (kept, metadata) = place.previous();
    let [replaced, kept_before, metadata_before] = place.replaced();
    let backups =
        [(library, replaced), (Some(kept), kept_before), (Some(metadata), metadata_before)];
    for (from, to) in backups {
        match from.map(|from| read(&from)).transpose()?.flatten() {
            Some(bytes) => write(&to, &bytes)?,
            None => remove(&to)?,
        }
    }
    // The intent is last: without it, the files above are garbage and the installation is void.
    write_json(&place.intent(), intent)
}

#[cfg(test)]
mod faults;
#[cfg(test)]
mod tests;
