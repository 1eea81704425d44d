//! A parallel walk over the files of a directory, through the jail.
//!
//! Every directory is opened relative to the one above it and without following a link, so the walk
//! cannot leave its root. That is why the walker of the crate `ignore`, which opens paths, is not
//! used; its ignore rules and globs are.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use cap_fs_ext::MetadataExt as _;
use cap_std::fs::Dir;
use ignore::overrides::{Override, OverrideBuilder};
use skillhost_files::jail::{self, JailError};
use skillhost_sdk::{ExtensionError, Result};

use crate::ignore_rules::{IgnoreFiles, IgnoreRules};
use crate::path::DirectoryPath;
use crate::roots::{FileRoots, REPOSITORY, WalkBorder};

/// The number of files of a directory that one step of the work has.
const BATCH: usize = 256;

/// The deepest directory that is visited. No tool opens deeper paths, and each directory above one
/// that waits is open.
const MAX_DEPTH: usize = 64;

/// The largest number of threads of a walk.
const MAX_THREADS: usize = 8;

/// The files that a walk visits.
#[derive(Default)]
pub(crate) struct WalkFilter {
    /// The globs of the files, relative to the directory.
    globs: Option<Override>,
    /// Also hidden files.
    hidden: bool,
    /// Also ignored files.
    ignored: bool,
}

/// The reasons for which a walk ends early.
#[derive(Clone)]
pub struct WalkControl {
    cancelled: Arc<AtomicBool>,
    deadline: Instant,
}

/// A file that a walk visits.
pub(crate) struct WalkedFile<'w> {
    /// The directory it lies in.
    pub(crate) dir: &'w Dir,
    pub(crate) name: &'w str,
    /// Its path for tools.
    pub(crate) path: &'w str,
    /// The device of the walk.
    pub(crate) device: u64,
}

/// The end of a walk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WalkReport {
    /// The time was over before the walk was.
    pub(crate) timed_out: bool,
    /// Directories and names that could not be read.
    pub(crate) unreadable: usize,
}

/// A directory whose entries are visited.
struct WalkedDirectory {
    dir: Dir,
    /// Its path below the root of the rules, empty or with a slash at the end.
    rel: String,
    rules: IgnoreRules,
}

/// A step of the work.
enum WalkStep {
    Directory { above: Arc<WalkedDirectory>, name: String },
    Files { dir: Arc<WalkedDirectory>, names: Vec<String> },
}

/// The steps that are not done yet.
struct StepQueue {
    steps: Mutex<(Vec<WalkStep>, usize)>,
    changed: Condvar,
}

struct Walk<'w> {
    /// The beginning of every path for tools, before `rel`.
    prefix: &'w str,
    /// The length of the path of the walk's own directory below the root of the rules.
    start: usize,
    filter: &'w WalkFilter,
    control: &'w WalkControl,
    border: WalkBorder,
    device: u64,
    queue: StepQueue,
    unreadable: AtomicUsize,
    timed_out: AtomicBool,
}

impl WalkFilter {
    /// Creates a filter of files by a glob, as in `.gitignore`; `!` in front excludes.
    ///
    /// # Errors
    /// `ErrorKind::InvalidArgument` for a malformed glob.
    pub(crate) fn new(glob: Option<&str>, all: bool) -> Result<Self> {
        let Some(glob) = glob.filter(|glob| !glob.is_empty()) else {
            return Ok(Self { globs: None, hidden: all, ignored: all });
        };
        let mut builder = OverrideBuilder::new("");
        let built = builder.add(glob).and_then(|builder| builder.build());
        let globs = built.map_err(|error| {
            ExtensionError::invalid_argument(format!("glob: {error}"))
                .with_hint("globs are as in .gitignore: *.rs, src/**/*.ts, !*.lock, *.{c,h}")
        })?;
        Ok(Self { globs: Some(globs), hidden: all, ignored: all })
    }

    /// Creates the filter of all files that are not ignored.
    pub(crate) fn untracked() -> Self {
        Self { globs: None, hidden: true, ignored: false }
    }
}

impl WalkControl {
    /// Creates the control of a walk that ends at the latest at `deadline`.
    #[must_use]
    pub fn new(deadline: Instant) -> Self {
        Self { cancelled: Arc::default(), deadline }
    }

