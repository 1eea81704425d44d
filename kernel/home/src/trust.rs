//! The record of trusted homes, and the recognition of a home.
//!
//! The record is a file in the user's state directory with one JSON object per line. A path alone
//! is not sufficient: another directory can replace it. Therefore the owner, the write permissions,
//! the inode and its device are recorded and compared, and the birth time if the file system has
//! one.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use skillhost_files::{LinkPolicy, read_limited, write_owned};

use crate::environment::Environment;
use crate::error::{HomeChange, HomeError};
use crate::home::Home;
use crate::timestamp::now_ms;

const RECORD: &str = "trusted-homes";

/// The largest record that is read, in bytes.
const RECORD_LIMIT: u64 = 1024 * 1024;

/// The properties that identify a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryIdentity {
    /// The user id of its owner.
    pub uid: u32,
    /// Its permission bits.
    pub mode: u32,
    /// The device it lies on.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
    /// The birth time, in nanoseconds since 1970, if the file system reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_ns: Option<u64>,
}

impl DirectoryIdentity {
    /// Reads the identity of a directory; a link is not followed.
    ///
    /// # Errors
    /// The system's error.
    pub fn of(path: &Path) -> io::Result<Self> {
        let found = fs::symlink_metadata(path)?;
        let created = found.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Ok(Self {
            uid: found.uid(),
            mode: found.mode() & 0o7777,
            device: found.dev(),
            inode: found.ino(),
            created_ns: created.and_then(|since| u64::try_from(since.as_nanos()).ok()),
        })
    }

    /// Compares a directory with its recorded identity; returns the first difference, or `None`.
    #[must_use]
    pub fn find_change(&self, found: &Self) -> Option<HomeChange> {
        let same_birth = match (self.created_ns, found.created_ns) {
            (Some(before), Some(now)) => Some(before == now),
            _ => None,
        };
        // Some file systems get another device number with each mount, so the birth time may
        // replace the device; an inode number alone may be reused.
        let same = match same_birth {
            Some(same) => same,
            None => self.device == found.device,
        };
        if self.uid != found.uid {
            return Some(HomeChange::Owner { recorded: self.uid, found: found.uid });
        }
        if self.inode != found.inode || !same {
            return Some(HomeChange::Replaced);
        }
        let writable_by = |mode: u32| mode & 0o022;
        (writable_by(found.mode) & !writable_by(self.mode) != 0 || is_world_writable(found))
            .then_some(HomeChange::Writable)
    }
}

/// One trusted home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustedHome {
    /// Its canonical path.
    pub path: PathBuf,
    /// The identity when it was trusted; `None` in a record of an earlier version.
    #[serde(flatten)]
    pub identity: Option<DirectoryIdentity>,
    /// The time of trust, in milliseconds since 1970; 0 in a record of an earlier version.
    #[serde(default)]
    pub trusted_at_ms: u64,
}

impl TrustedHome {
    /// Compares the directory with the one that was trusted; returns the first difference, or
    /// `None`.
    #[must_use]
    pub fn find_change(&self) -> Option<HomeChange> {
        match (&self.identity, DirectoryIdentity::of(&self.path)) {
            (_, Err(_)) => Some(HomeChange::Missing),
            (None, Ok(_)) => Some(HomeChange::PathOnly),
            (Some(recorded), Ok(found)) => recorded.find_change(&found),
        }
    }
}

/// Lists the recorded homes in the order of their trust, including those that have changed since.
///
/// # Errors
/// [`HomeError::Io`] if the record cannot be read, [`HomeError::UnsafeRecord`] if another user may
/// have written it.
pub fn trusted_homes(environment: &Environment) -> Result<Vec<TrustedHome>, HomeError> {
    let Some(path) = environment.state_dir().map(|state| state.join(RECORD)) else {
        return Ok(Vec::new());
    };
    check_record(&path)?;
    let bytes = match read_limited(&path, RECORD_LIMIT, LinkPolicy::Refuse) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(HomeError::Io { path, source }),
    };
    let text = String::from_utf8_lossy(&bytes);
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.is_empty());
    let home = |(number, line): (usize, &str)| {
        // Earlier versions recorded the path alone.
        if !line.starts_with('{') {
            return Ok(TrustedHome { path: line.into(), identity: None, trusted_at_ms: 0 });
        }
        serde_json::from_str(line)
            .map_err(|_| HomeError::DamagedRecord { path: path.clone(), line: number })
    };
    lines.map(home).collect()
}

