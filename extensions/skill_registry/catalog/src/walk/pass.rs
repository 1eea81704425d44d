//! The inputs, the state and the result of a pass.

use std::sync::Arc;
use std::time::SystemTime;

use crate::cache::TextCache;
use crate::entry::ScannedDirectory;
use crate::ignore::IgnorePatterns;
use crate::options::ScanLimits;
use crate::problem::{PartialReason, ScanProblem};
use crate::roots::OpenRoot;
use crate::signature::FileSignature;
use crate::skill::Skill;

/// The amount of reading in a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScanMode {
    /// Every file up to its closing fence: the first pass.
    Listing,
    /// The changed files, completely.
    Changes,
    /// Every file, completely.
    Everything,
}

/// The inputs of a pass.
#[derive(Clone, Copy)]
pub(crate) struct ScanContext<'a> {
    pub(crate) roots: &'a [OpenRoot],
    pub(crate) ignore: &'a IgnorePatterns,
    pub(crate) limits: ScanLimits,
    pub(crate) cache: &'a TextCache,
    /// The result of the previous pass, sorted; empty at first.
    pub(crate) previous: &'a [ScannedDirectory],
    pub(crate) mode: ScanMode,
    pub(crate) now: SystemTime,
}

/// The result of a pass.
#[derive(Debug, Default)]
pub(crate) struct ScanResult {
    /// Sorted by [`ScannedDirectory::key`].
    pub(crate) containers: Vec<ScannedDirectory>,
    /// The problems of directories; entries carry their own problems.
    pub(crate) problems: Vec<Arc<ScanProblem>>,
    pub(crate) partial: Vec<PartialReason>,
    /// The number of opened SKILL.md files.
    pub(crate) opened: usize,
    /// The number of examined files.
    pub(crate) stats: usize,
    /// Skills in places where there was none before, with the stamps of their files.
    pub(super) fresh: Vec<(Arc<Skill>, FileSignature)>,
}

/// The state of a running pass.
pub(super) struct RootScanner<'a> {
    pub(super) setting: ScanContext<'a>,
    pub(super) walked: ScanResult,
    /// A buffer for the content of files.
    pub(super) buffer: Vec<u8>,
    /// A buffer for paths.
    pub(super) path: String,
    // Cleared per root: the paths are relative to it.
    /// The paths below the current root at which other roots start.
    pub(super) inner_roots: Vec<String>,
    pub(super) directories: usize,
    pub(super) skills: usize,
    /// A limit was reached.
    pub(super) exhausted: bool,
}
