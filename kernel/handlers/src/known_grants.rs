//! The grants for code of skills, read again only where their file has changed.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use skillhost_home::{Home, ScriptGrants};
use skillhost_payload::CallError;
use skillhost_scripts::load_grants;

use crate::file_stamp::FileStamp;

/// The grants of a home, with the stamp that their file had before it was read.
#[derive(Default)]
pub(crate) struct KnownGrants(Mutex<Option<(FileStamp, Arc<ScriptGrants>)>>);

impl KnownGrants {
    /// Returns the grants as they are now. Blocks on the disk.
    ///
    /// # Errors
    /// As for [`load_grants`].
    pub(crate) fn load(&self, home: &Home) -> Result<Arc<ScriptGrants>, CallError> {
        self.load_at(home, SystemTime::now())
    }

    fn load_at(&self, home: &Home, now: SystemTime) -> Result<Arc<ScriptGrants>, CallError> {
        // Before the file is read, so that a change in between is noticed.
        let stamp = FileStamp::observe_at(&grants_file(home), now);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(stamp), Some((before, grants))) = (&stamp, &*known)
            && before == stamp
        {
            return Ok(Arc::clone(grants));
        }
        let grants = Arc::new(load_grants(home)?);
        *known = stamp.map(|stamp| (stamp, Arc::clone(&grants)));
        Ok(grants)
    }
}

fn grants_file(home: &Home) -> PathBuf {
    home.data_dir("kernel").join(ScriptGrants::FILE_NAME)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use skillhost_home::HomeSource;

    use super::*;

    #[test]
    fn grants_are_read_after_changes() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("sandbox/data/kernel")).unwrap();
        let home = Home::open(directory.path(), HomeSource::Argument).unwrap();
        let known = KnownGrants::default();
        let later = SystemTime::now() + Duration::from_secs(3600);
        let first = known.load_at(&home, later).unwrap();
        assert!(Arc::ptr_eq(&first, &known.load_at(&home, later).unwrap()));
        fs::write(grants_file(&home), "").unwrap();
        let second = known.load_at(&home, later).unwrap();
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(Arc::ptr_eq(&second, &known.load_at(&home, later).unwrap()));
        // A change at this moment might have left the same stamp.
        let recent = known.load_at(&home, SystemTime::now()).unwrap();
        assert!(!Arc::ptr_eq(&recent, &known.load_at(&home, SystemTime::now()).unwrap()));
        // A file that cannot be read grants no code, although grants are known.
        fs::write(grants_file(&home), "no grant\n").unwrap();
        assert!(known.load_at(&home, later).is_err());
        assert!(known.load_at(&home, later).is_err());
    }
}
