//! A quick check for changes, which nearly always finds none.
//!
//! It costs one `stat` for every skill and every listed directory and opens nothing but the roots.

use std::io::ErrorKind;

use crate::disk::RootDir;
use crate::entry::{ScanEntry, ScannedDirectory};
use crate::roots::OpenRoot;
use crate::signature::FileSignature;
use crate::skill::SkillFile;

use super::PollState;

impl PollState {
    /// Returns whether every stamp is unchanged; counts the examined entries.
    pub(super) fn is_unchanged(&self, opened: &[OpenRoot], stats: &mut usize) -> bool {
        if self.unsettled || !self.roots.iter().copied().eq(opened.iter().map(OpenRoot::status)) {
            return false;
        }
        let mut path = String::new();
        self.containers.iter().all(|container| {
            // A root that cannot be opened could not be opened before either.
            let Ok(dir) = &opened[usize::from(container.root)].dir else { return true };
            *stats += 1;
            signature(dir, &container.rel) == Some(container.signature)
                && container
                    .entries
                    .iter()
                    .all(|entry| is_current(entry, container, opened, &mut path, stats))
        })
    }
}

fn is_current(
    entry: &ScanEntry,
    container: &ScannedDirectory,
    opened: &[OpenRoot],
    path: &mut String,
    stats: &mut usize,
) -> bool {
    path.clear();
    let index = match &entry.link {
        Some(link) => {
            path.push_str(&link.rel);
            link.index
        }
        None => {
            if !container.rel.is_empty() {
                path.extend([&*container.rel, "/"]);
            }
            path.push_str(entry.name());
            container.root
        }
    };
    let Ok(dir) = &opened[usize::from(index)].dir else { return false };
    let directory = path.len();
    path.extend(["/", entry.file.name()]);
    *stats += 1;
    if signature(dir, path) != Some(entry.signature) {
        return false;
    }
    if entry.file == SkillFile::Upper {
        return true;
    }
    // `SKILL.md` is preferred to `skill.md`: a new one would replace this file.
    path.truncate(directory);
    path.extend(["/", SkillFile::Upper.name()]);
    *stats += 1;
    signature(dir, path).is_none()
}

/// Returns a file's stamp; that of an unknown file if it cannot be examined, or `None` if it does
/// not exist.
fn signature(dir: &RootDir, path: &str) -> Option<FileSignature> {
    match dir.stat(path) {
        Ok(stat) => Some(stat.signature),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(_) => Some(FileSignature::default()),
    }
}