/// Rejects a record that another user may have written.
fn check_record(path: &Path) -> Result<(), HomeError> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    let own = rustix::process::geteuid().as_raw();
    // The superuser has access in any case.
    let problem = if found.uid() != own && found.uid() != 0 {
        "it belongs to another user"
    } else if found.mode() & 0o022 != 0 && !found.is_symlink() {
        "other users may write to it"
    } else {
        return Ok(());
    };
    Err(HomeError::UnsafeRecord { path: path.to_owned(), problem })
}

impl Home {
    /// Rejects a home without trust, and one that has changed since it was trusted. The user's own
    /// home is always trusted, unless another user owns it or every user may write to it.
    ///
    /// # Errors
    /// [`HomeError::Untrusted`], [`HomeError::Changed`]; [`HomeError::UnsafeRecord`],
    /// [`HomeError::DamagedRecord`] and [`HomeError::Io`] for an unusable record.
    pub fn require_trust(&self, environment: &Environment) -> Result<(), HomeError> {
        let failed = |source| HomeError::Io { path: self.root().to_owned(), source };
        let own = environment.default_home().and_then(|path| fs::canonicalize(path).ok());
        if own.as_deref() == Some(self.root()) {
            let found = DirectoryIdentity::of(self.root()).map_err(failed)?;
            if found.uid == rustix::process::geteuid().as_raw() && !is_world_writable(&found) {
                return Ok(());
            }
        }
        let path = self.root().to_owned();
        let homes = trusted_homes(environment)?;
        let Some(recorded) = homes.iter().find(|recorded| recorded.path == path) else {
            return Err(HomeError::Untrusted { path });
        };
        match recorded.find_change() {
            None => Ok(()),
            Some(change) => Err(HomeError::Changed { path, change }),
        }
    }
}

/// Records a home as trusted in its current state; returns whether that was new.
///
/// # Errors
/// [`HomeError::WorldWritable`] for a home that every user may write to; errors of writing the
/// record.
pub fn trust(home: &Home, environment: &Environment) -> Result<bool, HomeError> {
    let path = home.root();
    let recordable = path.to_str().is_some_and(|text| !text.contains(['\n', '\r']));
    if !recordable {
        return Err(HomeError::Unrecordable { path: path.to_owned() });
    }
    let failed = |source| HomeError::Io { path: path.to_owned(), source };
    let identity = DirectoryIdentity::of(path).map_err(failed)?;
    if is_world_writable(&identity) {
        return Err(HomeError::WorldWritable { path: path.to_owned() });
    }
    change_record(environment, |homes| {
        let known = homes.iter().find(|known| known.path == path);
        if known.is_some_and(|known| known.find_change().is_none()) {
            return false;
        }
        homes.retain(|known| known.path != path);
        homes.push(TrustedHome {
            path: path.to_owned(),
            identity: Some(identity),
            trusted_at_ms: now_ms(),
        });
        true
    })
}

/// Removes the record of a trusted home; returns whether there was one. The directory need not
/// exist any longer.
///
/// # Errors
/// The record cannot be read or written.
pub fn untrust(path: &Path, environment: &Environment) -> Result<bool, HomeError> {
    let canonical = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    change_record(environment, |homes| {
        let before = homes.len();
        homes.retain(|known| known.path != path && known.path != canonical);
        homes.len() != before
    })
}

