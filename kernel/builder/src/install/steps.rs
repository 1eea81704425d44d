//! The steps of an installation in both directions. Each step is idempotent.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde::Serialize;
use skillhost_files::{sha256_hex, write_atomically};
use skillhost_home::{ApprovalSurface, Approvals, Approver};

use super::InstallIntent;
use crate::build_paths::BuildPaths;
use crate::error::BuildError;
use crate::pin::set_pin;

/// A step of an installation or of its undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Keep,
    Library,
    Manifest,
    Record,
    /// The first step of an undo, since a partly undone installation must not be approved.
    UndoRecord,
    UndoManifest,
    UndoLibrary,
    UndoKeep,
    Done,
}

/// The steps of a committed installation; [`Step::Done`] follows.
pub(super) const FORWARD: [Step; 4] = [Step::Keep, Step::Library, Step::Manifest, Step::Record];

/// The steps of the undo of a failed installation.
pub(super) const UNDO: [Step; 5] =
    [Step::UndoRecord, Step::UndoManifest, Step::UndoLibrary, Step::UndoKeep, Step::Done];

/// Performs one step of an installation.
pub(super) fn perform(
    place: &BuildPaths,
    intent: &InstallIntent,
    step: Step,
) -> Result<(), BuildError> {
    let library = intent.library.as_ref().map(|name| place.source_dir().join(name));
    let [replaced, kept_before, metadata_before] = place.replaced();
    match (step, &library) {
        (Step::Keep, Some(library)) => {
            let Some(before) = &intent.before else { return Ok(()) };
            // If the new library is already in place, the old one was kept by an earlier run.
            match read(library)? {
                Some(bytes) if sha256_hex(&bytes) == before.sha256 => {
                    let (kept, metadata) = place.previous();
                    write(&kept, &bytes)?;
                    write_json(&metadata, before)
                }
                _ => Ok(()),
            }
        }
        (Step::Library, Some(library)) => match read(library)? {
            Some(bytes) if sha256_hex(&bytes) == intent.sha256 && !is_executable(library) => Ok(()),
            _ => {
                let staged = place.staged();
                let bytes = fs::read(&staged).map_err(BuildError::io(&staged))?;
                // Only the approved bytes may be installed, even if the file has changed since the
                // intent.
                if sha256_hex(&bytes) != intent.sha256 {
                    let damaged = io::Error::new(io::ErrorKind::InvalidData, "digest mismatch");
                    return Err(BuildError::io(&staged)(damaged));
                }
                write(library, &bytes)
            }
        },
        (Step::Manifest, _) => install_manifest(place, intent),
        (Step::Record, _) => match &intent.record {
            // A later decision, such as a revocation, has precedence.
            Some(record) if latest_record(place)? == intent.record_before => {
                append_record(place, record)
            }
            _ => Ok(()),
        },
        (Step::UndoRecord, _) => match (&intent.record, &intent.record_before) {
            (Some(record), before) if latest_record(place)?.as_ref() == Some(record) => {
                let kernel = Approver::operator(ApprovalSurface::CommandLine);
                append_record(place, before.as_ref().unwrap_or(&record.revoked(&kernel)))
            }
            _ => Ok(()),
        },
        (Step::UndoManifest, _) => {
            let path = place.manifest();
            match read(&path)? {
                Some(text) if text == intent.manifest.as_bytes() => {
                    let before = intent.manifest_before.as_bytes();
                    write_with_mode(&path, before, intent.executable_before.1)
                }
                // The author has edited the manifest since, and the edit is preserved.
                _ => Ok(()),
            }
        }
        (Step::UndoLibrary, Some(library)) => match read(library)? {
            Some(bytes) if sha256_hex(&bytes) == intent.sha256 => {
                restore(&replaced, library, intent.executable_before.0)
            }
            _ => Ok(()),
        },
        (Step::UndoKeep, Some(_)) => {
            let (kept, metadata) = place.previous();
            restore(&kept_before, &kept, false)?;
            restore(&metadata_before, &metadata, false)
        }
        (Step::Keep | Step::Library | Step::UndoLibrary | Step::UndoKeep, None) => Ok(()),
        (Step::Done, _) => {
            remove(&place.intent())?;
            // Without the flush, the intent could reappear after a power failure and be repeated.
            sync_directory(&place.private_dir())?;
            place.leftovers().iter().try_for_each(|path| remove(path))
        }
    }
}

fn install_manifest(place: &BuildPaths, intent: &InstallIntent) -> Result<(), BuildError> {
    let path = place.manifest();
    let text = fs::read_to_string(&path).map_err(BuildError::io(&path))?;
    match text {
        text if text == intent.manifest && !is_executable(&path) => Ok(()),
        text if text == intent.manifest || text == intent.manifest_before => {
            write(&path, intent.manifest.as_bytes())
        }
        // The author has edited the manifest since the crash. The edit is preserved, and the pin is
        // that of the installed library.
        text => match set_pin(&text, &intent.sha256) {
            Ok(text) => write(&path, text.as_bytes()),
            // The text is not a valid manifest any more, which the loader reports.
            Err(_) => Ok(()),
        },
    }
}

fn latest_record(place: &BuildPaths) -> Result<Option<skillhost_home::ApprovalRecord>, BuildError> {
    Ok(Approvals::load(&place.home)?.latest(&place.id).cloned())
}

fn append_record(
    place: &BuildPaths,
    record: &skillhost_home::ApprovalRecord,
) -> Result<(), BuildError> {
    run_effect(|| Ok(Approvals::append(&place.home, record)?))
}

/// Restores a file from its backup; a file without a backup did not exist and is removed.
fn restore(before: &Path, path: &Path, executable: bool) -> Result<(), BuildError> {
    match read(before)? {
        Some(bytes) if read(path)?.as_deref() == Some(&*bytes) && !executable => Ok(()),
        Some(bytes) => write_with_mode(path, &bytes, executable),
        None => remove(path),
    }
}

pub(super) fn is_executable(path: &Path) -> bool {
    fs::symlink_metadata(path)
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Reads a file, or returns `None` if it does not exist.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, BuildError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // A directory in place of the file is reported by the later write.
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => Ok(None),
        Err(error) => Err(BuildError::io(path)(error)),
    }
}

pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), BuildError> {
    run_effect(|| write_atomically(path, bytes).map_err(BuildError::io(path)))
}

fn write_with_mode(path: &Path, bytes: &[u8], executable: bool) -> Result<(), BuildError> {
    write(path, bytes)?;
    if executable {
        let mode = Permissions::from_mode(0o755);
        return run_effect(|| fs::set_permissions(path, mode).map_err(BuildError::io(path)));
    }
    Ok(())
}

pub(super) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), BuildError> {
    let bytes = serde_json::to_vec_pretty(value).map_err(|e| BuildError::io(path)(e.into()))?;
    write(path, &bytes)
}

pub(super) fn remove(path: &Path) -> Result<(), BuildError> {
    run_effect(|| match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(BuildError::io(path)(error)),
        _ => Ok(()),
    })
}

fn sync_directory(path: &Path) -> Result<(), BuildError> {
    run_effect(|| skillhost_files::sync_directory(path).map_err(BuildError::io(path)))
}

/// Runs a change of the disk, into which tests inject failures.
fn run_effect(work: impl FnOnce() -> Result<(), BuildError>) -> Result<(), BuildError> {
    #[cfg(test)]
    return super::faults::inject(work);
    #[cfg(not(test))]
    work()
}
