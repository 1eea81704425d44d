//! The state of the settings of a home, without their contents.

use std::time::SystemTime;

use skillhost_home::Home;

use crate::file_stamp::FileStamp;

/// The stamps of the files with settings; equal stamps mean equal settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SettingsStamp([FileStamp; 2]);

impl SettingsStamp {
    /// Examines the settings at the present time. Blocks on the disk.
    pub(crate) fn observe(home: &Home) -> Option<Self> {
        Self::observe_at(home, SystemTime::now())
    }

    /// Examines the settings at a time, without opening a file. Returns `None` if they changed so
    /// recently that equal stamps would not prove equal settings.
    fn observe_at(home: &Home, now: SystemTime) -> Option<Self> {
        let configured = home.data_dir("kernel").join("configured.json");
        let settings = FileStamp::observe_at(&home.settings_file(), now)?;
        Some(Self([settings, FileStamp::observe_at(&configured, now)?]))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;
    use std::path::PathBuf;
    use std::time::Duration;

    use skillhost_home::HomeSource;
    use tempfile::TempDir;

    use super::*;

    fn create_home() -> (TempDir, Home) {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("sandbox/data/kernel")).unwrap();
        fs::write(directory.path().join("skillhost.yaml"), "").unwrap();
        let home = Home::open(directory.path(), HomeSource::Argument).unwrap();
        (directory, home)
    }

    fn configured(home: &Home) -> PathBuf {
        home.data_dir("kernel").join("configured.json")
    }

    /// Returns the time of a file's last change, in whole seconds, and some seconds later.
    fn after_change(path: &std::path::Path, seconds: u64) -> SystemTime {
        let changed = u64::try_from(path.metadata().unwrap().ctime()).unwrap();
        SystemTime::UNIX_EPOCH + Duration::from_secs(changed + seconds)
    }

    /// A time long after every change of a test.
    fn later() -> SystemTime {
        SystemTime::now() + Duration::from_secs(3600)
    }

    #[test]
    fn unchanged_settings_have_equal_stamps() {
        let (_directory, home) = create_home();
        let stamp = SettingsStamp::observe_at(&home, later());
        assert!(stamp.is_some());
        assert_eq!(SettingsStamp::observe_at(&home, later()), stamp);
    }

    #[test]
    fn changed_settings_have_another_stamp() {
        let (_directory, home) = create_home();
        let observe = || SettingsStamp::observe_at(&home, later()).unwrap();
        let first = observe();
        fs::write(home.settings_file(), "sandbox: off\n").unwrap();
        let second = observe();
        fs::write(configured(&home), "{}").unwrap();
        let third = observe();
        // A file of the same length in its place is another file.
        let other = home.settings_file().with_extension("new");
        fs::write(&other, "sandbox: 0ff\n").unwrap();
        fs::rename(&other, home.settings_file()).unwrap();
        let fourth = observe();
        fs::remove_file(configured(&home)).unwrap();
        let fifth = observe();
        let all = [first, second, third, fourth, fifth];
        for (number, stamp) in all.iter().enumerate() {
            assert!(all[..number].iter().all(|earlier| earlier != stamp), "{number}: {all:?}");
        }
    }

    #[test]
    fn recent_changes_have_no_stamp() {
        let (_directory, home) = create_home();
        let file = home.settings_file();
        let observe = |seconds| SettingsStamp::observe_at(&home, after_change(&file, seconds));
        assert_eq!([observe(0), observe(1), observe(2)], [None, None, None]);
        assert!(observe(3).is_some());
        // The clock was set back behind the change.
        let before = after_change(&file, 0) - Duration::from_secs(60);
        assert_eq!(SettingsStamp::observe_at(&home, before), None);
        assert_eq!(SettingsStamp::observe_at(&home, SystemTime::UNIX_EPOCH), None);
    }
}