/// Reads, changes and writes the record under a lock; writes only if `change` returns `true`.
fn change_record(
    environment: &Environment,
    change: impl FnOnce(&mut Vec<TrustedHome>) -> bool,
) -> Result<bool, HomeError> {
    let state = environment.state_dir().ok_or(HomeError::NoStateDir)?;
    let path = state.join(RECORD);
    let failed = |source| HomeError::Io { path: path.clone(), source };
    let lock = || {
        fs::create_dir_all(&state)?;
        // A file of its own, because the record is replaced by a rename.
        let lock = path.with_extension("lock");
        let file = OpenOptions::new().create(true).write(true).truncate(false).open(lock)?;
        file.lock()?;
        Ok(file)
    };
    let _guard = lock().map_err(failed)?;
    // Read under the lock: another process may have changed the record.
    let mut homes = trusted_homes(environment)?;
    if !change(&mut homes) {
        return Ok(false);
    }
    let mut text = String::new();
    for home in &homes {
        match home.identity {
            Some(_) => {
                let line = serde_json::to_string(home).map_err(io::Error::from);
                text.push_str(&line.map_err(failed)?);
            }
            None => text.push_str(&home.path.to_string_lossy()),
        }
        text.push('\n');
    }
    write_owned(&path, text.as_bytes()).map_err(failed)?;
    Ok(true)
}