    /// Returns a guard that ends the walk when it is dropped.
    #[must_use]
    pub fn cancel_on_drop(&self) -> CancelGuard {
        CancelGuard(Arc::clone(&self.cancelled))
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Returns whether the work has to end.
    pub(crate) fn is_over(&self) -> bool {
        self.is_cancelled() || Instant::now() >= self.deadline
    }
}

/// A guard that cancels the work of a call that is no longer awaited.
pub struct CancelGuard(Arc<AtomicBool>);

impl Drop for CancelGuard {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Visits the files below a directory on several threads, each with a visitor of its own. The order
/// of the visits is not defined.
///
/// # Errors
/// Those of the jail for the directory itself.
pub(crate) fn walk_files<V>(
    roots: &FileRoots,
    path: &DirectoryPath,
    filter: &WalkFilter,
    control: &WalkControl,
    new_visitor: impl Fn() -> V + Sync,
) -> Result<WalkReport>
where
    V: FnMut(&WalkedFile<'_>),
{
    let (start, border) = open_start(roots, path)?;
    let device = start.dir.dir_metadata()?.dev();
    let whole = DirectoryPath::root_of(path);
    let walk = Walk {
        prefix: &whole.entry_prefix(),
        start: start.rel.len(),
        filter,
        control,
        border,
        device,
        queue: StepQueue { steps: Mutex::default(), changed: Condvar::new() },
        unreadable: AtomicUsize::new(0),
        timed_out: AtomicBool::new(false),
    };
    walk.list(start, &mut new_visitor());
    let threads = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| walk.work(&mut new_visitor()));
        }
        walk.work(&mut new_visitor());
    });
    Ok(WalkReport {
        timed_out: walk.timed_out.into_inner(),
        unreadable: walk.unreadable.into_inner(),
    })
}

/// Opens the directory of a walk, with the rules of all directories above it.
fn open_start(roots: &FileRoots, path: &DirectoryPath) -> Result<(WalkedDirectory, WalkBorder)> {
    let whole = DirectoryPath::root_of(path);
    let border = roots.open_walk(path)?.border();
    let mut dir = roots.open_directory(&whole)?;
    let (mut rel, mut rules) = (String::new(), IgnoreRules::default());
    for component in path.inner().into_iter().flat_map(|inner| inner.components()) {
        rules = rules.enter(&dir, &rel, IgnoreFiles::find(&dir));
        let opened = jail::open_component(&dir, component);
        dir = opened.map_err(|error| crate::jail::EntryError::from(error).with_directory(path))?;
        rel.push_str(component);
        rel.push('/');
    }
    Ok((WalkedDirectory { dir, rel, rules }, border))
}

