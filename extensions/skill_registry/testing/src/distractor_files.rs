//! The files of the distractors, written once for all catalogs of a process.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use skill_evals::{DistractorSkill, distractor_skills};
use skillhost_files::RunDirectory;

/// The label of the root with the distractors, and the name of its directory.
pub(crate) const DISTRACTORS: &str = "test-distractors";

/// The files of the distractors, in a directory that is removed with the last catalog.
#[derive(Debug)]
pub(crate) struct DistractorFiles {
    directory: RunDirectory,
    /// The ids and the lengths of the files, in bytes.
    files: Vec<(String, u64)>,
}

impl DistractorFiles {
    /// Returns the files that another catalog of this process uses, or writes them.
    ///
    /// # Errors
    /// Fails if the temporary directory cannot be written.
    pub(crate) fn open_shared() -> io::Result<Arc<Self>> {
        // Most of the time of a check would otherwise be the creation of 200 directories.
        static SHARED: Mutex<Weak<DistractorFiles>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(files) = shared.upgrade().filter(|files| files.is_complete()) {
            return Ok(files);
        }
        let files = Arc::new(Self::write()?);
        *shared = Arc::downgrade(&files);
        Ok(files)
    }

    fn write() -> io::Result<Self> {
        let directory = RunDirectory::create()?;
        let write = |skill: DistractorSkill| {
            let (place, text) =
                (directory.path().join(DISTRACTORS).join(&skill.id), skill.to_skill_file());
            fs::create_dir_all(&place)?;
            fs::write(place.join("SKILL.md"), &text)?;
            Ok((skill.id, text.len() as u64))
        };
        let files = distractor_skills().into_iter().map(write).collect::<io::Result<_>>()?;
        Ok(Self { directory, files })
    }

    /// Returns whether every file is there: systems remove old temporary files while a kernel runs.
    fn is_complete(&self) -> bool {
        self.files.iter().all(|(id, length)| {
            let file = self.path().join(id).join("SKILL.md");
            fs::metadata(file).is_ok_and(|found| found.is_file() && found.len() == *length)
        })
    }

    /// Returns the directory of the skills.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join(DISTRACTORS)
    }

    /// Returns the ids, sorted.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &String> {
        self.files.iter().map(|(id, _)| id)
    }

    /// Returns the number of distractors.
    pub(crate) fn count(&self) -> usize {
        self.files.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remove_first(files: &DistractorFiles) {
        let id = files.ids().next().unwrap();
        fs::remove_file(files.path().join(id).join("SKILL.md")).unwrap();
    }

    #[test]
    fn files_are_shared_while_complete() {
        let first = DistractorFiles::open_shared().unwrap();
        let second = DistractorFiles::open_shared().unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        assert!(first.count() >= 200);
        remove_first(&first);
        let third = DistractorFiles::open_shared().unwrap();
        assert!(!Arc::ptr_eq(&first, &third) && third.is_complete());
        let path = third.path();
        drop(third);
        assert!(!path.exists(), "the directory ends with its last user");
    }
}