fn is_world_writable(found: &DirectoryIdentity) -> bool {
    found.mode & 0o002 != 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::home::HomeSource;

    struct Place {
        _temp: tempfile::TempDir,
        root: PathBuf,
        environment: Environment,
    }

    fn place() -> Place {
        let temp = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(temp.path()).unwrap();
        fs::create_dir_all(root.join("work/sandbox")).unwrap();
        fs::create_dir_all(root.join("data/skillhost/sandbox")).unwrap();
        let environment = Environment {
            current_dir: root.join("work"),
            data_home: Some(root.join("data").into()),
            state_home: Some(root.join("state").into()),
            ..Environment::default()
        };
        Place { _temp: temp, root, environment }
    }

    impl Place {
        fn home(&self, relative: &str) -> Home {
            Home::open(&self.root.join(relative), HomeSource::Argument).unwrap()
        }

        fn record(&self) -> PathBuf {
            self.root.join("state/skillhost").join(RECORD)
        }

        fn mode(&self, path: &Path, mode: u32) {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }

        /// Changes one number of the only record.
        fn rewrite(&self, key: &str, value: u64) {
            let text = fs::read_to_string(self.record()).unwrap();
            let mut record: serde_json::Value = serde_json::from_str(&text).unwrap();
            record[key] = value.into();
            fs::write(self.record(), format!("{record}\n")).unwrap();
        }
    }

    #[test]
    fn recorded_home_is_trusted_until_removed() {
        let place = place();
        let (home, environment) = (place.home("work"), &place.environment);
        assert!(matches!(home.require_trust(environment), Err(HomeError::Untrusted { .. })));
        assert!(trust(&home, environment).unwrap());
        assert!(!trust(&home, environment).unwrap());
        home.require_trust(environment).unwrap();
        let paths: Vec<_> =
            trusted_homes(environment).unwrap().into_iter().map(|home| home.path).collect();
        assert_eq!(paths, [place.root.join("work")]);
        assert!(untrust(home.root(), environment).unwrap());
        assert!(!untrust(home.root(), environment).unwrap());
        assert!(matches!(home.require_trust(environment), Err(HomeError::Untrusted { .. })));
        place.home("data/skillhost").require_trust(environment).unwrap();
    }

    #[test]
    fn replaced_directory_is_not_trusted() {
        let place = place();
        let (home, environment) = (place.home("work"), &place.environment);
        trust(&home, environment).unwrap();
        fs::rename(place.root.join("work"), place.root.join("away")).unwrap();
        fs::create_dir_all(place.root.join("work/sandbox")).unwrap();
        let error = place.home("work").require_trust(environment).unwrap_err();
        assert!(matches!(error, HomeError::Changed { change: HomeChange::Replaced, .. }));
        assert!(trust(&place.home("work"), environment).unwrap(), "it can be trusted again");
        place.home("work").require_trust(environment).unwrap();
    }

    #[test]
    fn other_owner_is_not_trusted() {
        let place = place();
        let (home, environment) = (place.home("work"), &place.environment);
        trust(&home, environment).unwrap();
        place.rewrite("uid", 4_000_000);
        let error = home.require_trust(environment).unwrap_err();
        let own = rustix::process::geteuid().as_raw();
        let change = HomeChange::Owner { recorded: 4_000_000, found: own };
        assert!(matches!(error, HomeError::Changed { change: found, .. } if found == change));
    }

    #[test]
    fn inode_and_device_are_compared() {
        let identity =
            DirectoryIdentity { uid: 1, mode: 0o755, device: 2, inode: 3, created_ns: Some(4) };
        let change = |found| identity.find_change(&found);
        assert_eq!(change(identity), None);
        let moved = DirectoryIdentity { device: 9, ..identity };
        assert_eq!(change(moved), None, "born at the same moment, mounted again");
        let unborn = DirectoryIdentity { created_ns: None, ..moved };
        assert_eq!(change(unborn), Some(HomeChange::Replaced));
        for found in [
            DirectoryIdentity { inode: 9, ..identity },
            DirectoryIdentity { created_ns: Some(9), ..identity },
        ] {
            assert_eq!(change(found), Some(HomeChange::Replaced));
        }
        let open = DirectoryIdentity { mode: 0o775, ..identity };
        assert_eq!(change(open), Some(HomeChange::Writable));
        assert_eq!(open.find_change(&identity), None, "fewer may write");
        assert_eq!(open.find_change(&open), None, "what it was");
    }

    #[test]
    fn world_writable_home_is_rejected() {
        let place = place();
        let (home, environment) = (place.home("work"), &place.environment);
        place.mode(home.root(), 0o777);
        assert!(matches!(trust(&home, environment), Err(HomeError::WorldWritable { .. })));
        place.mode(home.root(), 0o755);
        trust(&home, environment).unwrap();
        place.mode(home.root(), 0o757);
        let error = home.require_trust(environment).unwrap_err();
        assert!(matches!(error, HomeError::Changed { change: HomeChange::Writable, .. }));
        let own = place.home("data/skillhost");
        place.mode(own.root(), 0o777);
        assert!(matches!(own.require_trust(environment), Err(HomeError::Untrusted { .. })));
    }

    #[test]
    fn record_writable_by_others_is_rejected() {
        let place = place();
        let (home, environment) = (place.home("work"), &place.environment);
        trust(&home, environment).unwrap();
        for mode in [0o666, 0o664, 0o646] {
            place.mode(&place.record(), mode);
            for error in [home.require_trust(environment), trust(&home, environment).map(drop)] {
                let error = error.unwrap_err();
                assert!(matches!(error, HomeError::UnsafeRecord { .. }), "{error}");
            }
        }
        place.mode(&place.record(), 0o644);
        home.require_trust(environment).unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(place.record(), Some(65_534), None).unwrap();
            let error = home.require_trust(environment).unwrap_err();
            assert!(matches!(error, HomeError::UnsafeRecord { .. }), "{error}");
        }
    }

    #[test]
    fn earlier_record_requires_new_trust() {
        let place = place();
        let (home, environment) = (place.home("work"), &place.environment);
        fs::create_dir_all(place.root.join("state/skillhost")).unwrap();
        fs::write(place.record(), format!("{}\n/elsewhere\n", home.root().display())).unwrap();
        place.mode(&place.record(), 0o644);
        let error = home.require_trust(environment).unwrap_err();
        assert!(matches!(error, HomeError::Changed { change: HomeChange::PathOnly, .. }));
        assert!(trust(&home, environment).unwrap());
        home.require_trust(environment).unwrap();
        assert_eq!(trusted_homes(environment).unwrap().len(), 2, "the other one is kept");
    }

    #[test]
    fn damaged_record_trusts_nothing() {
        let place = place();
        let (home, environment) = (place.home("work"), &place.environment);
        trust(&home, environment).unwrap();
        let text = fs::read_to_string(place.record()).unwrap();
        fs::write(place.record(), format!("{text}{{\"path\":\n")).unwrap();
        let error = home.require_trust(environment).unwrap_err();
        assert!(matches!(error, HomeError::DamagedRecord { line: 2, .. }), "{error}");
        assert!(trust(&home, environment).is_err(), "and is not written over");
    }

    #[test]
    fn parallel_trust_keeps_every_home() {
        let place = place();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let place = &place;
                scope.spawn(move || {
                    for n in 0..8 {
                        let path = format!("many/{writer}-{n}");
                        fs::create_dir_all(place.root.join(&path).join("sandbox")).unwrap();
                        trust(&place.home(&path), &place.environment).unwrap();
                    }
                });
            }
        });
        assert_eq!(trusted_homes(&place.environment).unwrap().len(), 32);
    }
}
