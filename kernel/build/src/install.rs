//! Puts a build in its place: library, pin in the manifest, record of its approval.
//!
//! These are several files, so the whole installation is written down first, with what it replaces.
//! From then on each step can be made again in either direction: an installation is finished or
//! undone, by the process that began it or by the next start, and never left in between.

mod steps;

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use skillhost_kernel::{ApprovalRecord, Approvals, Approver, PlannedFile, read_tree};

use crate::builder::installed_files;
use crate::error::BuildError;
use crate::files::{file_text, sha256_hex};
use crate::pin::set_pin;
use crate::place::{BuildPaths, library_name};
use steps::{FORWARD, Step, UNDO, is_executable, perform, read, remove, write, write_json};

/// An installation under way.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct InstallIntent {
    /// The library's file name; `None` for a process extension, whose code is its files.
    library: Option<String>,
    /// Of the library, or of the files; hexadecimal.
    sha256: String,
    /// The manifest as it was.
    manifest_before: String,
    /// The manifest as it is to be.
    manifest: String,
    /// The library in place, which is kept.
    before: Option<PreviousBuild>,
    /// The approval that belongs to it. Without one the extension waits for a person.
    #[serde(default)]
    record: Option<ApprovalRecord>,
    /// The extension's last record before.
    #[serde(default)]
    record_before: Option<ApprovalRecord>,
    /// What was in place could be executed: the library, the manifest.
    #[serde(default)]
    executable_before: (bool, bool),
    /// A step failed: everything is put back.
    #[serde(default)]
    undo: bool,
}

/// A build that can be taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PreviousBuild {
    pub(crate) library: String,
    pub(crate) sha256: String,
}

/// What is installed.
pub(crate) struct NewBuild<'n> {
    /// The library, for the base name in the manifest; `None` for a process extension.
    pub(crate) library: Option<(&'n str, &'n [u8])>,
    pub(crate) sha256: &'n str,
    /// The approval of all files as they will be in place.
    pub(crate) record: Option<ApprovalRecord>,
}

/// How an interrupted installation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recovered {
    Finished,
    Undone,
}

/// A library that was put in the place of another.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Swapped {
    /// sha256 of the one that was in place.
    pub(crate) from: String,
    /// sha256 of the one that is.
    pub(crate) to: String,
    /// The extension counts as approved with it.
    pub(crate) approved: bool,
}

/// Installs a build for a manifest, whose text has to be `manifest` still.
///
/// # Errors
/// [`BuildError::Changed`] and [`BuildError::Unpinnable`] before anything is touched. Where a step
/// fails, everything is put back; where that fails too, [`BuildError::Unsettled`] says what the next
/// start does.
pub(crate) fn install_build(
    place: &BuildPaths,
    manifest: &str,
    new: &NewBuild<'_>,
) -> Result<(), BuildError> {
    let intent = plan_install(place, manifest, new)?;
    if let Err(error) = write_intent(place, &intent, new) {
        // Nothing was touched, and without an intent nothing will be.
        return Err(match perform(place, &intent, Step::Done) {
            Ok(()) => error,
            Err(_) if !is_there(&place.intent()) => error,
            Err(_) => unsettled(error, FINISHES),
        });
    }
    for step in FORWARD {
        if let Err(error) = perform(place, &intent, step) {
            return Err(put_back(place, intent, error));
        }
    }
    if let Err(error) = perform(place, &intent, Step::Done) {
        let id = &place.id;
        tracing::warn!(%id, %error, "an installation is done, and its note is removed later");
    }
    Ok(())
}

const FINISHES: &str = "finishes it";
const UNDOES: &str = "undoes it";

/// Undoes the steps of a failed installation; returns what is to be reported.
fn put_back(place: &BuildPaths, intent: InstallIntent, error: BuildError) -> BuildError {
    let undo = InstallIntent { undo: true, ..intent };
    if write_json(&place.intent(), &undo).is_err() {
        // Whichever of the two is there will be done.
        let kept = read(&place.intent()).ok().flatten();
        let kept = kept.and_then(|bytes| serde_json::from_slice::<InstallIntent>(&bytes).ok());
        if !kept.is_some_and(|intent| intent.undo) {
            return unsettled(error, FINISHES);
        }
    }
    let undone = UNDO.into_iter().try_for_each(|step| perform(place, &undo, step));
    match undone {
        Ok(()) => error,
        Err(_) => unsettled(error, UNDOES),
    }
}

fn unsettled(source: BuildError, what: &'static str) -> BuildError {
    BuildError::Unsettled { source: Box::new(source), what }
}

fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Takes the library before the present one back. It counts as approved where it was approved once
/// and everything else is as it was approved last.
///
/// # Errors
/// As for [`install_build`]; [`BuildError::NoPreviousBuild`] and [`BuildError::PreviousBuildMismatch`].
pub(crate) fn rollback(place: &BuildPaths, approver: &Approver) -> Result<Swapped, BuildError> {
    let path = place.manifest();
    let manifest = fs::read_to_string(&path).map_err(BuildError::io(&path))?;
    let entrypoint = skillhost_manifest::parse_manifest(&manifest)
        .ok()
        .and_then(|manifest| manifest.entrypoint().map(str::to_owned));
    let nothing =
        |hint: &str| BuildError::NoPreviousBuild { id: place.id.clone(), hint: hint.to_owned() };
    let Some(entrypoint) = entrypoint else {
        return Err(nothing(
            "only of libraries the build before is kept; write the files as they were, then build",
        ));
    };
    let (library, facts) = place.previous();
    let kept: Option<PreviousBuild> =
        fs::read(&facts).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let kept = kept.ok_or_else(|| nothing("it was built once, or by other means"))?;
    let name = library_name(&entrypoint);
    if kept.library != name {
        let (id, was) = (place.id.clone(), kept.library);
        return Err(BuildError::PreviousBuildMismatch { id, was, is: name });
    }
    let bytes = fs::read(&library).map_err(BuildError::io(&library))?;
    if sha256_hex(&bytes) != kept.sha256 {
        return Err(nothing("what was kept of it is damaged"));
    }
    let approvals = Approvals::load(&place.home)?;
    let known = approvals.approval_of_library(&place.id, &kept.sha256);
    let known = known.ok_or_else(|| nothing("the library before was never approved"))?;
    let record = rolled_back(place, &approvals, known, (&entrypoint, &bytes), approver)?;
    let from =
        read(&place.source_dir().join(&name))?.map(|bytes| sha256_hex(&bytes)).unwrap_or_default();
    let approved = record.is_some();
    let new = NewBuild { library: Some((&entrypoint, &bytes)), sha256: &kept.sha256, record };
    install_build(place, &manifest, &new)?;
    Ok(Swapped { from, to: kept.sha256, approved })
}

/// The approval of the folder with an earlier library in it: none where the rest of the folder is not
/// what the approval in force covers.
fn rolled_back(
    place: &BuildPaths,
    approvals: &Approvals,
    known: &ApprovalRecord,
    (entrypoint, bytes): (&str, &[u8]),
    approver: &Approver,
) -> Result<Option<ApprovalRecord>, BuildError> {
    let Some(current) = approvals.approval(&place.id) else { return Ok(None) };
    let files = read_tree(&place.source_dir())?;
    let Some(manifest) = file_text(&files, "manifest.yaml") else { return Ok(None) };
    let name = library_name(entrypoint);
    let covered = |file: &PlannedFile| {
        let mode = if file.executable { "755" } else { "644" };
        let mut approved = current.files.iter().filter(|approved| approved.path == file.path);
        approved.any(|approved| approved.sha256 == sha256_hex(&file.bytes) && approved.mode == mode)
    };
    // The pin belongs to the library; the rest of the manifest has to be what was approved.
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
    let expected = current.files.iter().filter(|file| is_other(&file.path)).count();
    if !as_approved || !all_covered || others != expected {
        return Ok(None);
    }
    let text = set_pin(manifest, &sha256_hex(bytes))?;
    let parsed = skillhost_manifest::parse_manifest(&text).map_err(|_| BuildError::Unpinnable)?;
    let files = installed_files(&files, text, Some((entrypoint, bytes)));
    Ok(Some(ApprovalRecord::approve(&parsed, &files, known.tools.clone(), approver)))
}

/// Ends an installation that another process left: one that was decided on is finished, one that
/// failed is undone. Returns `None` where there was none.
///
/// # Errors
/// [`BuildError::Io`]; the intent stays, and the next start tries again.
pub(crate) fn recover_install(place: &BuildPaths) -> Result<Option<Recovered>, BuildError> {
    let path = place.intent();
    let Some(bytes) = read(&path)? else {
        // Written, and not decided on.
        return place.leftovers().iter().try_for_each(|path| remove(path)).map(|()| None);
    };
    let intent: InstallIntent = match serde_json::from_slice(&bytes) {
        Ok(intent) => intent,
        // It is written whole or not at all, so this is none of ours.
        Err(error) => return Err(BuildError::io(&path)(error.into())),
    };
    if intent.undo {
        UNDO.into_iter().try_for_each(|step| perform(place, &intent, step))?;
        return Ok(Some(Recovered::Undone));
    }
    FORWARD.into_iter().try_for_each(|step| perform(place, &intent, step))?;
    perform(place, &intent, Step::Done)?;
    Ok(Some(Recovered::Finished))
}

/// Says what is to be done, after every check.
fn plan_install(
    place: &BuildPaths,
    manifest: &str,
    new: &NewBuild<'_>,
) -> Result<InstallIntent, BuildError> {
    let folder = place.source_dir();
    let metadata = fs::symlink_metadata(&folder).map_err(BuildError::io(&folder))?;
    let text = read(&place.manifest())?;
    if !metadata.is_dir() || text.as_deref() != Some(manifest.as_bytes()) {
        return Err(BuildError::Changed { id: place.id.clone() });
    }
    let library = new.library.map(|(entrypoint, _)| library_name(entrypoint));
    let before = match &library {
        Some(name) => read(&folder.join(name))?.map(|bytes| sha256_hex(&bytes)),
        None => None,
    };
    let executable = (
        library.iter().any(|name| is_executable(&folder.join(name))),
        is_executable(&place.manifest()),
    );
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

/// Writes down what is to be done, the new library and what is replaced first. After this it will be
/// done.
fn write_intent(
    place: &BuildPaths,
    intent: &InstallIntent,
    new: &NewBuild<'_>,
) -> Result<(), BuildError> {
    place.make()?;
    if let Some((_, bytes)) = new.library {
        write(&place.staged(), bytes)?;
    }
    let library = intent.library.as_ref().map(|name| place.source_dir().join(name));
    let (kept, facts) = place.previous();
    let [replaced, kept_before, facts_before] = place.replaced();
    for (from, to) in [(library, replaced), (Some(kept), kept_before), (Some(facts), facts_before)]
    {
        match from.map(|from| read(&from)).transpose()?.flatten() {
            Some(bytes) => write(&to, &bytes)?,
            None => remove(&to)?,
        }
    }
    write_json(&place.intent(), intent)
}

#[cfg(test)]
mod faults;
#[cfg(test)]
mod tests;