impl Walk<'_> {
    /// Does steps until none is left.
    fn work(&self, visit: &mut impl FnMut(&WalkedFile<'_>)) {
        while let Some(step) = self.queue.take() {
            // A step that panics must not leave the other threads waiting.
            let _done = StepGuard(&self.queue);
            if self.control.is_over() {
                self.timed_out.store(!self.control.is_cancelled(), Ordering::Relaxed);
                continue;
            }
            match step {
                WalkStep::Directory { above, name } => self.enter(&above, &name, visit),
                WalkStep::Files { dir, names } => self.visit_files(&dir, &names, visit),
            }
        }
    }

    fn enter(&self, above: &WalkedDirectory, name: &str, visit: &mut impl FnMut(&WalkedFile<'_>)) {
        let dir = match jail::open_component(&above.dir, name) {
            Ok(dir) if above.rel.matches('/').count() < MAX_DEPTH => dir,
            Ok(_) | Err(JailError::Io(_)) => {
                self.unreadable.fetch_add(1, Ordering::Relaxed);
                return;
            }
            // An entry that is gone, or a link by now, is no part of the walk.
            Err(_) => return,
        };
        match dir.dir_metadata() {
            Ok(metadata) if self.border.admits(metadata.dev(), metadata.ino()) => {}
            _ => return,
        }
        let rel = format!("{}{name}/", above.rel);
        self.list(WalkedDirectory { dir, rel, rules: above.rules.clone() }, visit);
    }

    /// Lists a directory, and visits or queues what is in it.
    fn list(&self, mut dir: WalkedDirectory, visit: &mut impl FnMut(&WalkedFile<'_>)) {
        let (mut files, mut inner, mut ignores) = (Vec::new(), Vec::new(), IgnoreFiles::default());
        let Ok(entries) = dir.dir.entries() else {
            self.unreadable.fetch_add(1, Ordering::Relaxed);
            return;
        };
        for entry in entries.flatten() {
            let (Ok(kind), Ok(name)) = (entry.file_type(), entry.file_name().into_string()) else {
                self.unreadable.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            ignores.record(&name);
            if kind.is_dir() {
                inner.push(name);
            } else if kind.is_file() {
                files.push(name);
            }
        }
        if !self.filter.ignored {
            dir.rules = dir.rules.enter(&dir.dir, &dir.rel, ignores);
        }
        let dir = Arc::new(dir);
        let is_top = dir.rel.is_empty();
        inner.retain(|name| {
            name != REPOSITORY
                && !(is_top && self.border.is_private(name))
                && self.is_wanted(&dir, name, true)
        });
        // Reversed, so that the stack yields them in the order of the disk.
        let steps = inner
            .into_iter()
            .rev()
            .map(|name| WalkStep::Directory { above: Arc::clone(&dir), name });
        self.queue.push(steps);
        if files.len() > BATCH {
            let batches: Vec<_> = files.split_off(BATCH).chunks(BATCH).map(<[_]>::to_vec).collect();
            let steps =
                batches.into_iter().map(|names| WalkStep::Files { dir: Arc::clone(&dir), names });
            self.queue.push(steps);
        }
        self.visit_files(&dir, &files, visit);
    }

    fn visit_files(
        &self,
        dir: &WalkedDirectory,
        names: &[String],
        visit: &mut impl FnMut(&WalkedFile<'_>),
    ) {
        let mut path = format!("{}{}", self.prefix, dir.rel);
        let length = path.len();
        for name in names.iter().filter(|name| self.is_wanted(dir, name, false)) {
            if self.control.is_over() {
                self.timed_out.store(!self.control.is_cancelled(), Ordering::Relaxed);
                return;
            }
            path.truncate(length);
            path.push_str(name);
            visit(&WalkedFile { dir: &dir.dir, name, path: &path, device: self.device });
        }
    }

    /// Returns whether globs, ignore rules and the name permit an entry.
    fn is_wanted(&self, dir: &WalkedDirectory, name: &str, is_dir: bool) -> bool {
        let is_hidden = name.starts_with('.');
        if self.filter.globs.is_none() && self.filter.hidden && self.filter.ignored {
            return true;
        }
        let rel = format!("{}{name}", dir.rel);
        if let Some(globs) = &self.filter.globs {
            let matched = globs.matched(&rel[self.start..], is_dir);
            if matched.is_ignore() {
                return false;
            }
            // A glob that names hidden or ignored files includes them, as in ripgrep.
            if matched.is_whitelist() && !is_dir {
                return true;
            }
        }
        // Without the rules of ignored files, there are none.
        match dir.rules.is_ignored(&rel, is_dir) {
            Some(is_ignored) => !is_ignored,
            None => self.filter.hidden || !is_hidden,
        }
    }
}

impl StepQueue {
    fn push(&self, steps: impl Iterator<Item = WalkStep>) {
        let mut queue = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        queue.0.extend(steps);
        drop(queue);
        self.changed.notify_all();
    }

    /// Takes the latest step: depth first, so that few directories are open. Waits while other
    /// threads may add steps; `None` when all work is done.
    fn take(&self) -> Option<WalkStep> {
        let mut queue = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(step) = queue.0.pop() {
                queue.1 += 1;
                return Some(step);
            }
            if queue.1 == 0 {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A guard that marks a step as done.
struct StepGuard<'q>(&'q StepQueue);

impl Drop for StepGuard<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.steps.lock().unwrap_or_else(PoisonError::into_inner);
        queue.1 -= 1;
        let is_done = queue.1 == 0 && queue.0.is_empty();
        drop(queue);
        if is_done {
            self.0.changed.notify_all();
        }
    }
}
