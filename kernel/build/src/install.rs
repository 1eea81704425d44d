//! Puts a build in its place: library, pin in the manifest, record of what was approved.
//!
//! These are several files, so what is to be done is written down first. From then on each step can
//! be made again: whoever finds the intent after a crash makes them all, and the new build is there;
//! before, nothing of the old one was touched.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use skillhost_kernel::{Installed, InstalledError, write_atomically};

use crate::error::BuildError;
use crate::files::sha256;
use crate::pin::pinned;
use crate::place::{Place, library_name};

/// What an installation is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Intent {
    /// The library's file name; nothing for a process extension, whose code is its files.
    library: Option<String>,
    /// Of the library, or of the files; hexadecimal.
    sha256: String,
    /// The manifest as it was.
    manifest_before: String,
    /// The manifest as it is to be.
    manifest: String,
    /// Who approved it.
    by: String,
    /// The library in place, which is kept.
    before: Option<Kept>,
}

/// A build that can be taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) library: String,
    pub(crate) sha256: String,
}

/// What is installed.
pub(crate) struct New<'n> {
    /// The library, for the base name in the manifest; nothing for a process extension.
    pub(crate) library: Option<(&'n str, &'n [u8])>,
    pub(crate) sha256: &'n str,
    pub(crate) by: &'n str,
}

/// What an installation does once it is decided, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Keep,
    Library,
    Manifest,
    Record,
    Done,
}

const STEPS: [Step; 5] = [Step::Keep, Step::Library, Step::Manifest, Step::Record, Step::Done];

/// Installs a build for a manifest, whose text has to be `manifest` still.
///
/// # Errors
/// [`BuildError::Changed`] and [`BuildError::Unpinnable`] before anything is touched. Where a step
/// fails, everything is put back.
pub(crate) fn install(place: &Place, manifest: &str, new: &New<'_>) -> Result<(), BuildError> {
    let intent = intend(place, manifest, new)?;
    let undo = Undo::of(place, &intent);
    decide(place, &intent, new)?;
    for step in STEPS {
        if let Err(error) = perform(place, &intent, step) {
            undo.put_back(place, &intent);
            return Err(error);
        }
    }
    Ok(())
}

/// Takes the library before the present one back. Returns the sha256 of both.
///
/// # Errors
/// As for [`install`]; [`BuildError::NothingBefore`] and [`BuildError::OtherLibrary`].
pub(crate) fn roll_back(place: &Place, by: &str) -> Result<(String, String), BuildError> {
    let path = place.manifest();
    let text = fs::read_to_string(&path).map_err(BuildError::io(&path))?;
    let entrypoint = skillhost_manifest::parse(&text)
        .ok()
        .and_then(|manifest| manifest.entrypoint().map(str::to_owned));
    let nothing =
        |hint: &str| BuildError::NothingBefore { id: place.id.clone(), hint: hint.to_owned() };
    let Some(entrypoint) = entrypoint else {
        return Err(nothing(
            "only of libraries the build before is kept; write the files as they were, then build",
        ));
    };
    let (library, facts) = place.previous();
    let kept: Option<Kept> =
        fs::read(&facts).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let kept = kept.ok_or_else(|| nothing("it was built once, or by other means"))?;
    let name = library_name(&entrypoint);
    if kept.library != name {
        let (id, was) = (place.id.clone(), kept.library);
        return Err(BuildError::OtherLibrary { id, was, is: name });
    }
    let bytes = fs::read(&library).map_err(BuildError::io(&library))?;
    if sha256(&bytes) != kept.sha256 {
        return Err(nothing("what was kept of it is damaged"));
    }
    let from = read(&place.folder().join(&name))?.map(|bytes| sha256(&bytes)).unwrap_or_default();
    let new = New { library: Some((&entrypoint, &bytes)), sha256: &kept.sha256, by };
    install(place, &text, &new)?;
    Ok((from, kept.sha256))
}

/// Ends an installation that a process which died had decided on. Returns whether there was one.
///
/// # Errors
/// [`BuildError::Io`]; the intent stays, and the next start tries again.
pub(crate) fn recover(place: &Place) -> Result<bool, BuildError> {
    let path = place.intent();
    let Some(bytes) = read(&path)? else {
        // Written, and not decided on.
        return remove(&place.staged()).map(|()| false);
    };
    let intent: Intent = match serde_json::from_slice(&bytes) {
        Ok(intent) => intent,
        // It is written whole or not at all, so this is none of ours.
        Err(error) => return Err(BuildError::io(&path)(error.into())),
    };
    STEPS.into_iter().try_for_each(|step| perform(place, &intent, step))?;
    Ok(true)
}

/// Says what is to be done, after every check.
fn intend(place: &Place, manifest: &str, new: &New<'_>) -> Result<Intent, BuildError> {
    let folder = place.folder();
    let metadata = fs::symlink_metadata(&folder).map_err(BuildError::io(&folder))?;
    let text = read(&place.manifest())?;
    if !metadata.is_dir() || text.as_deref() != Some(manifest.as_bytes()) {
        return Err(BuildError::Changed { id: place.id.clone() });
    }
    let library = new.library.map(|(entrypoint, _)| library_name(entrypoint));
    let before = match &library {
        Some(name) => read(&folder.join(name))?.map(|bytes| sha256(&bytes)),
        None => None,
    };
    let before = before
        .filter(|before| before != new.sha256)
        .zip(library.clone())
        .map(|(sha256, library)| Kept { library, sha256 });
    Ok(Intent {
        library,
        sha256: new.sha256.to_owned(),
        manifest_before: manifest.to_owned(),
        manifest: pinned(manifest, new.sha256)?,
        by: new.by.to_owned(),
        before,
    })
}

