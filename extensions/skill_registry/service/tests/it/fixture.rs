//! A private directory with skills, a clock that is moved by hand, and the store that watches them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use skill_catalog::{
    Clock, ManualClock, SkillEvent, SkillRoot, SourceState, Store, StoreOptions, TrustLevel,
};
use skill_format::{Digest, SkillId};

pub(crate) struct StoreFixture {
    root: PathBuf,
    /// `None` if another process owns the directory.
    _temp: Option<tempfile::TempDir>,
    pub(crate) clock: Arc<ManualClock>,
}

impl StoreFixture {
    /// Creates an empty fixture with a root `skills`. Its clock is an hour ahead of the files, so
    /// that no stamp is too young to be trusted.
    pub(crate) fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir(temp.path().join("skills")).unwrap();
        let ahead = SystemTime::now() + Duration::from_secs(3_600);
        let root = temp.path().to_owned();
        Self { root, _temp: Some(temp), clock: Arc::new(ManualClock::new(ahead)) }
    }

    /// Creates a fixture in a directory that another process owns.
    pub(crate) fn at(root: PathBuf) -> Self {
        let clock = Arc::new(ManualClock::new(SystemTime::now() + Duration::from_secs(3_600)));
        Self { root, _temp: None, clock }
    }

    pub(crate) fn path(&self, rel: &str) -> PathBuf {
        self.root.join(rel)
    }

    /// Writes a file and the directories above it.
    pub(crate) fn write(&self, rel: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(rel);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Writes the SKILL.md of a directory.
    pub(crate) fn skill(&self, dir: &str, body: &str) -> Digest {
        let name = dir.rsplit('/').next().unwrap();
        let text = skill_text(name, body);
        self.write(&format!("{dir}/SKILL.md"), &text);
        Digest::compute(text.as_bytes())
    }

    pub(crate) fn options(&self, roots: &[&str]) -> StoreOptions {
        let root = |dir: &&str| SkillRoot {
            label: dir.replace('/', "-"),
            path: self.path(dir),
            trust: TrustLevel::Operator,
        };
        StoreOptions { roots: roots.iter().map(root).collect(), ..StoreOptions::default() }
    }

    /// Opens a store with the root `skills`.
    pub(crate) fn open(&self) -> Store {
        self.open_with(self.options(&["skills"]))
    }

    pub(crate) fn open_with(&self, options: StoreOptions) -> Store {
        Store::open(options, Arc::clone(&self.clock) as Arc<dyn Clock>).unwrap()
    }

    /// Opens a store that has read every file, as a running registry has.
    pub(crate) fn open_warm(&self) -> Store {
        let store = self.open();
        let report = store.poll_full();
        assert_eq!((report.events.as_slice(), report.full_pass), (&[][..], true));
        store
    }
}

pub(crate) fn skill_text(name: &str, body: &str) -> String {
    format!("---\nname: {name}\ndescription: About {name}.\n---\n{body}\n")
}

pub(crate) fn id(text: &str) -> SkillId {
    SkillId::new(text).unwrap()
}

pub(crate) fn ids(store: &Store) -> Vec<String> {
    store.snapshot().skills().iter().map(|skill| skill.id().to_string()).collect()
}

/// Returns a skill's current text, and whether it is the last good version.
pub(crate) fn body(store: &Store, name: &str) -> (String, bool) {
    let snapshot = store.snapshot();
    let source = store.read(snapshot.get(name).unwrap()).unwrap();
    (source.body().trim().to_owned(), source.state != SourceState::Current)
}

/// Returns the rules that were broken, each with the last component of the path.
pub(crate) fn findings(store: &Store) -> Vec<(String, &'static str, bool)> {
    let snapshot = store.snapshot();
    let finding = |problem: &Arc<skill_catalog::ScanProblem>| {
        let name = problem.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (name, problem.diagnostic.rule, problem.skipped)
    };
    snapshot.problems().iter().map(finding).collect()
}

/// Asserts that a poll reported no change and opened no file.
#[track_caller]
pub(crate) fn assert_quiet(store: &Store) {
    let report = store.poll();
    let seen = (report.changed, report.events, report.opened, report.full_pass);
    assert_eq!(seen, (false, Vec::new(), 0, false));
}

#[track_caller]
pub(crate) fn events(store: &Store) -> Vec<SkillEvent> {
    store.poll().events
}

/// Waits until the file system's clock has passed a file's stamps, so that the next write leaves
/// other ones. Takes a clock tick at most.
pub(crate) fn tick(path: &Path) {
    let before = fs::symlink_metadata(path).unwrap();
    let probe = tempfile::NamedTempFile::new_in(path.ancestors().nth(3).unwrap()).unwrap();
    loop {
        fs::write(probe.path(), "tick").unwrap();
        let now = fs::metadata(probe.path()).unwrap();
        let stamp = |m: &fs::Metadata| (m.ctime(), m.ctime_nsec()).max((m.mtime(), m.mtime_nsec()));
        if (now.ctime(), now.ctime_nsec()) > stamp(&before) || before.mtime() > now.ctime() {
            return;
        }
    }
}

/// Sets a file's modification time, as `touch -d` and archive programs do.
pub(crate) fn set_mtime(path: &Path, time: SystemTime) {
    fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}