/// Writes down what is to be done, the new library first. After this it will be done.
fn decide(place: &Place, intent: &Intent, new: &New<'_>) -> Result<(), BuildError> {
    place.make()?;
    if let Some((_, bytes)) = new.library {
        write(&place.staged(), bytes)?;
    }
    write_json(&place.intent(), intent)
}

/// Makes one step; making it again changes nothing.
fn perform(place: &Place, intent: &Intent, step: Step) -> Result<(), BuildError> {
    let library = intent.library.as_ref().map(|name| place.folder().join(name));
    match (step, &library) {
        (Step::Keep, Some(library)) => {
            let Some(before) = &intent.before else { return Ok(()) };
            // Once the new one is there, the old one was kept.
            match read(library)? {
                Some(bytes) if sha256(&bytes) == before.sha256 => {
                    let (kept, facts) = place.previous();
                    write(&kept, &bytes)?;
                    write_json(&facts, before)
                }
                _ => Ok(()),
            }
        }
        (Step::Library, Some(library)) => match read(library)? {
            Some(bytes) if sha256(&bytes) == intent.sha256 => Ok(()),
            _ => {
                let staged = place.staged();
                let bytes = fs::read(&staged).map_err(BuildError::io(&staged))?;
                if sha256(&bytes) != intent.sha256 {
                    let damaged = io::Error::new(io::ErrorKind::InvalidData, "it is damaged");
                    return Err(BuildError::io(&staged)(damaged));
                }
                write(library, &bytes)
            }
        },
        (Step::Keep | Step::Library, None) => Ok(()),
        (Step::Manifest, _) => {
            let path = place.manifest();
            let text = fs::read_to_string(&path).map_err(BuildError::io(&path))?;
            match text {
                text if text == intent.manifest => Ok(()),
                text if text == intent.manifest_before => write(&path, intent.manifest.as_bytes()),
                // Somebody wrote to it since the process died; the pin belongs to the library.
                text => match pinned(&text, &intent.sha256) {
                    Ok(text) => write(&path, text.as_bytes()),
                    // It is no manifest any more; that is reported when it is read.
                    Err(_) => Ok(()),
                },
            }
        }
        (Step::Record, _) => {
            let recorded = Installed::record(&place.home, &place.id, &intent.sha256, &intent.by);
            recorded.map_err(|error| match error {
                InstalledError::Io { path, source } => BuildError::Io { path, source },
                InstalledError::Unreadable { path, source } => {
                    BuildError::Io { path, source: source.into() }
                }
            })
        }
        (Step::Done, _) => {
            remove(&place.intent())?;
            remove(&place.staged())
        }
    }
}

/// What is needed to put everything back while the process lives.
struct Undo {
    library: Option<Vec<u8>>,
    previous: (Option<Vec<u8>>, Option<Vec<u8>>),
}

impl Undo {
    fn of(place: &Place, intent: &Intent) -> Self {
        let library = intent.library.as_ref().map(|name| place.folder().join(name));
        let (kept, facts) = place.previous();
        let bytes = |path: &Path| read(path).ok().flatten();
        Self {
            library: library.as_deref().and_then(bytes),
            previous: (bytes(&kept), bytes(&facts)),
        }
    }

    /// Puts back what can be. Where even that fails the intent stays, and the next start installs
    /// the new build after all.
    fn put_back(self, place: &Place, intent: &Intent) {
        let (kept, facts) = place.previous();
        let library = intent.library.as_ref().map(|name| place.folder().join(name));
        let restore = |path: &Path, bytes: &Option<Vec<u8>>| match bytes {
            Some(bytes) if read(path)?.as_deref() != Some(bytes.as_slice()) => write(path, bytes),
            Some(_) => Ok(()),
            None => remove(path),
        };
        let put_back = || {
            if let Some(library) = &library
                && read(library)?.is_some_and(|bytes| sha256(&bytes) == intent.sha256)
            {
                restore(library, &self.library)?;
            }
            let path = place.manifest();
            if read(&path)?.as_deref() == Some(intent.manifest.as_bytes()) {
                write(&path, intent.manifest_before.as_bytes())?;
            }
            restore(&kept, &self.previous.0)?;
            restore(&facts, &self.previous.1)?;
            perform(place, intent, Step::Done)
        };
        if let Err(error) = put_back() {
            let id = &place.id;
            tracing::warn!(%id, %error, "a failed installation is finished at the next start");
        }
    }
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, BuildError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // A folder in its place is found out when something is to be written there.
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => Ok(None),
        Err(error) => Err(BuildError::io(path)(error)),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), BuildError> {
    write_atomically(path, bytes).map_err(BuildError::io(path))
}

fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), BuildError> {
    let bytes = serde_json::to_vec_pretty(value).map_err(|e| BuildError::io(path)(e.into()))?;
    write(path, &bytes)
}

fn remove(path: &Path) -> Result<(), BuildError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(BuildError::io(path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
